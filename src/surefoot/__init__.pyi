"""The public names, declared once: type checkers read this file, and so does ``__init__.py``."""

from surefoot.api import (
    AuditReport as AuditReport,
)
from surefoot.api import (
    ComparisonReport as ComparisonReport,
)
from surefoot.api import (
    Run as Run,
)
from surefoot.api import (
    audit as audit,
)
from surefoot.api import (
    calibrate as calibrate,
)
from surefoot.api import (
    compare as compare,
)
from surefoot.api import (
    load_run as load_run,
)
from surefoot.api import (
    repair as repair,
)
from surefoot.api import (
    train as train,
)
from surefoot.calibrated import (
    CalibratedModel as CalibratedModel,
)
from surefoot.calibrators import (
    Calibrator as Calibrator,
)
from surefoot.calibrators import (
    Temperature as Temperature,
)
from surefoot.calibrators import (
    compare_calibrators as compare_calibrators,
)
from surefoot.calibrators import (
    fit_temperature as fit_temperature,
)
from surefoot.config import (
    load_config as load_config,
)
from surefoot.errors import (
    InputError as InputError,
)
from surefoot.errors import (
    RunError as RunError,
)
from surefoot.errors import (
    SplitError as SplitError,
)
from surefoot.errors import (
    SurefootError as SurefootError,
)
from surefoot.losses import (
    ACLS as ACLS,
)
from surefoot.losses import (
    CPC as CPC,
)
from surefoot.losses import (
    CRL as CRL,
)
from surefoot.losses import (
    DECE as DECE,
)
from surefoot.losses import (
    FLSD as FLSD,
)
from surefoot.losses import (
    MDCA as MDCA,
)
from surefoot.losses import (
    MIT as MIT,
)
from surefoot.losses import (
    MMCE as MMCE,
)
from surefoot.losses import (
    MSE as MSE,
)
from surefoot.losses import (
    AdaFocal as AdaFocal,
)
from surefoot.losses import (
    ARAdaLS as ARAdaLS,
)
from surefoot.losses import (
    BalCAL as BalCAL,
)
from surefoot.losses import (
    Brier as Brier,
)
from surefoot.losses import (
    CalMO as CalMO,
)
from surefoot.losses import (
    CrossEntropy as CrossEntropy,
)
from surefoot.losses import (
    DualFocal as DualFocal,
)
from surefoot.losses import (
    EntropyPenalty as EntropyPenalty,
)
from surefoot.losses import (
    Focal as Focal,
)
from surefoot.losses import (
    LabelSmoothing as LabelSmoothing,
)
from surefoot.losses import (
    Loss as Loss,
)
from surefoot.losses import (
    MarginTail as MarginTail,
)
from surefoot.losses import (
    MbLS as MbLS,
)
from surefoot.losses import (
    MetaCalibration as MetaCalibration,
)
from surefoot.losses import (
    Mixup as Mixup,
)
from surefoot.metrics import (
    Stream as Stream,
)
from surefoot.metrics import (
    accuracy as accuracy,
)
from surefoot.metrics import (
    ada_ece as ada_ece,
)
from surefoot.metrics import (
    aurc as aurc,
)
from surefoot.metrics import (
    auroc as auroc,
)
from surefoot.metrics import (
    brier as brier,
)
from surefoot.metrics import (
    classwise_ece as classwise_ece,
)
from surefoot.metrics import (
    confidence_gap as confidence_gap,
)
from surefoot.metrics import (
    debiased_ece as debiased_ece,
)
from surefoot.metrics import (
    e_aurc as e_aurc,
)
from surefoot.metrics import (
    ece as ece,
)
from surefoot.metrics import (
    entropy as entropy,
)
from surefoot.metrics import (
    kce as kce,
)
from surefoot.metrics import (
    mce as mce,
)
from surefoot.metrics import (
    misclassification_auroc as misclassification_auroc,
)
from surefoot.metrics import (
    nll as nll,
)
from surefoot.metrics import (
    overconfidence as overconfidence,
)
from surefoot.metrics import (
    reliability as reliability,
)
from surefoot.metrics import (
    rms_ce as rms_ce,
)
from surefoot.metrics import (
    smooth_ece as smooth_ece,
)
from surefoot.metrics import (
    top_k_accuracy as top_k_accuracy,
)
from surefoot.metrics import (
    underconfidence as underconfidence,
)
from surefoot.optim import (
    AESAM as AESAM,
)
from surefoot.optim import (
    AMP as AMP,
)
from surefoot.optim import (
    ASAM as ASAM,
)
from surefoot.optim import (
    BSAM as BSAM,
)
from surefoot.optim import (
    CSAM as CSAM,
)
from surefoot.optim import (
    ESAM as ESAM,
)
from surefoot.optim import (
    FSAM as FSAM,
)
from surefoot.optim import (
    GNP as GNP,
)
from surefoot.optim import (
    GSAM as GSAM,
)
from surefoot.optim import (
    RST as RST,
)
from surefoot.optim import (
    SAM as SAM,
)
from surefoot.optim import (
    SSAM as SSAM,
)
from surefoot.optim import (
    USAM as USAM,
)
from surefoot.optim import (
    VASSO as VASSO,
)
from surefoot.optim import (
    WSAM as WSAM,
)
from surefoot.optim import (
    BulkSGD as BulkSGD,
)
from surefoot.optim import (
    DomSGD as DomSGD,
)
from surefoot.optim import (
    FisherSAM as FisherSAM,
)
from surefoot.optim import (
    LookSAM as LookSAM,
)
from surefoot.optim import (
    Muon as Muon,
)
from surefoot.optim import (
    Plain as Plain,
)
from surefoot.optim import (
    SharpnessAware as SharpnessAware,
)
from surefoot.schema import (
    LossTerms as LossTerms,
)
from surefoot.schema import (
    MethodSpec as MethodSpec,
)
from surefoot.schema import (
    PartSpec as PartSpec,
)
from surefoot.schema import (
    Predictions as Predictions,
)
from surefoot.schema import (
    RunSpec as RunSpec,
)
from surefoot.schema import (
    Split as Split,
)
from surefoot.schema import (
    Splits as Splits,
)
from surefoot.schema import (
    Tracking as Tracking,
)
from surefoot.trackers import (
    Watch as Watch,
)

__version__: str
__all__: list[str]
