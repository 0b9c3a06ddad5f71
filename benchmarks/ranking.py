"""How often a ranking says "better" where nothing is, and whether its intervals hold all at once, by simulation.

    python benchmarks/ranking.py                # the table of docs/audit.md, about half an hour on one core
    python benchmarks/ranking.py --studies 50   # quick

Models see an example y through noise of their own, x = a e_y + noise, and give softmax(a x), which is calibrated. Equal
ones have the same a, so that every "better" is wrong. Slices are those of one calibrated model.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import torch

from surefoot.auditing._reading import Reading, read
from surefoot.auditing._slices import judge_slices
from surefoot.auditing._slicing import slicing_of
from surefoot.auditing.audit import audit_source
from surefoot.auditing.ranking import Ranking, rank_read
from surefoot.sources.files import open_predictions

CLASSES = 10
MANY = 400_000  # examples for the true NLL of a model
Array = np.ndarray


def scores(rng: np.random.Generator, labels: Array, strength: float) -> Array:
    """Draw the logits of one model."""
    return strength * (strength * np.eye(CLASSES)[labels] + rng.standard_normal((len(labels), CLASSES)))


def ranked(rng: np.random.Generator, n: int, strengths: list[float]) -> Ranking:
    """Rank models on new examples."""
    labels = rng.integers(CLASSES, size=n)
    found = []
    for strength in strengths:
        (source,) = open_predictions({"logits": scores(rng, labels, strength), "labels": labels})
        found.append(audit_source(source, None, "", 15, 0.95, None, None, "nll"))
    return rank_read(found, [str(number) for number in range(len(strengths))], 0.95)


def equal(n: int, m: int, studies: int) -> str:
    """Count studies with a wrong "better" among m equal models."""
    rng = np.random.default_rng(0)
    by_nll = by_calibration = 0
    for _ in range(studies):
        pairs = ranked(rng, n, [2.0] * m).pairs
        by_nll += any(pair.better is not None for pair in pairs)
        by_calibration += any(pair.better_calibrated is not None for pair in pairs)
    return f"{n:>6,} {m:>6}   {100 * by_nll / studies:5.1f} %      {100 * by_calibration / studies:5.1f} %"


def different(n: int, studies: int) -> str:
    """Count studies in which all intervals of NLL hold, of models that differ."""
    rng, strengths = np.random.default_rng(1), [1.6, 1.8, 2.0, 2.2, 2.4]
    labels = rng.integers(CLASSES, size=MANY)
    logs = [torch.from_numpy(scores(rng, labels, strength)).log_softmax(1) for strength in strengths]
    truth = [-log.gather(1, torch.from_numpy(labels)[:, None]).mean().item() for log in logs]
    held = wrong = 0
    for _ in range(studies):
        pairs = ranked(rng, n, strengths).pairs
        held += all(truth[p.a] - truth[p.b] in p.differences["nll"] for p in pairs)
        wrong += any(p.better is not None and truth[p.better] > min(truth[p.a], truth[p.b]) for p in pairs)
    return f"{n:>6,}   {100 * held / studies:5.1f} %      {100 * wrong / studies:5.1f} %"


def slices(n: int, k: int, studies: int) -> str:
    """Count studies in which one of k calibrated slices is said to be off, with the correction and without."""
    rng = np.random.default_rng(2)
    off = plain = 0
    for _ in range(studies):
        labels = rng.integers(CLASSES, size=n)
        source = {"logits": scores(rng, labels, 2.0), "labels": labels, "k": [f"k{i}" for i in np.arange(n) % k]}
        (opened,) = open_predictions(source, groups=["k"])
        reading: Reading = read(opened, n_bins=15, where="", slicing=slicing_of(opened))
        found = judge_slices(reading, 0.95, None)
        off += any(each.off for each in found)
        plain += any(each.verdict.finding != "calibrated" for each in found)
    return f"{n:>6,} {k:>6}   {100 * off / studies:5.1f} %      {100 * plain / studies:5.1f} %"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    torch.set_num_threads(1)
    print(f'{studies:,} studies each. A wrong "better" among equal models:\n     n models   by NLL   by calibration')
    for n, m in itertools.product((200, 1000), (3, 5)):
        print(equal(n, m, studies), flush=True)
    print("\nFive models that differ:\n     n   all ten intervals hold   a wrong better")
    for n in (200, 1000):
        print(different(n, studies), flush=True)
    print("\nOne of calibrated slices said to be off:\n     n slices   corrected   without")
    for n, k in itertools.product((1000, 10_000), (5, 20)):
        print(slices(n, k, studies), flush=True)


if __name__ == "__main__":
    main()
