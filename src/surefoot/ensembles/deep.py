"""Deep ensemble."""

from __future__ import annotations

from torch import nn

from surefoot.ensembles._base import Kept, at_least_one, copied
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES
from surefoot.schema import Split


@ENSEMBLES.register("deep", reference="Lakshminarayanan et al. 2017, arXiv:1612.01474")
class DeepEnsemble(Kept):
    """Several networks, trained one after another from different seeds.

    Networks trained apart from each other: other weights at the start, another order of examples.

    The first member is the network that the run's seed gives without an ensemble.

    Args:
        members: How many.
    """

    def __init__(self, *, members: int = 5) -> None:
        super().__init__()
        self.trainings = at_least_one("members", members)

    def finish(self, model: nn.Module, split: Split, horizon: Horizon) -> None:
        """Keep the trained network."""
        self.members.append(copied(model))
