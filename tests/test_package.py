"""What a user with pip gets."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from trove_classifiers import classifiers

import surefoot

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_is_complete(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for path in (ROOT / "src" / "surefoot").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT / "src").as_posix() in names
    assert {"surefoot/py.typed", "surefoot/data/fashion.npz", "surefoot/report/template.html"} <= names


def test_the_embedded_data_bring_their_licence(wheel: zipfile.ZipFile) -> None:
    text = wheel.read("surefoot/data/LICENSE-fashion-mnist.txt").decode()
    assert "Zalando" in text
    assert "The above copyright notice and this permission notice shall be included" in text


def test_dependencies_are_ranges_and_pinned_for_the_set_up() -> None:
    extras = [need for needs in PROJECT["optional-dependencies"].values() for need in needs if "surefoot[" not in need]
    pinned = {name.lower().replace("_", "-") for name in PINS}
    for need in [*PROJECT["dependencies"], *extras]:
        name = re.split(r"[>=<\[]", need)[0]
        assert ">=" in need
        assert name.lower().replace("_", "-") in pinned, name
    assert PINS["torch"] == "2.13.0"


def test_the_citation_names_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (surefoot.__version__, PROJECT["license"])
    assert cited["repository-code"] == PROJECT["urls"]["Repository"]


def test_the_classifiers_exist() -> None:
    assert set(PROJECT["classifiers"]) <= classifiers


def test_the_image_copies_what_it_needs() -> None:
    """The Dockerfile names files that are there, and .dockerignore lets them through."""
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    let = (ROOT / ".dockerignore").read_text().split()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in let, name
