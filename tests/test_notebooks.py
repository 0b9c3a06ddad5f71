"""The notebooks run, and what they keep is small and has no machine in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

from scripts.notebooks import NOTEBOOKS, run  # noqa: E402

ALL = sorted(NOTEBOOKS.glob("*.ipynb"))
pytestmark = pytest.mark.filterwarnings("default")  # those of the kernel's own libraries


def test_there_are_three() -> None:
    assert [path.stem for path in ALL] == ["audit_a_file", "train_and_compare", "watch_sharpness"]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = run(path, tmp_path)
    kept = nbformat.read(path, as_version=4)
    assert [cell.source for cell in made.cells] == [cell.source for cell in kept.cells]
    shapes = [[sorted(out.get("data", {"text": 0})) for out in cell.get("outputs", [])] for cell in made.cells]
    assert shapes == [[sorted(o.get("data", {"text": 0})) for o in cell.get("outputs", [])] for cell in kept.cells]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_what_it_keeps_is_small_and_names_no_machine(path: Path) -> None:
    text = path.read_text()
    assert len(text) < 100_000
    assert not any(word in text for word in ("/root/", "/home/", "/tmp/", "Traceback"))
    assert all(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells[-3:] if cell.cell_type == "code")


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_its_links_lead_somewhere(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        for target in re.findall(r"\]\(([^)#]+)", cell.source) if cell.cell_type == "markdown" else []:
            assert (path.parent / target).exists(), target
