"""What the documents say is executed and true."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

import pytest
import typer

import surefoot
from surefoot.cli import app
from surefoot.method import parse_method, split_methods
from surefoot.registry import KINDS
from tests.blocks import PAGES, ROOT, SMALL, blocks_of, furnish, names_at_hand
from tests.conftest import RunCommand
from tests.test_cli import COMMANDS

README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
DOCUMENTS = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
@pytest.mark.usefixtures("mypkg")
def test_every_code_block_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_command: RunCommand,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Blocks of a page run one after another in one folder; what a block prints stands in the text block behind it."""
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    blocks, space = blocks_of(page), names_at_hand()
    for block, behind in zip_longest(blocks, blocks[1:]):
        if block.mark is not None or not block.is_code:
            continue
        where = f"{page.name}:{block.line}"
        if block.is_shell:
            for words in block.commands():
                done = run_command(*words, *SMALL.get(words[0], "").split(), cwd=tmp_path)
                assert done.returncode == 0, f"{where}: surefoot {' '.join(words)}: {done.stderr}"
            assert block.commands(), f"{where}: no command of ours; say why it is not run: <!-- not run: … -->"
            continue
        capsys.readouterr()
        exec(compile(block.code, where, "exec"), space)
        printed = capsys.readouterr().out
        if behind is not None and behind.language == "text":
            assert re.sub(r"\d+\.\d+", "#", printed) == re.sub(r"\d+\.\d+", "#", behind.code), where
            assert numbers(printed) == pytest.approx(numbers(behind.code), abs=0.03), where  # machines round otherwise


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_that_are_not_run_have_the_options_they_name(page: Path) -> None:
    """Parsed, not run: a flag that is gone is found in any case."""
    group = typer.main.get_command(app)
    for block in blocks_of(page):
        for name, *words in block.commands() if block.is_shell and block.mark else []:
            command = group.commands[name]
            if "--config" in words:  # would be read
                del words[words.index("--config") : words.index("--config") + 2]
            context = command.make_context(name, list(words))
            if hasattr(command, "commands"):
                command.commands[words[0]].make_context(words[0], words[1:], parent=context)


def test_a_block_that_is_run_elsewhere_names_a_test() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.mark and block.mark.startswith("run by "):
                assert (ROOT / block.mark.removeprefix("run by ")).is_file(), block.mark


def test_the_newcomers_commands_come_first() -> None:
    commands = re.findall(r"^(make \w+|pip install \S+|surefoot \w+)", README, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
    assert "pip install ." in README


def test_the_readme_is_short_and_opens_with_a_picture() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert any(line.startswith("![") for line in lines[:10])


def test_the_tree_in_the_architecture_is_the_real_one() -> None:
    tree = ARCHITECTURE.split("## The tree", 1)[1].split("src/surefoot/\n", 1)[1].split("```", 1)[0]
    named = set(re.findall(r"^  ([a-z_]+(?:\.py|/))", tree, re.MULTILINE))
    source = ROOT / "src" / "surefoot"
    real = {path.name + ("/" if path.is_dir() else "") for path in source.iterdir() if not path.name.startswith("_")}
    assert named == {name for name in real if name.endswith((".py", "/"))}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_on_its_page(command: str) -> None:
    assert f"surefoot {command}" in (ROOT / "docs" / "commands.md").read_text()


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
    for document in (path for path in DOCUMENTS if path.name != "add_a_part.md"):  # which names parts of its own
        quoted = [text for _, text in re.findall(r"--methods? (['\"])(.+?)\1", document.read_text())]
        for text in quoted + re.findall(r"--methods ([^\s'\"`]+)", document.read_text()):
            for method in split_methods(text):
                parse_method(method)
        for name in re.findall(r"--model (\w+)\b(?![:.])", document.read_text()):
            assert name in KINDS["models"], name
