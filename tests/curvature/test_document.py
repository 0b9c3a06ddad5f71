from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "curvature.md").read_text()


BLOCKS = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), BLOCKS, ids=["eigenvalue", "training"])
def test_the_examples_print_what_the_document_says(code: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
