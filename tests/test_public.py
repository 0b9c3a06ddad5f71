"""The public names: exact, deliberate, never modules; and documents use no others."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("public_names.txt")
ROOMS = sorted(
    f"surefoot.{path.parent.name}"
    for path in (ROOT / "src" / "surefoot").glob("*/__init__.py")
    if "__all__" in path.read_text()
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def public_names() -> list[str]:
    rooms = {name: import_module(name) for name in ("surefoot", *ROOMS)}
    return sorted(f"{room}.{name}" for room, module in rooms.items() for name in module.__all__)


def test_the_public_names_are_those_on_the_list() -> None:
    listed, real = LIST.read_text().split(), public_names()
    new, gone = sorted(set(real) - set(listed)), sorted(set(listed) - set(real))
    assert (new, gone) == ([], []), (
        f"New: {new}. Gone: {gone}. Names are a promise: if this is meant, run `python -m tests.test_public` to write "
        f"{LIST.name} anew, and say so in the changelog."
    )


def test_no_public_name_is_a_module_or_private() -> None:
    for full in public_names():
        room, _, name = full.rpartition(".")
        assert not name.startswith("_"), full
        assert not inspect.ismodule(getattr(import_module(room), name)), full


def test_functions_stay_functions_whatever_is_imported_first() -> None:
    script = (
        "import surefoot.auditing.audit, surefoot.calibrators.compare, surefoot.metrics.ece, surefoot.studies.compare\n"
        "from surefoot import audit, calibrate, compare, load_run, train, ece\n"
        "import surefoot.api, surefoot.losses.brier, surefoot.metrics.brier\n"
        "from surefoot.optim import CSAM\nfrom surefoot.metrics import ece as same\nfrom surefoot.losses import Loss\n"
        "assert all(map(callable, (audit, calibrate, compare, load_run, train, ece))) and same is ece\n"
        "assert isinstance(CSAM, type) and isinstance(Loss, type)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PRIVATE = re.compile(
    r"^\s*(?:>>> )?(?:from surefoot\S*\._|from surefoot\S* import .*\b_|import surefoot\S*\._)", re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_document_imports_a_private_name(page: Path) -> None:
    assert PRIVATE.findall(page.read_text()) == []


@pytest.mark.parametrize(
    "line", ["from surefoot.losses._base import Loss", "from surefoot.optim import _x", "import surefoot.a._b"]
)
def test_the_test_of_private_names_can_fail(line: str) -> None:
    assert PRIVATE.search(f"text\n{line}\n")


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n")
