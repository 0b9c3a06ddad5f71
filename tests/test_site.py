"""The documentation site: what is added to docs/, and that it builds without a warning and asks no other host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="make site installs it")
pytest.importorskip("griffe")

from scripts.site_hooks import OUTSIDE, ROOMS, ROOT, home, public_names, reference, turned

KNOWN = {"index.md", "audit.md", "tutorials/my_loop.md", "RESULTS.md", "reliability.svg"}


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("index.md", "[a](docs/audit.md#x)", "[a](audit.md#x)"),
        ("index.md", "![a](docs/reliability.svg)", "![a](reliability.svg)"),
        ("audit.md", "[r](../RESULTS.md)", "[r](RESULTS.md)"),
        ("tutorials/my_loop.md", "[r](../../RESULTS.md), [a](../audit.md)", "[r](../RESULTS.md), [a](../audit.md)"),
        ("RESULTS.md", "in [results](results)", "in results"),  # a folder that is not on the site
        ("audit.md", "[gone](nowhere.md)", "[gone](nowhere.md)"),  # left to MkDocs, which fails on it
        ("audit.md", "[out](https://example.org/a.md)", "[out](https://example.org/a.md)"),
        ("audit.md", "```\n[a](docs/audit.md)\n```", "```\n[a](docs/audit.md)\n```"),
    ],
)
def test_links_are_turned(page: str, before: str, after: str) -> None:
    assert turned(before, page, KNOWN) == after


def test_names_are_found_where_they_are_defined() -> None:
    assert home("surefoot", "ece") == "surefoot.metrics.ece.ece"
    assert home("surefoot", "CSAM") == "surefoot.optim.csam.CSAM"


def test_every_room_and_every_public_name_is_in_the_reference() -> None:
    names = public_names()
    assert {f"surefoot.{room}" for room in ROOMS} | {"surefoot"} == set(names)
    text = "\n".join(reference().values())
    for room, here in names.items():
        for name in here:
            assert f"::: {home(room, name)}\n" in text


def test_the_files_from_outside_are_there() -> None:
    assert all((ROOT / source).is_file() for source in OUTSIDE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return out


def test_no_page_asks_another_host(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//([^"/]+)')
    for page in site.rglob("*.html"):
        assert not loads.findall(page.read_text()), page.name


def test_formulas_are_set_by_a_script_of_the_site(site: Path) -> None:
    theory = (site / "theory.html").read_text()
    assert 'class="arithmatex"' in theory
    assert "assets/mathjax-tex-svg.js" in theory
    assert (site / "assets" / "mathjax-tex-svg.js").stat().st_size > 1_000_000
