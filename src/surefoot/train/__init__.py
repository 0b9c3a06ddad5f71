"""The training loop: exact, resumable, watched without being changed."""

from surefoot.train.loop import Trainee, fit
from surefoot.train.predict import predict, predict_together
from surefoot.train.tracker import Horizon, Tracker

__all__ = ["Horizon", "Tracker", "Trainee", "fit", "predict", "predict_together"]
