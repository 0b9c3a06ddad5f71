"""The training loop: exact, resumable, watched without being changed."""

from surefoot.training.listener import RunListener
from surefoot.training.loop import fit
from surefoot.training.predict import predict, predict_together
from surefoot.training.tracker import Remembering, Tracker
from surefoot.training.trainee import Trainee

__all__ = ["Remembering", "RunListener", "Tracker", "Trainee", "fit", "predict", "predict_together"]
