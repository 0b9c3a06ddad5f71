"""Trackers, one file each: what is measured while a network trains."""

from __future__ import annotations

from surefoot.moment import Horizon, Moment
from surefoot.trackers._base import OnLogits, Probe, Scheduled, logits_of
from surefoot.trackers._read import PRESETS, build_trackers, read_track
from surefoot.trackers._watch import Watch
from surefoot.trackers.alignment import Alignment
from surefoot.trackers.batch_sharpness import BatchSharpnessTracker
from surefoot.trackers.certificate import Certificate
from surefoot.trackers.gn_sharpness import GNSharpness
from surefoot.trackers.jacobian import Jacobian
from surefoot.trackers.kappa import Kappa
from surefoot.trackers.margins import Margins
from surefoot.trackers.objective import Objective
from surefoot.trackers.path import PathTracker
from surefoot.trackers.preconditioned import PreconditionedSharpness
from surefoot.trackers.quality import Quality
from surefoot.trackers.sharpness_on_test import SharpnessOnTest
from surefoot.trackers.shift import ShiftCertificate
from surefoot.trackers.step_facts import StepFactsTracker
from surefoot.trackers.tce import TemperedECE
from surefoot.training.tracker import Tracker

__all__ = [
    "PRESETS",
    "Alignment",
    "BatchSharpnessTracker",
    "Certificate",
    "GNSharpness",
    "Horizon",
    "Jacobian",
    "Kappa",
    "Margins",
    "Moment",
    "Objective",
    "OnLogits",
    "PathTracker",
    "PreconditionedSharpness",
    "Probe",
    "Quality",
    "Scheduled",
    "SharpnessOnTest",
    "ShiftCertificate",
    "StepFactsTracker",
    "TemperedECE",
    "Tracker",
    "Watch",
    "build_trackers",
    "logits_of",
    "read_track",
]
