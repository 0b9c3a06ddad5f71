"""A file elsewhere whose reading fails in the midst is told as that, whatever its format and whatever is raised."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.reaching import reached

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'surefoot[remote]'")


class Lost(io.BytesIO):
    """Reads some bytes, then the connection is lost."""

    trouble: Exception = ConnectionResetError("reset by peer")
    left = 3000

    def read(self, size: int | None = -1) -> bytes:
        self.left -= 1 << 16 if size is None or size < 0 else size
        if self.left < 0:
            raise self.trouble
        return super().read(size)


@pytest.mark.parametrize("trouble", [ConnectionResetError("reset"), RuntimeError("closed"), ValueError("bad part")])
@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.jsonl"])
def test_it_is_no_damaged_file(name: str, trouble: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem().pipe_file(f"/lost/{name}", b"x" * 10_000)
    monkeypatch.setattr(Lost, "trouble", trouble)
    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *_, **__: Lost(b"label,p0,p1\n" + b"0,0.5,0.5\n" * 1000))
    what = rf"Expected to reach memory:.*{name}, but it fails \({type(trouble).__name__}: {trouble}\)\. Check the"
    with pytest.raises(InputError, match=what):
        sf.audit(f"memory://lost/{name}")


def test_it_reads_seeks_and_closes_as_the_file_does() -> None:
    held = io.BytesIO(np.arange(100, dtype=np.uint8).tobytes())
    with reached(held, "memory://a") as file:
        assert file.read(3) == b"\x00\x01\x02"
        assert file.seek(-2, 2) == 98
        assert file.read() == b"cb"[::-1]
        assert (file.readable(), file.seekable(), file.tell()) == (True, True, 100)
    assert held.closed


def test_what_is_wrong_with_a_call_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    def fail(*_: Any, **__: Any) -> None:
        raise PermissionError("403 Forbidden\nfor you")

    monkeypatch.setattr(MemoryFileSystem, "isfile", fail)
    monkeypatch.setattr(MemoryFileSystem, "isdir", fail)
    monkeypatch.setattr(MemoryFileSystem, "exists", fail)
    with pytest.raises(InputError, match=r"Expected to reach memory:.*\(PermissionError: 403 Forbidden\)\. Check"):
        sf.audit("memory://b.csv")
