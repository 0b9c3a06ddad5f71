"""Which ρ and γ to take without a search: CSAM over a grid of both, on three kinds of network.

Prints one table per task: accuracy, ECE and NLL on the calibration split, by which a default is chosen, and on the
test split, by which it is judged. γ = 0 is SAM. Runs are kept in the folder given, so a second call only prints.

    python benchmarks/defaults.py --text DATA/text/trec --out runs/defaults
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RHOS, GAMMAS = (0.05, 0.1, 0.2), (0.0, 1.0, 2.0)


def tasks(text: Path | None) -> dict[str, tuple[str, list[str]]]:
    """Return, by name, each task's base optimizer and its options for ``surefoot compare``."""
    found = {
        "MLP on fashion, SGD, 40 epochs": ("sgd", ["--model", "mlp", "--epochs", "40"]),
        "CNN on fashion, SGD, 30 epochs": ("sgd", ["--model", "cnn:width=8", "--epochs", "30"]),
    }
    if text is not None:
        data = ["--data", f"text:{text},vocabulary=2000,length=24,n_train=2000", "--epochs", "10"]
        model = ["--model", "text_transformer:vocabulary=2000"]
        found["transformer on TREC, AdamW, 10 epochs"] = ("adamw", [*data, *model])
    return found


def run(base: str, options: list[str], seeds: int, jobs: int, out: Path) -> list[dict[str, Any]]:
    """Train what is not trained yet, and return the rows of the comparison."""
    grid = [f"csam:base={base},rho={rho:g},gamma={gamma:g}" for rho, gamma in itertools.product(RHOS, GAMMAS)]
    command = [sys.executable, "-m", "surefoot", "compare", "--methods", ",".join([base, *grid]), "--json"]
    command += [*options, "--seeds", str(seeds), "--jobs", str(jobs), "--out", str(out)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """Print a task's table."""
    print(f"\n{name}\n| | calibration: accuracy | ECE % | NLL | test: accuracy | ECE % | NLL |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        options = row["options"]
        label = f"ρ = {options['rho']:g}, γ = {options['gamma']:g}" if "rho" in options else row["label"]
        cells = [
            f"{100 * part['accuracy']['mean']:.1f} | {100 * part['ece']['mean']:.1f} | {part['nll']['mean']:.3f}"
            for part in (row["calibration"], row)
        ]
        print(f"| {label} | {' | '.join(cells)} |")


def main() -> None:
    """Run all tasks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, help="Beginning of the names of TREC's files; else no transformer.")
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    for number, (name, (base, options)) in enumerate(tasks(given.text).items()):
        show(name, run(base, options, given.seeds, given.jobs, given.out / str(number)))


if __name__ == "__main__":
    main()
