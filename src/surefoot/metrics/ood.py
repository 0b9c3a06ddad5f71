"""Out-of-distribution detection: scores from logits, and how well they tell out-of-distribution inputs from others.

These are functions of two sets of predictions and need no labels, so they are not registered as metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics._input import Values, as_tensor
from surefoot.metrics._ranking import area_under_roc, average_precision, false_positive_rate
from surefoot.metrics.entropy import entropy_of_rows

Score = Literal["max_probability", "entropy", "energy"]
SCORES: tuple[Score, ...] = ("max_probability", "entropy", "energy")


@dataclass(frozen=True)
class Detection:
    """How well a score tells in-distribution inputs from out-of-distribution ones. All are fractions."""

    score: str
    auroc: float
    """Chance that an in-distribution input has the higher score."""
    aupr_in: float
    """Average precision when in-distribution inputs are to be found."""
    aupr_out: float
    """Average precision when out-of-distribution inputs are to be found."""
    fpr95: float
    """Share of out-of-distribution inputs that pass when 95 % of the others must."""


def ood_score(logits: Values, *, score: Score = "max_probability") -> Tensor:
    """Return a score per example that is higher for in-distribution inputs.

    Args:
        logits: Shape ``(n, classes)``. For an ensemble pass the log of its mean probabilities.
        score: ``max_probability``: max_k p_k; ``entropy``: Σ p log p, the negative entropy;
            ``energy``: log Σ exp z, the negative free energy.

    Returns:
        Shape ``(n,)``, float64.

    Raises:
        OptionError: If there is no such score.

    Example:
        >>> from torch import tensor
        >>> ood_score(tensor([[0.0, 0.0]]), score="energy")
        tensor([0.6931], dtype=torch.float64)

    Reference: Hendrycks and Gimpel 2017, arXiv:1610.02136; Liu et al. 2020, arXiv:2010.03759.
    """
    z = as_tensor(logits, "logits").double()
    if score == "max_probability":
        return z.softmax(1).amax(1)
    if score == "entropy":
        return -entropy_of_rows(z.softmax(1))
    if score == "energy":
        return z.logsumexp(1)
    raise OptionError(f"Expected score {', '.join(SCORES)}, but got {score!r}.")


def detect(in_scores: Values, out_scores: Values, *, score: str = "score") -> Detection:
    """Measure how well scores tell two groups of inputs apart; ties count half.

    Args:
        in_scores: Scores of inputs like those trained on, shape ``(n,)``; they should be the higher ones.
        out_scores: Scores of other inputs, shape ``(m,)``.
        score: A name for the result.

    Returns:
        AUROC, AUPR both ways and FPR at 95 % recall.

    Raises:
        InputError: If a group is empty or has other than one score per input.

    Example:
        >>> from torch import tensor
        >>> detect(tensor([0.9, 0.8, 0.6]), tensor([0.7, 0.6])).auroc
        0.75
    """
    in_scores, out_scores = as_tensor(in_scores, "scores"), as_tensor(out_scores, "scores")
    if in_scores.ndim != 1 or out_scores.ndim != 1 or not len(in_scores) or not len(out_scores):
        raise InputError(
            f"Expected one score per input of both groups, but got {tuple(in_scores.shape)} and "
            f"{tuple(out_scores.shape)}. Pass ood_score(logits)."
        )
    return Detection(
        score,
        auroc=area_under_roc(in_scores, out_scores).item(),
        aupr_in=average_precision(in_scores, out_scores).item(),
        aupr_out=average_precision(-out_scores, -in_scores).item(),
        fpr95=false_positive_rate(in_scores, out_scores).item(),
    )


def ood_detection(in_logits: Values, out_logits: Values) -> tuple[Detection, ...]:
    """Measure detection by each of the three scores.

    Args:
        in_logits: Of inputs like those trained on, shape ``(n, classes)``.
        out_logits: Of other inputs, shape ``(m, classes)``.

    Returns:
        One result per score.

    Example:
        >>> from torch import tensor
        >>> [result.auroc for result in ood_detection(tensor([[4.0, 0.0]]), tensor([[0.1, 0.0]]))]
        [1.0, 1.0, 1.0]
    """
    return tuple(
        detect(ood_score(in_logits, score=score), ood_score(out_logits, score=score), score=score) for score in SCORES
    )
