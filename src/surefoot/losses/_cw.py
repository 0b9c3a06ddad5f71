"""How far an input must move to be taken for another class, by an attack of Carlini and Wagner's kind."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.losses._inputs import InputRange, margins
from surefoot.modes import in_eval_mode

RATE = 0.01  # of Adam, in the inputs' range
START = 1.0  # the first weight of the margin


def smallest_change(
    model: nn.Module, inputs: Tensor, labels: Tensor, box: InputRange, *, steps: int, searches: int
) -> Tensor:
    """Return the l2 length of the smallest change found that makes each prediction wrong, in eval mode.

    Adam lowers ‖δ‖² + c·max(m(x + δ), 0) from δ = 0, with x + δ brought back into the inputs' range after every step.
    The search is repeated with another c for each example: ten times as large until the attack succeeds, then halving
    the interval between the largest c that failed and the smallest that did not.

    Args:
        model: The network.
        inputs: Where to start.
        labels: The true classes.
        box: The inputs' range, which is also the unit of length; fitted.
        steps: Of Adam, in each search.
        searches: How many values of c are tried.

    Returns:
        Shape ``(n,)``: 0 where the prediction is wrong as it is, infinity where no attack succeeded.

    Reference: Carlini and Wagner 2017, arXiv:1608.04644; inputs are clipped instead of reparametrised, which moves
    pixels that are quite black or white as quickly as others.
    """
    unit = box.unit.clamp(min=1e-12)  # what never varies cannot be changed, and must not divide by zero
    place = ((inputs.detach() - box.low) / unit).clamp(0, 1)
    best = inputs.new_full((len(inputs),), torch.inf)
    failed, worked, c = torch.zeros_like(best), torch.full_like(best, torch.inf), torch.full_like(best, START)
    with torch.enable_grad(), in_eval_mode(model):
        for _ in range(searches):
            change = torch.zeros_like(place, requires_grad=True)
            adam = torch.optim.Adam([change], lr=RATE)
            succeeds = torch.zeros_like(best, dtype=torch.bool)
            for _ in range(steps + 1):  # once more after the last step
                m = margins(model(box.low + unit * (place + change)), labels)
                length2 = change.square().flatten(1).sum(1)
                is_wrong = m.detach() < 0
                best = torch.where(is_wrong, torch.minimum(best, length2.detach().sqrt()), best)
                succeeds |= is_wrong
                (change.grad,) = torch.autograd.grad((length2 + c * m.clamp(min=0)).sum(), change)
                adam.step()
                with torch.no_grad():
                    change.copy_((place + change).clamp(0, 1) - place)
            worked, failed = torch.where(succeeds, c, worked), torch.where(succeeds, failed, c)
            c = torch.where(worked.isfinite(), (failed + worked) / 2, 10 * c)
    return best
