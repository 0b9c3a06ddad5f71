"""Build wheel and sdist into dist/, install the wheel where nothing of the repository is seen, and ask for its version.

The wheel is also built from the sdist: both must hold the same files. With ``--fresh`` the environment has nothing but
pip, and all needs are installed anew, pinned; without, it sees the packages of the one that runs this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def build(source: Path, out: Path, *kinds: str) -> None:
    """Build distributions of a source tree.

    Args:
        source: Where its pyproject.toml is.
        out: The folder for them.
        *kinds: ``wheel``, ``sdist``.
    """
    targets = [word for kind in kinds for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", *targets, "-d", str(out)]
    subprocess.run(command, check=True, cwd=source, capture_output=True)


def contents(wheel: Path) -> set[str]:
    """List the files of a wheel."""
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def only(folder: Path, pattern: str) -> Path:
    """Return the one file that fits."""
    (path,) = folder.glob(pattern)
    return path


def try_out(wheel: Path, folder: Path, *, fresh: bool) -> str:
    """Install a wheel in a new environment and run its command.

    Args:
        wheel: The wheel.
        folder: Where the environment is made.
        fresh: Install all needs; else the environment sees those of this one.

    Returns:
        What ``surefoot --version`` prints.
    """
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [str(scripts / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if fresh:
        pins = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *pins, "torch"], check=True)
        subprocess.run([*pip, *pins, str(wheel)], check=True)
        subprocess.run([str(scripts / "python"), "-m", "pip", "check"], check=True)
    else:
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
        here = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
        Path(here, "needs.pth").write_text(sysconfig.get_path("purelib"))
    where = "import surefoot; print(surefoot.__file__)"
    found = _said([str(scripts / "python"), "-c", where], folder)
    if not Path(found).is_relative_to(folder):
        raise SystemExit(f"Expected the package of the wheel, but got {found}.")
    return _said([str(scripts / "surefoot"), "--version"], folder)


def _said(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, check=True, cwd=folder, env=ALONE, capture_output=True, text=True)
    return done.stdout.strip()


def main() -> None:
    """Build, compare, install, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fresh", action="store_true", help="install all needs into an environment that has none")
    given = parser.parse_args()
    for old in DIST.glob("surefoot-*"):
        old.unlink()
    build(ROOT, DIST, "wheel", "sdist")
    wheel, sdist = only(DIST, "*.whl"), only(DIST, "*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        with tarfile.open(sdist) as file:
            file.extractall(folder, filter="data")
        build(only(folder, "surefoot-*"), folder, "wheel")
        if contents(only(folder, "*.whl")) != contents(wheel):
            raise SystemExit("Expected the same files in the wheel of the sdist, but got others.")
        said = try_out(wheel, folder / "environment", fresh=given.fresh)
    for path in (wheel, sdist):
        print(f"Built: {path.relative_to(ROOT)}, {path.stat().st_size / 1e6:.1f} MB")
    print(f"Installed and run: {said}")


if __name__ == "__main__":
    main()
