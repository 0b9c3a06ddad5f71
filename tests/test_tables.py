"""The docs' tables of parts are those of the registries."""

from __future__ import annotations

import pytest
from scripts.tables import COLUMNS, DOCS, PLACE, table, with_tables

from surefoot.registry import KINDS

PAGES = {page.name: page.read_text() for page in sorted(DOCS.glob("*.md")) if PLACE.search(page.read_text())}


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_up_to_date(page: str) -> None:
    assert PAGES[page] == with_tables(PAGES[page]), "Run python scripts/tables.py"


def test_every_kind_has_its_table_in_one_page() -> None:
    assert sorted(kind for text in PAGES.values() for _, kind, _ in PLACE.findall(text)) == sorted(KINDS)
    assert set(COLUMNS) == set(KINDS)


def test_a_table_that_is_not_up_to_date_is_noticed() -> None:
    page, row = PAGES["losses.md"], "| `focal` | Cross-entropy times (1 - p_y)^gamma"
    assert row in table("losses")
    assert with_tables(page.replace(row, "| `focal` | Something else")) == page
