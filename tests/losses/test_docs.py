"""The documents name every loss and network, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from surefoot.method import parse_method
from surefoot.registry import LOSSES, MODELS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("document", "kind"), [("losses.md", LOSSES), ("models.md", MODELS)])
def test_every_part_has_a_row(document: str, kind: object) -> None:
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / document).read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    hooks = {"attach", "prepare", "evaluate", "observe", "epoch_end"}
    assert named - hooks == {part.name for part in kind if part.package == "surefoot"}


@pytest.mark.usefixtures("mypkg")
def test_methods_in_the_text_can_be_typed() -> None:
    text = (DOCS / "losses.md").read_text()
    typed = re.findall(r"`((?:[a-z_]+):[a-z_0-9]+=[^`]*)`", text) + re.findall(r'--method "(.*?)"', text)
    assert len(typed) >= 5
    for method in typed:
        parse_method(method)
