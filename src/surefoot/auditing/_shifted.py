"""Measures of the reference at other class frequencies, with intervals that know how uncertain these are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from surefoot.auditing._label_shift import Cells, ScoredRows, blocks, drawn
from surefoot.auditing.better import scaled
from surefoot.metrics import bin_index
from surefoot.metrics.ece_interval import ece_of_sums
from surefoot.metrics.interval import Interval, no_interval
from surefoot.metrics.mean_losses import Losses, loss_of_parts
from surefoot.metrics.shares import exact_ends

_DRAWS = 200


@dataclass(frozen=True)
class ReferenceRows:
    """Labelled rows and how wrong they are, each of shape ``(n,)``.

    Attributes:
        scored: What is compared with the new rows.
        labels: True classes.
        correct: Whether the likeliest class is the true one.
        sure: Whose calibration is asked for: the confidence, or of two classes the risk.
        happened: Whether what it is the probability of is true.
        nll: Loss of each row.
    """

    scored: ScoredRows
    labels: Tensor
    correct: Tensor
    sure: Tensor
    happened: Tensor
    nll: Tensor

    @classmethod
    def of(cls, probs: Tensor, labels: Tensor, positive: int | None) -> ReferenceRows:
        """Look at probabilities of shape ``(n, classes)`` beside labels."""
        scored = ScoredRows.of(probs, positive)
        correct = scored.predicted == labels
        happened = correct if positive is None else labels == positive
        nll = -probs.gather(1, labels[:, None]).squeeze(1).log()
        return cls(scored, labels, correct.double(), scored.features[0], happened.double(), nll)


@dataclass(frozen=True)
class Shifted:
    """What the reference says about the new rows.

    Attributes:
        shares: Of each class among the new rows.
        accuracy: Share of right predictions.
        ece: Of the confidence, or of two classes of the risk.
        nll: Mean loss.
        p_value: How often label shift alone would make the scores differ as much.
        worth: As many labelled rows of the new kind would tell the accuracy as well.
    """

    shares: tuple[Interval, ...]
    accuracy: Interval
    ece: Interval
    nll: Interval
    p_value: float
    worth: float


def shifted(
    reference: ReferenceRows, new: ScoredRows, n_classes: int, *, n_bins: int, level: float, source: Generator
) -> Shifted:
    """Estimate measures on new rows from a labelled reference.

    Rows of both files are drawn anew, and class frequencies found anew each time. For the test, new rows are drawn from
    the reference at the frequencies that were found, so that label shift is all there is.

    Args:
        reference: Labelled rows.
        new: Rows without labels.
        n_classes: How many classes there are.
        n_bins: Number of bins.
        level: Of the intervals.
        source: Where the randomness comes from.

    Returns:
        Estimates with intervals.
    """
    cells = Cells.of(reference.scored, reference.labels, new, n_classes)
    n, m = len(reference.labels), len(new.predicted)
    all_, all_new = torch.ones(1, n, dtype=torch.float64), torch.ones(1, m, dtype=torch.float64)
    shares = cells.shares(all_, all_new)
    weights = _weights(reference.labels, shares, all_)
    misfit = cells.misfit(all_, shares, tuple(other for _, other in cells.steps), all_new)
    of_reference = tuple(place for place, _ in cells.steps)
    as_new = replace(cells, new=cells.reference)
    found: dict[str, list[Tensor]] = {"shares": [], "accuracy": [], "gap": [], "nll": [], "misfit": []}
    for files in blocks(max(n, m), _DRAWS):
        draws = drawn(all_[0], n, files, source)
        drawn_shares = cells.shares(draws, drawn(all_new[0], m, files, source))
        drawn_weights = _weights(reference.labels, drawn_shares, draws)
        found["shares"].append(drawn_shares)
        for name, each in _values(reference).items():
            found[name].append(_mean(drawn_weights, each))
        by_shift = drawn(weights[0], m, files, source)
        found["misfit"].append(cells.misfit(draws, as_new.shares(draws, by_shift), of_reference, by_shift))
    bootstrapped = {name: torch.cat(parts) for name, parts in found.items()}
    means = {name: _mean(weights, each).item() for name, each in _values(reference).items()}
    kish = (weights.sum().square() / weights.square().sum()).item()
    worth = {
        name: _worth(means[name], each, weights, bootstrapped[name], kish) for name, each in _values(reference).items()
    }
    exceed = int((bootstrapped["misfit"] >= misfit).sum())
    return Shifted(
        shares=tuple(_share(k, shares[0, k].item(), bootstrapped["shares"][:, k], m, level) for k in range(n_classes)),
        accuracy=Interval(
            "accuracy",
            means["accuracy"],
            *exact_ends(means["accuracy"] * worth["accuracy"], worth["accuracy"], level),
            level,
            "exact",
            _DRAWS,
        ),
        ece=_ece(reference, new, weights[0], worth["gap"], n_bins, level, source),
        nll=_nll(reference, means["nll"], weights[0] / weights.sum(), worth["nll"], level),
        p_value=(1 + exceed) / (1 + _DRAWS),
        worth=worth["accuracy"],
    )


def _values(reference: ReferenceRows) -> dict[str, Tensor]:
    return {"accuracy": reference.correct, "gap": reference.sure - reference.happened, "nll": reference.nll}


def _weights(labels: Tensor, shares: Tensor, draws: Tensor) -> Tensor:
    """Weigh reference rows so that classes have other shares, shape ``(files, n)``."""
    counts = torch.zeros_like(shares).index_add_(1, labels, draws)
    return draws * (shares / counts.clamp(min=1e-12))[:, labels]


def _mean(weights: Tensor, each: Tensor) -> Tensor:
    return (weights * torch.where(weights > 0, each, 0.0)).sum(1) / weights.sum(1)


def _worth(mean: float, each: Tensor, weights: Tensor, values: Tensor, kish: float) -> float:
    """Return how many independent rows have a mean as uncertain as this one."""
    variance = _mean(weights, (each - mean).square()).item()
    spread = values.var().item()
    return max(1.0, min(kish, variance / spread)) if spread > 0 else kish


def _share(k: int, share: float, values: Tensor, m: int, level: float) -> Interval:
    spread = values.var().item()
    worth = min(float(m), share * (1 - share) / spread) if spread > 0 else float(m)
    return Interval(f"share_{k}", share, *exact_ends(share * worth, worth, level), level, "exact", _DRAWS)


def _ece(
    reference: ReferenceRows,
    new: ScoredRows,
    weights: Tensor,
    worth: float,
    n_bins: int,
    level: float,
    source: Generator,
) -> Interval:
    """Take bins as if there were as many rows as they are worth; of risks they hold about as many new rows each."""
    sure = reference.sure
    if len(new.features) == 1:
        edges = new.features[0].quantile(torch.arange(1, n_bins, dtype=torch.float64) / n_bins).unique()
        places = torch.searchsorted(edges, sure)
    else:
        places = bin_index(sure, n_bins)
    parts = (torch.ones_like(sure), sure, reference.happened)
    sums = torch.stack([torch.zeros(n_bins, dtype=torch.float64).index_add_(0, places, weights * x) for x in parts])
    return ece_of_sums(sums * (worth / weights.sum()), level, 1000, source)


def _nll(reference: ReferenceRows, mean: float, weights: Tensor, worth: float, level: float) -> Interval:
    """Take right and wrong rows apart, as if there were as many rows as they are worth."""
    if not math.isfinite(mean):
        return no_interval("nll", mean, level, "it is infinite")
    right, wrong = (_losses(reference.nll, weights * (reference.correct == hit), worth) for hit in (1, 0))
    found = loss_of_parts("nll", right, wrong, level, (0.0, math.inf))
    return scaled(found, mean, 1.0) if found.known else replace(found, estimate=mean)


def _losses(values: Tensor, weights: Tensor, worth: float) -> Losses:
    """Sum up some of the rows, whose weights add up to their share of all."""
    share = weights.sum()
    if not share:
        return Losses(0, 0.0, 0.0)
    mean = weights @ values / share
    return Losses(round(worth * share.item()), mean.item(), (weights @ (values - mean).square() / share).sqrt().item())
