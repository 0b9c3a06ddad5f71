"""Estimators for scikit-learn: a classifier that trains with surefoot's methods, and one that calibrates any other.

``SurefootClassifier(module, method="csam")`` trains a network; ``Calibrated(estimator)`` repairs the probabilities of
any classifier; ``scorer("ece")`` lets ``cross_val_score`` and ``GridSearchCV`` look at them.
"""

try:
    import sklearn  # noqa: F401 - to say what to install where there is none
    import skorch  # noqa: F401
except ImportError as _missing:
    raise ImportError(
        f"Expected scikit-learn and skorch to be installed, but {_missing.name} is not. "
        "Run pip install 'surefoot[sklearn]'."
    ) from _missing

from surefoot.integrations.sklearn.calibrated import Calibrated
from surefoot.integrations.sklearn.classifier import SurefootClassifier
from surefoot.integrations.sklearn.scoring import ece_scorer, metric, scorer

__all__ = ["Calibrated", "SurefootClassifier", "ece_scorer", "metric", "scorer"]
