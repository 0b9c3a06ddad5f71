"""Coverage of intervals of two classes' risks, and of rows that represent more or less; tables of ``coverage.py``.

Two ways to come by weights. ``log-normal``: a row is drawn with a probability in inverse proportion to a weight, whose
logarithm is standard normal, and then has that weight; the effective number of rows is about 0.37 n. ``class × 10``:
rows of one class are ten times as likely to be drawn, and have a weight of 0.1. Either way the sample stands for
the plain population, whose truth is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from simulated import Cell, Population, population
from torch import Tensor

from surefoot.metrics._ranking import area_under_roc, average_precision
from surefoot.metrics.bootstrap import bootstrap
from surefoot.metrics.interval import Interval
from surefoot.metrics.risk import judge_risk, ranking

SCHEMES = ("none", "log-normal", "class × 10")
WEIGHTED = tuple(Cell(n, 10, 0.85, s) for n in (200, 1000, 10_000) for s in (1.0, 1.3))
Add = Callable[[str, Interval, float], None]


class RiskCell(NamedTuple):
    """Risks of one kind: odds are multiplied by ``factor``; 1 is calibrated."""

    n: int
    rate: float
    factor: float


RISKS = tuple(RiskCell(n, rate, f) for n in (200, 1000, 10_000) for rate, f in ((0.3, 1.0), (0.1, 1.0), (0.1, 2.0)))


@dataclass(frozen=True)
class Draws:
    """Rows with the probabilities of their labels, from which weighted samples are drawn."""

    truth: Tensor
    weights: Tensor  # of a row, where they are log-normal

    @classmethod
    def of(cls, truth: Tensor) -> Draws:
        """Give each row a weight that is independent of all else."""
        source = torch.Generator().manual_seed(7)
        return cls(truth, torch.randn(len(truth), generator=source, dtype=torch.float64).exp())

    def sample(self, scheme: str, n: int, source: torch.Generator) -> tuple[Tensor, Tensor, Tensor | None]:
        """Draw rows, a label for each, and weights."""
        if scheme == "class × 10":
            rows, labels = self._plain(12 * n, None, source)
            of_class = labels == 1
            taken = of_class | (torch.rand(len(rows), generator=source) < 0.1)
            rows, labels, of_class = (each[taken][:n] for each in (rows, labels, of_class))
            return rows, labels, torch.where(of_class, 0.1, 1.0).double()
        rows, labels = self._plain(n, None if scheme == "none" else 1 / self.weights, source)
        return rows, labels, None if scheme == "none" else self.weights[rows]

    def _plain(self, n: int, chances: Tensor | None, source: torch.Generator) -> tuple[Tensor, Tensor]:
        if chances is None:
            rows = torch.randint(len(self.truth), (n,), generator=source)
        else:
            rows = torch.multinomial(chances, n, replacement=True, generator=source)
        steps = self.truth[rows].cumsum(1)
        at = torch.rand(n, 1, generator=source, dtype=torch.float64) * steps[:, -1:]
        return rows, torch.searchsorted(steps, at).squeeze(1).clamp(max=steps.shape[1] - 1)


def weighted(
    cells: Sequence[Cell], repetitions: int, names: Sequence[str], held: Callable[[], object]
) -> Iterator[tuple[str, ...]]:
    """Measure coverage of metrics of weighted rows."""
    yield ("weights", "n", "K", "accuracy", "s", *names)
    for scheme in SCHEMES[1:]:
        for cell in cells:
            pool = _shuffled(population(cell))
            draws, source = Draws.of(pool.truth), torch.Generator().manual_seed(11)
            truths, found = {name: pool.value(name) for name in names}, {name: held() for name in names}
            for _ in range(repetitions):
                rows, labels, weights = draws.sample(scheme, cell.n, source)
                for name in names:
                    found[name].add(bootstrap(name, pool.predictions[0][rows], labels, weights), truths[name])
            about = (scheme, f"{cell.n:,}", f"{cell.classes}", f"{cell.accuracy:g}", f"{cell.sharpen:g}")
            yield (*about, *(str(found[name]) for name in names))


def _shuffled(pool: Population) -> Population:
    """Put each row's classes in an order of its own: else all rows were of the first."""
    order = torch.rand(pool.truth.shape, generator=torch.Generator().manual_seed(8)).argsort(1)
    return Population(pool.truth.gather(1, order), [probs.gather(1, order) for probs in pool.predictions])


OF_RISK = ("event rate", "risk − event rate", "ECE of the risk", "AUROC", "average precision")


def risks(cells: Sequence[RiskCell], repetitions: int, held: Callable[[], object]) -> Iterator[tuple[str, ...]]:
    """Measure coverage of what is said about the risk of one of two classes."""
    yield ("weights", "n", "event rate", "odds × ", *OF_RISK)
    for scheme in SCHEMES:
        for cell in cells:
            chances, risk = _risks(cell)
            draws, source = Draws.of(torch.stack([1 - chances, chances], 1)), torch.Generator().manual_seed(12)
            truths, found = _truths(chances, risk), {name: held() for name in OF_RISK}
            for _ in range(repetitions):
                rows, labels, weights = draws.sample(scheme, cell.n, source)
                judged, ranks = judge_risk(risk[rows], labels, weights), ranking(risk[rows], labels, weights)
                intervals = [judged.rate, judged.gap, judged.ece, *(ranks or ())]
                for name, interval in zip(OF_RISK, intervals, strict=False):
                    found[name].add(interval, truths[name])
            about = (scheme, f"{cell.n:,}", f"{cell.rate:g}", f"{cell.factor:g}")
            yield (*about, *(str(found[name]) for name in OF_RISK))


def _risks(cell: RiskCell) -> tuple[Tensor, Tensor]:
    """Return the true chances of 40,000 rows, and the risks that are predicted."""
    noise = 1.5 * torch.randn(40_000, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (noise + middle).sigmoid().mean() < cell.rate else (low, middle)
    logit = noise + low
    return logit.sigmoid(), (logit + torch.tensor(cell.factor).log()).sigmoid()


def _truths(chances: Tensor, risk: Tensor) -> dict[str, float]:
    order = risk.argsort()
    gaps = [(risk[part] - chances[part]).sum().abs() for part in order.tensor_split(15)]
    both = chances, 1 - chances
    return {
        "event rate": chances.mean().item(),
        "risk − event rate": (risk - chances).mean().item(),
        "ECE of the risk": float(sum(gaps)) / len(risk),
        "AUROC": area_under_roc(risk, risk, both).item(),
        "average precision": average_precision(risk, risk, both).item(),
    }
