"""The calibrator that changes nothing, for when nothing is to be repaired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surefoot.calibrators._base import Calibrator
from surefoot.schema import SplitName


@dataclass(frozen=True, eq=False)
class Unchanged(Calibrator):
    """Leaves every prediction as it is, so that what reads and applies a saved calibrator need not ask.

    It is no candidate of its own: doing nothing always is one.

    Example:
        >>> import numpy as np
        >>> Unchanged("calibration").probs(np.log([[0.8, 0.2]])).round(4)
        array([[0.8, 0.2]])
    """

    name: ClassVar[str] = "none"
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Return the logits back."""
        return logits
