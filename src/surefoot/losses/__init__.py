"""Losses, one file each: a subclass of :class:`Loss` whose keyword-only parameters are its options."""

from surefoot.losses._base import Batch, Loss, Scene
from surefoot.losses.acls import ACLS
from surefoot.losses.adafocal import AdaFocal
from surefoot.losses.ar_adals import ARAdaLS
from surefoot.losses.balcal import BalCAL
from surefoot.losses.brier import Brier
from surefoot.losses.calmo import CalMO
from surefoot.losses.cpc import CPC
from surefoot.losses.crl import CRL
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.dece import DECE
from surefoot.losses.dual_focal import DualFocal
from surefoot.losses.entropy import EntropyPenalty
from surefoot.losses.focal import FLSD, Focal
from surefoot.losses.label_smoothing import LabelSmoothing
from surefoot.losses.margin_tail import MarginTail
from surefoot.losses.mbls import MbLS
from surefoot.losses.mdca import MDCA
from surefoot.losses.meta_calibration import MetaCalibration
from surefoot.losses.mit import MIT
from surefoot.losses.mixup import Mixup
from surefoot.losses.mmce import MMCE
from surefoot.losses.mse import MSE

__all__ = [
    "ACLS",
    "CPC",
    "CRL",
    "DECE",
    "FLSD",
    "MDCA",
    "MIT",
    "MMCE",
    "MSE",
    "ARAdaLS",
    "AdaFocal",
    "BalCAL",
    "Batch",
    "Brier",
    "CalMO",
    "CrossEntropy",
    "DualFocal",
    "EntropyPenalty",
    "Focal",
    "LabelSmoothing",
    "Loss",
    "MarginTail",
    "MbLS",
    "MetaCalibration",
    "Mixup",
    "Scene",
]
