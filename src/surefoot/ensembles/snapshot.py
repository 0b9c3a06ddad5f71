"""Snapshot ensemble."""

from __future__ import annotations

from torch import nn

from surefoot.ensembles._base import Kept, Shape, at_least_one, copied
from surefoot.errors import OptionError
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES


@ENSEMBLES.register("snapshot", reference="Huang et al. 2017, arXiv:1704.00109")
class Snapshot(Kept):
    r"""One training with a cyclic learning rate; the weights at the end of each cycle are the members.

    .. math:: η_t = \frac{η_0}{2}\left(\cos\frac{π\,t_{cur}}{T_{cycle}} + 1\right)

    That is the cosine schedule over each cycle; any other schedule is repeated likewise.

    Args:
        cycles: How many.
        keep: Predict with the last so many; None for all.

    Raises:
        OptionError: If nothing would be kept.
    """

    def __init__(self, *, cycles: int = 5, keep: int | None = None) -> None:
        super().__init__()
        self.cycles = at_least_one("cycles", cycles)
        if keep is not None and not 1 <= keep <= cycles:
            raise OptionError(f"Expected keep in 1…{cycles}, the number of cycles, but got {keep}. Leave it out.")
        self.keep = keep or cycles

    def _ends(self, horizon: Horizon) -> list[int]:
        if self.cycles > horizon.n_steps:
            raise OptionError(
                f"Expected at most one cycle per step, but got {self.cycles} for {horizon.n_steps}. Train longer."
            )
        return [(index + 1) * horizon.n_steps // self.cycles for index in range(self.cycles)]

    def factor(self, shape: Shape, step: int, horizon: Horizon) -> float:
        """Run through the schedule once per cycle.

        Example:
            >>> import math
            >>> horizon, cosine = Horizon(200, 1), lambda t: 0.5 * (1 + math.cos(math.pi * t))
            >>> [round(0.2 * Snapshot(cycles=5).factor(cosine, epoch, horizon), 6) for epoch in (10, 20, 40)]
            [0.170711, 0.1, 0.2]
        """
        start = 0
        for end in self._ends(horizon):
            if step < end:
                return shape((step - start) / (end - start))
            start = end
        return shape(1.0)

    def step_end(self, model: nn.Module, step: int, horizon: Horizon) -> None:
        """Keep the weights at the end of a cycle."""
        if step in self._ends(horizon):
            self.members = [*self.members, copied(model)][-self.keep :]
