"""Fixtures for tests that read tables."""

from __future__ import annotations

import pytest

from surefoot.sources import readers


@pytest.fixture(params=[True, False], ids=["pyarrow", "plain"])
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Read tables with pyarrow, and without it."""
    if request.param:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.setattr(readers, "_has_pyarrow", lambda: request.param)
    return bool(request.param)
