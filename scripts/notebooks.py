"""Run the notebooks and keep their outputs: ``python scripts/notebooks.py`` after changing one.

Each runs in a folder of its own, which is thrown away. Outputs are kept without times and counters of the kernel, so
that running them again changes nothing but what has changed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def run(path: Path, folder: Path) -> Any:
    """Run a notebook in a folder.

    Args:
        path: The notebook; it is not changed.
        folder: Where its files go.

    Returns:
        The notebook with its outputs.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources, record_timing=False).execute()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for cell in notebook.cells:
        cell["metadata"] = {}
    return notebook


def main() -> None:
    """Run all and write them."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(run(path, Path(folder)), path)
        print(f"Run: {path.name}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
