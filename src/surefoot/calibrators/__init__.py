"""Post-hoc calibrators, one file each: fitted on the calibration split, applied to others.

``fit(name, predictions)``, or the ``fit_…`` of one, gives a small immutable object. It repairs
:class:`~surefoot.schema.Predictions` when called, maps arrays of logits with ``logits`` and ``probs``, is written with
``save`` and read back with :func:`load`, and its ``module()`` is a ``torch.nn.Module`` head for the end of a network.

Registered calibrators declare ``reference`` and ``keeps_order``: whether the ranking of the classes, and with it the
accuracy, stays as it is; ``class_pairs`` where the number of parameters grows with the square of the classes;
``any_columns`` where every column is treated alike, as choices need that mean something else in every row;
``parameters`` and ``seconds``, functions of rows and classes, where those decide whether it is worth a comparison.
"""

from surefoot.calibrators._base import Calibrator, Head, fit, load, load_about
from surefoot.calibrators._fitting import fitting_data, fitting_weights
from surefoot.calibrators.bbq import BBQ, fit_bbq
from surefoot.calibrators.beta import Beta, fit_beta
from surefoot.calibrators.compare import CalibratorComparison, Candidate, compare_calibrators
from surefoot.calibrators.dirichlet import Dirichlet, fit_dirichlet
from surefoot.calibrators.ets import EnsembleTemperature, fit_ets
from surefoot.calibrators.histogram import Histogram, fit_histogram
from surefoot.calibrators.isotonic import Isotonic, fit_isotonic
from surefoot.calibrators.matrix import Matrix, fit_matrix
from surefoot.calibrators.none import Unchanged
from surefoot.calibrators.platt import Platt, fit_platt
from surefoot.calibrators.prior import Prior, correct_prior, em_prior, estimate_prior, fit_prior
from surefoot.calibrators.refine import ChosenEpoch, Refinement, choose_epoch, refinement
from surefoot.calibrators.structured import StructuredMatrix, fit_structured
from surefoot.calibrators.tce import TCE, grid_temperature, tce
from surefoot.calibrators.temperature import Temperature, fit_temperature
from surefoot.calibrators.vector import Vector, fit_vector
from surefoot.calibrators.venn_abers import VennAbers, fit_venn_abers

__all__ = [
    "BBQ",
    "TCE",
    "Beta",
    "Calibrator",
    "CalibratorComparison",
    "Candidate",
    "ChosenEpoch",
    "Dirichlet",
    "EnsembleTemperature",
    "Head",
    "Histogram",
    "Isotonic",
    "Matrix",
    "Platt",
    "Prior",
    "Refinement",
    "StructuredMatrix",
    "Temperature",
    "Unchanged",
    "Vector",
    "VennAbers",
    "choose_epoch",
    "compare_calibrators",
    "correct_prior",
    "em_prior",
    "estimate_prior",
    "fit",
    "fit_bbq",
    "fit_beta",
    "fit_dirichlet",
    "fit_ets",
    "fit_histogram",
    "fit_isotonic",
    "fit_matrix",
    "fit_platt",
    "fit_prior",
    "fit_structured",
    "fit_temperature",
    "fit_vector",
    "fit_venn_abers",
    "fitting_data",
    "fitting_weights",
    "grid_temperature",
    "load",
    "load_about",
    "refinement",
    "tce",
]
