"""How often the 95 % interval of a correlation along training holds the truth.

    python benchmarks/correlation.py               # 400 pairs of series per row, some minutes
    python benchmarks/correlation.py --pairs 1000

Pairs of AR(1) series x(t) = φ x(t−1) + noise of 120 points, correlated by ρ. Points of a slow series are alike: at
φ = .95, 120 points tell as much as about 8 independent ones.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from rich.console import Console
from rich.table import Table

from surefoot.statistics import Array, correlate, pearson, spearman

WARM_UP = 200  # steps until the start is forgotten


def slow_pair(phi: float, rho: float, n: int, draw: np.random.Generator) -> Array:
    """Draw two AR(1) series of which each is at every lag as like itself as the other, correlated by ρ."""
    noise = draw.standard_normal((2, WARM_UP + n))
    noise[1] = rho * noise[0] + math.sqrt(1 - rho**2) * noise[1]
    for t in range(1, WARM_UP + n):
        noise[:, t] += phi * noise[:, t - 1]
    return noise[:, WARM_UP:]


def coverage(phi: float, rho: float, pairs: int, n: int = 120, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Return for each coefficient the share of intervals that hold the truth, and their mean width."""
    truths = {pearson: rho, spearman: 6 / math.pi * math.asin(rho / 2)}
    draw = np.random.default_rng(seed)
    held: dict[str, list[bool]] = {"pearson": [], "spearman": []}
    widths: dict[str, list[float]] = {"pearson": [], "spearman": []}
    for _ in range(pairs):
        x, y = slow_pair(phi, rho, n, draw)
        for statistic, truth in truths.items():
            found = correlate([(x.tolist(), y.tolist())], statistic)
            low, high = found.low or 0.0, found.high or 0.0
            held[statistic.__name__].append(low <= truth <= high)
            widths[statistic.__name__].append(high - low)
    return {name: (float(np.mean(held[name])), float(np.mean(widths[name]))) for name in held}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400, help="of series per row (default 400)")
    pairs = parser.parse_args().pairs
    table = Table("ρ", "φ", "Pearson", "width", "Spearman", "width", title=f"{pairs} pairs of 120 points each")
    for rho in (0.0, 0.6):
        for phi in (0.0, 0.5, 0.8, 0.95):
            found = coverage(phi, rho, pairs)
            cells = (cell for share, width in found.values() for cell in (f"{100 * share:.1f} %", f"{width:.2f}"))
            row = (f"{rho:g}", f"{phi:g}", *cells)
            table.add_row(*row)
            print(*row, flush=True)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
