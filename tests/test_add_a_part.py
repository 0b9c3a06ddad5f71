"""The skeletons of docs/add_a_part.md, in a package that declares them: each is picked up without another edit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot
from surefoot.registry import KINDS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "add_a_part.md").read_text()
SKELETONS = dict(re.findall(r"```python\n# my_parts/(\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
NAMES = {
    "losses": "poly1",
    "metrics": "spherical",
    "optimizers": "nadam",
    "ensembles": "moving_average",
    "calibrators": "matched",
    "sets": "margin",
    "trackers": "weight_norm",
    "data": "two_moons",
    "models": "perceptron",
    "augmentations": "dimmed",
    "studies": "z1",
}


def install(site: Path, package: str, files: dict[str, str]) -> None:
    """Put a package where Python looks for it, as an installer would."""
    (site / package).mkdir(parents=True)
    for name, text in files.items():
        (site / package / f"{name}.py").write_text(text)
    about = site / f"{package}-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(f"[surefoot.parts]\n{package} = {package}\n")


def call(site: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(site), str(Path(surefoot.__file__).parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    install(folder, "my_parts", {"__init__": "", **SKELETONS})
    return folder


def test_there_is_a_skeleton_of_every_kind_and_each_is_one_file() -> None:
    assert set(SKELETONS) == set(NAMES.values())
    assert set(KINDS) - set(NAMES) == {"corruptions", "figures"}


def test_they_are_trained_with_and_shown(site: Path, tmp_path: Path) -> None:
    words = [
        "-m",
        "surefoot",
        "compare",
        "--methods",
        "poly1:epsilon=2 + moving_average + sam:base=nadam",
        "--data",
        "two_moons",
    ]
    words += ["--model", "perceptron:width=4", "--track", "weight_norm:every=1"]
    words += ["--metrics", "accuracy,spherical,ece@matched"]
    done = call(site, *words, "--epochs", "1", "--seeds", "1", "--jobs", "1", "--out", "runs", "--json", cwd=tmp_path)
    assert "spherical" in done.stdout
    assert "ece@matched" in done.stdout
    (run,) = (path.parent for path in (tmp_path / "runs").glob("*/done.json"))
    assert "weights/norm" in (run / "steps.jsonl").read_text()
    spec = json.loads((run / "spec.json").read_text())["spec"]
    assert all(
        spec["method"][part]["source"] for part in ("loss", "base", "ensemble")
    )  # the hash of the file that a part is in
    assert spec["method"]["optimizer"].get("source") is None


def test_studies_and_tables_know_them(site: Path, tmp_path: Path) -> None:
    assert "z1" in call(site, "-m", "surefoot", "study", "list", cwd=tmp_path).stdout
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- parts: {kind} -->\n<!-- end -->\n" for kind in NAMES))
    call(site, str(ROOT / "scripts" / "tables.py"), "--all", str(page), cwd=tmp_path)
    rows = re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE)
    assert set(NAMES.values()) <= set(rows)
    assert "| `poly1` | Cross-entropy plus epsilon times" in page.read_text()


def test_contract_tests_run_on_them(site: Path, tmp_path: Path) -> None:
    """In a copy of the tests, because the ones here are being run."""
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rooms = ("losses", "metrics", "optim", "ensembles", "calibrators", "prediction_sets", "trackers", "models")
    files = [f"tests/{room}/test_contract.py" for room in rooms]
    files += ["tests/data/test_loaders.py", "tests/data/test_augment.py", "tests/studies/test_studies.py"]
    # All studies are run together where results are looked at: what each says is checked here.
    chosen = " or ".join([*(name for name in NAMES.values() if name != "z1"), "(z1 and says)"])
    words = ["-m", "pytest", "-p", "no:xdist", "-rp", "-k", chosen, *files]
    done = call(site, *words, cwd=tmp_path)
    passed = re.findall(r"^PASSED \S+\[(.*)\]", done.stdout, re.MULTILINE)
    found = {name: sum(name in case for case in passed) for name in NAMES.values()}
    assert all(found.values()), found


def test_all_are_listed_and_broken_and_clashing_packages_are_left_out(site: Path, tmp_path: Path) -> None:
    there = tmp_path / "site"
    shutil.copytree(site, there)
    half = SKELETONS["poly1"].replace('"poly1"', '"half"')
    install(there, "a_broken_one", {"__init__": f"{half}\n1 / 0\n"})
    again = SKELETONS["poly1"].replace("Poly1", "Another")
    install(there, "no_second", {"__init__": again})
    install(there, "the_same", {"__init__": again.replace('"poly1"', '"focal"')})
    done = call(there, "-m", "surefoot", "list", "--json", cwd=tmp_path)
    listed = {kind: [part["name"] for part in parts] for kind, parts in json.loads(done.stdout).items()}
    for kind, name in NAMES.items():
        assert name in listed[kind]
    assert "half" not in listed["losses"]
    said = sorted(done.stderr.splitlines())
    assert len(said) == 3
    assert re.search(r"package 'a-broken-one' are left out, .* \(ZeroDivisionError: division by zero\)", said[0])
    assert re.search(r"'no-second' .*name in no_second, but 'poly1' is registered already, by my_parts\.poly1", said[1])
    assert re.search(r"'the-same' .*'focal' is registered already, by surefoot\.losses\.focal", said[2])


def test_public_names_are_functions_and_classes_whatever_is_imported_first(tmp_path: Path) -> None:
    script = """
import surefoot.calibrators.tce, surefoot.data.text, surefoot.losses.focal, surefoot.models.mlp
import importlib, inspect, pkgutil
for room in ("losses", "calibrators", "models", "data"):
    package = importlib.import_module(f"surefoot.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"surefoot.{room}.{module.name}")
    assert len(set(package.__all__)) == len(package.__all__) > 10
    for name in package.__all__:
        assert not inspect.ismodule(getattr(package, name)) and not name.startswith("_"), name
"""
    call(tmp_path, "-c", script, cwd=tmp_path)
