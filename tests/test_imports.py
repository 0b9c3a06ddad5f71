"""Imports go downward only, the light parts stay light, and the public names are exact."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot

SOURCE = Path(surefoot.__file__).parent
LAYERS = {
    0: {
        *("schema", "errors", "registry", "seeding", "modes", "structure", "scaling", "batches", "outputs"),
        *("imported", "options", "method", "metric_keys", "config", "grid", "moment", "corrections", "__init__"),
        *("space", "clusters", "cluster_head", "ranks", "places", "reaching", "logs", "harmless", "atomic", "troubles"),
        "json_values",
    },
    1: {"data", "models", "losses", "optim", "metrics", "calibrators", "margins", "curvature"},
    2: {"ensembles", "prediction_sets", "sources", "training", "records", "statistics", "steering"},
    3: {
        "trackers",
        "evaluate",
        "experiment",
        "certificate",
        "auditing",
        "shift",
        "settings",
        "calibrated",
        "assembly",
        "trained",
    },
    4: {"studies", "report"},
    5: {"api", "serve", "integrations"},
    6: {"cli", "__main__"},
}
SIDEWAYS = {
    ("training", "records"),
    ("training", "ensembles"),
    ("training", "steering"),
    ("prediction_sets", "statistics"),
    ("experiment", "trackers"),
    ("experiment", "evaluate"),
    ("trackers", "certificate"),
    ("settings", "trackers"),
    ("experiment", "assembly"),
    ("trained", "assembly"),
    ("trained", "trackers"),
    ("shift", "trained"),
    ("studies", "report"),
    ("calibrated", "integrations"),  # a calibrated model writes itself as ONNX
    ("api", "integrations"),
    ("integrations", "api"),
    ("__main__", "cli"),
}
LEVEL = {room: level for level, rooms in LAYERS.items() for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def wrong_doors(path: Path, source: str) -> list[str]:
    """List the imports in a file that go up, or sideways where no door is."""
    room, found = room_of(path), []
    tree = ast.parse(source)
    skipped = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("surefoot"):
            names = [node.module] if "." in node.module else [f"surefoot.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("surefoot.")]
        else:
            continue
        for name in names:
            target = name.split(".")[1] if "." in name else "__init__"
            target = target if target in LEVEL else "__init__"  # a public name of the package itself
            if target == room or (room, target) in SIDEWAYS:
                continue
            if LEVEL[target] >= LEVEL[room] and not (LEVEL[target] == LEVEL[room] == 0):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} imports {name}")
    return found


FILES = sorted(SOURCE.rglob("*.py"))


def test_every_room_has_a_layer() -> None:
    assert {room_of(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downward(path: Path) -> None:
    assert wrong_doors(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("metrics/x.py", "from surefoot.training.loop import fit"),
        ("optim/x.py", "from surefoot.losses.cross_entropy import CrossEntropy"),
        ("training/x.py", "def f():\n    from surefoot.trackers import quality"),
        ("records/x.py", "import surefoot.training.loop"),
        ("report/x.py", "from surefoot.studies import compare"),
        ("schema.py", "from surefoot import data"),
    ],
)
def test_the_layer_test_can_fail(file: str, line: str) -> None:
    assert len(wrong_doors(SOURCE / file, line)) == 1


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code", ["import surefoot", "import surefoot.cli", "import surefoot.report.page, surefoot.report.tables"]
)
def test_light_parts_do_not_import_torch(code: str) -> None:
    assert "torch" not in loaded_after(code)


def test_the_torch_test_can_fail() -> None:
    assert "torch" in loaded_after("import surefoot.optim")


def test_public_names_are_exact() -> None:
    for name in surefoot.__all__:
        assert getattr(surefoot, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = surefoot.nosuch
