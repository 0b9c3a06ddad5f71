"""Turning ρ, γ and weight decay by held-out data while a network trains."""

from surefoot.steering.keep_calibrated import KeepCalibrated, Steering
from surefoot.steering.signal import Signal, signal_of

__all__ = ["KeepCalibrated", "Signal", "Steering", "signal_of"]
