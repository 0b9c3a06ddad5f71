"""Post-hoc calibrators, one file each: fitted on the calibration split, applied to others.

``fit_…(predictions)`` gives a small immutable object. It repairs :class:`~surefoot.schema.Predictions` when called,
maps arrays of logits with ``logits`` and ``probs``, is written with ``save`` and read back with :func:`load`, and its
``module()`` is a ``torch.nn.Module`` head for the end of a network.

Registered calibrators declare ``reference`` and ``keeps_order``: whether the ranking of the classes, and with it the
accuracy, stays as it is; ``class_pairs`` where the number of parameters grows with the square of the classes.
"""

from surefoot.calibrators._base import Calibrator, Head, check_fitting_data, load, load_about

__all__ = ["Calibrator", "Head", "check_fitting_data", "load", "load_about"]
