"""The pages about metrics and calibrators name all of them."""

import re
from pathlib import Path

import pytest

from surefoot.registry import CALIBRATORS, METRICS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "metrics.md"


@pytest.mark.parametrize("part", list(METRICS), ids=lambda part: part.name)
def test_page_has_an_entry(part) -> None:
    assert f"`{part.name}`" in PAGE.read_text()


@pytest.mark.parametrize("part", list(CALIBRATORS), ids=lambda part: part.name)
def test_page_of_calibrators_has_an_entry_and_a_formula(part) -> None:
    assert (DOCS / "calibrators.md").read_text().count(f"| `{part.name}` |") >= 2


def test_page_has_no_placeholder() -> None:
    assert "<!--" not in re.sub(r"<!-- (parts: \w+|end|not run: [^>]+|run by [^>]+) -->", "", PAGE.read_text())
