"""The page about metrics names all of them."""

import re
from pathlib import Path

import pytest

from surefoot.registry import CALIBRATORS, METRICS

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.mark.parametrize("part", [*METRICS, *CALIBRATORS], ids=lambda part: part.name)
def test_page_has_an_entry(part) -> None:
    assert f"`{part.name}`" in PAGE.read_text()


def test_page_has_no_placeholder() -> None:
    assert "<!--" not in re.sub(r"<!-- (parts: \w+|end|not run: [^>]+|run by [^>]+) -->", "", PAGE.read_text())
