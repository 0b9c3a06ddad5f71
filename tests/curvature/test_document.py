from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = (Path(__file__).parents[2] / "docs" / "curvature.md").read_text()


def test_the_example_prints_what_the_document_says(tmp_path: Path) -> None:
    code, printed = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", DOCUMENT, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
