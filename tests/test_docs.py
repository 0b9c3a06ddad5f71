"""What the documents say is executed and true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot
from surefoot.method import parse_method, split_methods
from surefoot.registry import KINDS
from tests.test_cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
BLOCK = re.compile(r"```python\n(.*?)```\s*(?:```text\n(.*?)```)?", re.DOTALL)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def test_the_python_example_runs_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    code, printed = BLOCK.findall(README)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.sub(r"\d+\.\d+", "#", done.stdout) == re.sub(r"\d+\.\d+", "#", printed)
    assert numbers(done.stdout) == pytest.approx(numbers(printed), abs=0.03)  # other machines round otherwise
    assert len([line for line in code.splitlines() if line and "import" not in line]) <= 10


def test_the_newcomers_commands_come_first() -> None:
    commands = re.findall(r"^(make \w+|pip install \S+|surefoot \w+)", README, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
    assert "pip install ." in README


def test_the_part_in_one_file_works_as_the_readme_shows_it() -> None:
    """The README's new loss is registered, listed and trainable without touching another file."""
    code = BLOCK.findall(README)[1][0]
    script = f"{code}\nfrom surefoot.registry import LOSSES\nimport torch\nspec = LOSSES.parse('brier_loss')\n"
    script += "print(LOSSES.build(spec)(torch.zeros(1, 2), torch.tensor([0])))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0.5000" in done.stdout


def test_the_tree_in_the_readme_is_the_real_one() -> None:
    tree = README.split("src/surefoot/\n", 1)[1].split("```", 1)[0]
    named = set(re.findall(r"^  ([a-z_]+(?:\.py|/))", tree, re.MULTILINE))
    source = ROOT / "src" / "surefoot"
    real = {path.name + ("/" if path.is_dir() else "") for path in source.iterdir() if not path.name.startswith("_")}
    assert named == {name for name in real if name.endswith((".py", "/"))}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"surefoot {command}" in README


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_the_changelog_knows_the_version() -> None:
    assert f"## {surefoot.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.usefixtures("mypkg")
def test_commands_named_in_documents_parse() -> None:
    """Methods, models and data sets that the documents mention exist."""
    for document in DOCUMENTS:
        quoted = [text for _, text in re.findall(r"--methods? (['\"])(.+?)\1", document.read_text())]
        for text in quoted + re.findall(r"--methods ([^\s'\"`]+)", document.read_text()):
            for method in split_methods(text):
                parse_method(method)
        for name in re.findall(r"--model (\w+)\b(?![:.])", document.read_text()):
            assert name in KINDS["models"], name
