"""Ensembles and Bayesian networks, one file each. Predictions are means of probabilities, never of logits."""

from __future__ import annotations

from surefoot.ensembles._base import Ensemble, Kept, Sampled, build_ensemble
from surefoot.ensembles._layers import sample_predict, sampling
from surefoot.ensembles._mean import deep_predict, log_mean_probs
from surefoot.ensembles._objective import innermost, total_kl
from surefoot.ensembles.batch_ensemble import BatchEnsemble, BatchEnsembleNetwork
from surefoot.ensembles.bsam_posterior import BSAMPosterior, posterior_predict
from surefoot.ensembles.deep import DeepEnsemble
from surefoot.ensembles.flipout import MeanField, mean_field
from surefoot.ensembles.mc_dropout import MCDropout, with_dropout
from surefoot.ensembles.mimo import MIMO, MIMONetwork
from surefoot.ensembles.rank1 import Rank1, Rank1Network
from surefoot.ensembles.snapshot import Snapshot
from surefoot.ensembles.swa import SWA, average_weights, update_batch_norm

__all__ = [
    "MIMO",
    "SWA",
    "BSAMPosterior",
    "BatchEnsemble",
    "BatchEnsembleNetwork",
    "DeepEnsemble",
    "Ensemble",
    "Kept",
    "MCDropout",
    "MIMONetwork",
    "MeanField",
    "Rank1",
    "Rank1Network",
    "Sampled",
    "Snapshot",
    "average_weights",
    "build_ensemble",
    "deep_predict",
    "innermost",
    "log_mean_probs",
    "mean_field",
    "posterior_predict",
    "sample_predict",
    "sampling",
    "total_kl",
    "update_batch_norm",
    "with_dropout",
]
