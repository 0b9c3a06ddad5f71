"""Parts that a user might write, named in the documents as ``mypkg.parts:…``."""

import torch
from torch.nn import functional as F

from surefoot.calibrators import Temperature
from surefoot.ensembles import Ensemble
from surefoot.losses import Loss
from surefoot.optim import SAM
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
    def due(self, step):
        return step % 3 == 0

    def measure(self, moment):
        return {"norm/value": float(sum(p.detach().square().sum() for p in moment.model.parameters()))}


def my_tracker(horizon, *, power: int = 2):
    return Norm()


def my_score(probs, draws, *, power: float = 1.0):
    """Unlikely classes have large scores."""
    return (1 - probs) ** power


def my_augment(*, by: float = 0.5):
    return lambda images, black, generator: images * by


def fit_mine(predictions, *, temperature: float = 2.0):
    """One temperature for everything."""
    return Temperature(temperature, predictions.split)


def my_metric(probs, labels, *, power: float = 1.0):
    """How much probability is missing."""
    return ((1 - probs.gather(1, labels[:, None])) ** power).double().mean()


my_metric.label = "missing"


def no_calibrator(predictions):
    return "nothing"


def my_study():
    """Nothing is asked."""
    return "a study"


def my_figure(runs, *, height: float = 2.0):
    """Nothing is drawn."""


def splits(*, n: int = 40):
    """Points on a line."""
    x = torch.arange(2.0 * n)[:, None].numpy()
    return {"x_train": x[:n], "y_train": x[:n, 0] % 2, "x_test": x[n:], "y_test": x[n:, 0] % 2}


def my_model(input_shape, n_classes, *, width: int = 4):
    """One layer."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(n_classes))


def my_corruption(x, c, generator):
    """Nothing is changed."""
    return x
