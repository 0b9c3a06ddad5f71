"""Write the docs' tables of parts from the registries.

A page asks for a table by two lines, ``<!-- parts: losses -->`` and ``<!-- end -->``; what stands between them is
replaced. The kinds are those of ``surefoot list``. Run ``python scripts/tables.py`` after adding or changing a part.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.registry import KINDS, Part

DOCS = Path(__file__).parents[1] / "docs"
PLACE = re.compile(r"(<!-- parts: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
# What is shown beside name, summary and options: fact → head of the column.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "optimizers": {"passes": "passes per step", "reference": "reference"},
    "losses": {"reference": "reference"},
    "ensembles": {"reference": "reference"},
    "metrics": {"label": "label", "unit": "unit", "lower_is_better": "better", "range": "range", "reference": "source"},
    "calibrators": {"keeps_order": "keeps decisions", "reference": "reference"},
    "sets": {"reference": "reference"},
    "models": {"reference": "reference"},
    "data": {"licence": "licence"},
    "augmentations": {},
    "corruptions": {"group": "group", "main": "of the 15"},
    "trackers": {"preset": "in preset"},
    "studies": {},
    "figures": {},
}  # fmt: skip


def table(kind: str, *, everyone: bool = False) -> str:
    """Write the parts of a kind as a table.

    Args:
        kind: As ``surefoot list`` calls it.
        everyone: Include the parts of other packages that are installed.

    Returns:
        Lines of Markdown; columns that no part has anything for are left out.
    """
    parts = [part for part in KINDS[kind] if everyone or part.package == "surefoot"]
    columns = {"name": [f"`{part.name}`" for part in parts], "what it does": [part.summary for part in parts]}
    columns["options"] = [", ".join(f"`{option}`" for option in part.options.values()) for part in parts]
    for fact, head in COLUMNS[kind].items():
        columns[head] = [_shown(fact, part) for part in parts]
    kept = {head: cells for head, cells in columns.items() if any(cells)}
    lines = [list(kept), ["---"] * len(kept), *map(list, zip(*kept.values(), strict=True))]
    return "".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |\n" for line in lines)


def _shown(fact: str, part: Part) -> str:
    value: Any = part.facts.get(fact)
    if fact == "lower_is_better":
        return {True: "lower", False: "higher", None: ""}[value]
    if fact == "range":
        return "…".join("∞".rjust(1 + (end < 0), "−") if math.isinf(end) else f"{end:g}" for end in value)
    return {True: "yes", False: "no", None: ""}[value] if value is None or isinstance(value, bool) else str(value)


def with_tables(page: str, *, everyone: bool = False) -> str:
    """Return a page with its tables as they should be.

    Args:
        page: Its text.
        everyone: Include the parts of other packages that are installed.

    Returns:
        The text.
    """
    return PLACE.sub(lambda place: f"{place[1]}{table(place[2], everyone=everyone)}{place[3]}", page)


def main() -> None:
    """Rewrite the pages that are named, or those of the docs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="pages to rewrite; else all of docs/")
    parser.add_argument("--all", action="store_true", help="include the parts of other packages that are installed")
    given = parser.parse_args()
    for page in given.pages or sorted(DOCS.glob("*.md")):
        text = page.read_text()
        if (new := with_tables(text, everyone=given.all)) != text:
            page.write_text(new)
            print(f"Rewritten: {page.name}")


if __name__ == "__main__":
    main()
