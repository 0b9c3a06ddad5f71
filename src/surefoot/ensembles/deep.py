"""Deep ensemble."""

from __future__ import annotations

from torch import nn

from surefoot.ensembles._base import Course, Kept, at_least_one, copied
from surefoot.registry import ENSEMBLES
from surefoot.schema import Split


class Deep(Kept):
    """Networks trained apart from each other: other weights at the start, another order of examples.

    The first member is the network that the run's seed gives without an ensemble.

    Args:
        members: How many.
    """

    def __init__(self, members: int = 5) -> None:
        super().__init__()
        self.trainings = at_least_one("members", members)

    def finish(self, model: nn.Module, split: Split, course: Course) -> None:
        """Keep the trained network."""
        self.members.append(copied(model))


@ENSEMBLES.register("deep", reference="Lakshminarayanan et al. 2017, arXiv:1612.01474")
def deep(*, members: int = 5) -> Deep:
    """Several networks, trained one after another from different seeds."""
    return Deep(members)
