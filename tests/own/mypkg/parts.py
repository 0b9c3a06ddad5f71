"""Parts that a user might write, named in the documents as ``mypkg.parts:…``."""

import torch
from torch.nn import functional as F

from surefoot.ensembles import Ensemble
from surefoot.losses._base import Loss
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms

STILL = 0.0


class Smooth(Loss):
    def __init__(self, *, alpha: float = 0.1):
        super().__init__()
        self.alpha = alpha

    def forward(self, logits, labels):
        per_example = F.cross_entropy(logits, labels, reduction="none", label_smoothing=self.alpha)
        log_py = logits.log_softmax(-1).gather(-1, labels[:, None]).squeeze(-1)
        return LossTerms(per_example, log_py=log_py)


def my_loss(*, alpha=0.1):
    return Smooth(alpha=alpha)


def my_optimizer(params, *, lr: float = 0.05):
    """Plain, but careful."""
    return torch.optim.RMSprop(params, lr=lr)


def my_sam(base, model, *, rho: float = 0.1):
    return SAM(base, model, rho=rho)


def my_ensemble(*, members: int = 2):
    ensemble = Ensemble()
    ensemble.trainings = 1
    return ensemble


class Mean(Loss):
    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels)


def as_function(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def no_part(*, x=1):
    return {"x": x}


def no_optimizer(params, *, lr=0.1):
    return [lr]


class Norm:
    name = "norm"

    def due(self, step):
        return step % 3 == 0

    def measure(self, moment):
        return {"norm/value": float(sum(p.detach().square().sum() for p in moment.model.parameters()))}


def my_tracker(horizon, *, power: int = 2):
    return Norm()


def my_augment(*, by: float = 0.5):
    return lambda images, black, generator: images * by
