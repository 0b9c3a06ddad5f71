"""What held-out predictions say about over-confidence, and how far that can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from surefoot.calibrators import fit_temperature
from surefoot.schema import Predictions

CLEAR = 2.0  # standard errors
NOTHING = 0.02  # of the NLL of a constant answer


@dataclass(frozen=True)
class Signal:
    """How over-confident predictions are.

    Attributes:
        log_temperature: log T of the temperature with the smallest NLL: above 0 over-confident, below 0 the opposite.
        error: Its standard error, from the number of rows that were looked at.
        gap: Mean confidence minus accuracy.
        gap_error: Its standard error.
        refined: NLL behind that temperature, in nats: what no temperature repairs.
        refined_error: Its standard error.
        lead: By how much that is below the NLL of one constant answer, the classes' shares among the rows.
        lead_error: Its standard error.
        rows: How many rows were looked at.
    """

    log_temperature: float = math.nan
    error: float = math.nan
    gap: float = math.nan
    gap_error: float = math.nan
    refined: float = math.nan
    refined_error: float = math.nan
    lead: float = math.nan
    lead_error: float = math.nan
    rows: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is something to go by."""
        return math.isfinite(self.log_temperature) and math.isfinite(self.error)

    @property
    def is_idle(self) -> bool:
        """Whether predictions are for certain no better than a constant answer, which is calibrated for nothing.

        Those that are surer than right are something else: over-confident.
        """
        is_constant = self.lead + CLEAR * self.lead_error < NOTHING * (self.refined + self.lead)
        return is_constant and self.gap <= CLEAR * self.gap_error


def signal_of(logits: Tensor, labels: Tensor) -> Signal:
    r"""Measure over-confidence.

    log T is the maximum-likelihood estimate of the one number that calibrates the logits: where they are right up to
    a factor no other statistic, the gap between confidence and accuracy included, has less noise. With z the logits
    divided by T, q their softmax, s = Σ_k q_k z_k − z_y the score of a row and h = Var_q(z) its curvature,

    .. math:: \mathrm{se}(\log T) = \mathrm{sd}(s) / (\sqrt n \, \bar h).

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class numbers, shape ``(n,)``.

    Returns:
        The signal; unknown where a logit is not finite, and where all rows say the same, such as that all are right.

    Example:
        >>> import torch
        >>> found = signal_of(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
        >>> round(found.log_temperature, 4), round(found.gap, 4)  # 75 % right: the best logit is log 3, and not 2
        (0.5991, 0.1308)
    """
    n = len(labels)
    if n < 2 or not logits.isfinite().all():
        return Signal(rows=n)
    z = logits.detach().cpu().double()
    labels = labels.cpu()
    conf, predicted = z.softmax(1).max(1)
    gaps = conf - (predicted == labels).double()
    temperature = fit_temperature(Predictions(z.numpy(), labels.numpy(), "calibration")).temperature
    z = z / temperature
    q = z.softmax(1)
    mean = (q * z).sum(1)
    scores = mean - z.gather(1, labels[:, None]).squeeze(1)
    curvature = ((q * z.square()).sum(1) - mean.square()).mean().item()
    losses = F.cross_entropy(z, labels, reduction="none")
    leads = (n / labels.bincount()[labels]).log() - losses
    root = math.sqrt(n)
    return Signal(
        log_temperature=math.log(temperature),
        error=scores.std().item() / (root * curvature) if curvature > 0 else math.inf,
        gap=gaps.mean().item(),
        gap_error=gaps.std().item() / root,
        refined=losses.mean().item(),
        refined_error=losses.std().item() / root,
        lead=leads.mean().item(),
        lead_error=leads.std().item() / root,
        rows=n,
    )
