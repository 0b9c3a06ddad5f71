"""What a loop trains, all parts together."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from surefoot.data.augment import Augment
from surefoot.ensembles import Ensemble
from surefoot.losses._base import Loss
from surefoot.optim import Wrapper
from surefoot.steering import KeepCalibrated


@dataclass(frozen=True)
class Trainee:
    """What is trained, and by what.

    Attributes:
        model: The network, as the ensemble has changed it.
        loss: What a step minimises.
        optimizer: Makes the steps.
        schedule: Sets its learning rate.
        ensemble: Keeps members; one network as it is by default.
        member: Which of its trainings this is.
        keeper: Turns the optimizer's knobs by the calibration split after every epoch; None for nobody.
        called: Network and loss as a step calls them; None for just both.
        pieces: Of a rank's share of a batch, which go through the network one after another.
    """

    model: nn.Module
    loss: Loss
    optimizer: Wrapper
    schedule: LRScheduler
    augment: Augment | None = None
    ensemble: Ensemble = field(default_factory=Ensemble)
    member: int = 0
    keeper: KeepCalibrated | None = None
    called: nn.Module | None = None
    pieces: int = 1
