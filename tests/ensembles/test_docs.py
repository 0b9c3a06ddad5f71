"""What the document says is executed and true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.method import parse_method
from surefoot.registry import ENSEMBLES

TEXT = (Path(__file__).parents[2] / "docs" / "ensembles.md").read_text()


def test_every_ensemble_has_a_row_with_its_real_options() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", TEXT, re.MULTILINE))
    assert rows.keys() == {part.name for part in ENSEMBLES}
    for name, row in rows.items():
        defaults = {str(option) for option in ENSEMBLES[name].options.values()}
        for said in re.findall(r"`(\w+=[\d.]+)`", row):
            assert said in defaults, (name, said)


def test_methods_in_the_text_can_be_typed() -> None:
    typed = re.findall(r'--method "(.*?)"', TEXT)
    assert len(typed) >= 2
    assert all(parse_method(method).ensemble for method in typed)


def test_the_example_runs_and_prints_what_the_document_says(tmp_path: Path) -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", TEXT, re.DOTALL)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    def split(text: str) -> tuple[str, list[float]]:
        return re.sub(r"\d+\.\d+", "#", text), [float(number) for number in re.findall(r"\d+\.\d+", text)]

    words, numbers = split(done.stdout)
    assert words == split(printed)[0]
    assert numbers == pytest.approx(split(printed)[1], abs=0.05)  # other machines round otherwise
