"""Make the part of plotly.js that pages use: lines, bars and heat maps, as one packed script of 0.4 MB.

``python scripts/build_plotly.py`` needs npm and its registry. Versions and the day up to which npm looks are fixed, so
everybody gets the same bytes; ``--check`` compares them with the file that is there and writes nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PLOTLY, ESBUILD, BEFORE = "4.1.1", "0.28.2", "2026-11-16"
TRACES = ("bar", "heatmap")  # lines and markers are part of the core
PLACE = Path(__file__).parents[1] / "src" / "surefoot" / "report" / "plotly"
OPTIONS = (
    *("--bundle", "--minify", "--format=iife", "--global-name=Plotly", "--define:global=window", "--target=es2018"),
    *("--charset=ascii", "--legal-comments=none", "--loader:.css=empty", "--log-level=warning"),
)


def build(folder: Path) -> tuple[str, str]:
    """Fetch plotly.js and bundle it.

    Args:
        folder: Empty, for what npm fetches.

    Returns:
        The script and its licences.
    """
    (folder / "package.json").write_text('{"private": true}')
    packages = [f"plotly.js@{PLOTLY}", f"esbuild@{ESBUILD}"]
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", *quiet, f"--before={BEFORE}", *packages], cwd=folder, check=True)
    traces = ", ".join(f'require("plotly.js/lib/{name}")' for name in TRACES)
    core = f'const Plotly = require("plotly.js/lib/core"); Plotly.register([{traces}]); module.exports = Plotly;'
    (folder / "pages.js").write_text(core)
    command = ["npx", "esbuild", "pages.js", *OPTIONS, "--metafile=used.json", "--outfile=pages.min.js"]
    subprocess.run(command, cwd=folder, check=True)
    script = (folder / "pages.min.js").read_text()
    head = (
        f"/* plotly.js v{PLOTLY}: core, {', '.join(TRACES)}. Copyright Plotly, Inc. MIT: LICENSES.txt beside it. */\n"
    )
    return head + script, _licences(folder)


def _licences(folder: Path) -> str:
    """Put the licences of all packages that went into the script below each other."""
    used = json.loads((folder / "used.json").read_text())["inputs"]
    modules = {name.rpartition("node_modules/")[::2] for name in used if "node_modules/" in name}
    packages = {(before, "/".join(rest.split("/")[: 2 if rest.startswith("@") else 1])) for before, rest in modules}
    texts = []
    for before, name in sorted(packages, key=lambda each: (each[1] != "plotly.js", each[1])):
        place = folder / before / "node_modules" / name
        about = json.loads((place / "package.json").read_text())
        files = sorted(file for file in place.iterdir() if file.name.lower().startswith(("licen", "copying")))
        text = files[0].read_text().strip() if files else f"Licence: {about['license']}. No text comes with it."
        texts.append(f"{name} {about['version']}\n\n{text}\n")
    return f"\n{'-' * 72}\n\n".join(texts)


def main() -> int:
    """Write the script and its licences, or compare them with those that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    if shutil.which("npm") is None:
        sys.exit("Expected npm, but found none. Install Node.js.")
    with tempfile.TemporaryDirectory() as folder:
        script, licences = build(Path(folder))
    packed, told = PLACE / "plotly.min.js.gz", PLACE / "LICENSES.txt"
    if check and (gzip.decompress(packed.read_bytes()).decode() != script or told.read_text() != licences):
        sys.exit(f"Expected {PLACE} as built, but it differs. Run without --check.")
    if not check:
        PLACE.mkdir(exist_ok=True)
        packed.write_bytes(gzip.compress(script.encode(), mtime=0))
        told.write_text(licences)
    print(f"plotly.js {PLOTLY}: {len(script) / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
