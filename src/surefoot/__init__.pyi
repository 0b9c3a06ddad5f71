"""The public names, declared once: type checkers read this file, and so does ``__init__.py``."""

from surefoot.api import (
    AuditReport as AuditReport,
    CheckReport as CheckReport,
    ComparisonReport as ComparisonReport,
    EstimateReport as EstimateReport,
    Run as Run,
    SetsReport as SetsReport,
    apply_sets as apply_sets,
    audit as audit,
    audit_part as audit_part,
    calibrate as calibrate,
    check as check,
    compare as compare,
    conformal as conformal,
    estimate as estimate,
    load_calibrator as load_calibrator,
    load_run as load_run,
    load_sets as load_sets,
    repair as repair,
    train as train,
    watch as watch,
)
from surefoot.calibrated import (
    CalibratedModel as CalibratedModel,
)
from surefoot.calibrators import (
    Calibrator as Calibrator,
    Temperature as Temperature,
    fit_temperature as fit_temperature,
    compare_calibrators as compare_calibrators,
)
from surefoot.config import (
    load_config as load_config,
)
from surefoot.data import (
    set_aside as set_aside,
)
from surefoot.prediction_sets import (
    PredictionSets as PredictionSets,
    compare_sets as compare_sets,
    fit_sets as fit_sets,
    measure_sets as measure_sets,
)
from surefoot.errors import (
    InputError as InputError,
    RunError as RunError,
    ShiftError as ShiftError,
    SplitError as SplitError,
    SurefootError as SurefootError,
)
from surefoot.losses import (
    ACLS as ACLS,
    CPC as CPC,
    CRL as CRL,
    DECE as DECE,
    FLSD as FLSD,
    MDCA as MDCA,
    MIT as MIT,
    MMCE as MMCE,
    MSE as MSE,
    ARAdaLS as ARAdaLS,
    AdaFocal as AdaFocal,
    BalCAL as BalCAL,
    Brier as Brier,
    CalMO as CalMO,
    CrossEntropy as CrossEntropy,
    DualFocal as DualFocal,
    EntropyPenalty as EntropyPenalty,
    Focal as Focal,
    LabelSmoothing as LabelSmoothing,
    Loss as Loss,
    MarginTail as MarginTail,
    MbLS as MbLS,
    MetaCalibration as MetaCalibration,
    Mixup as Mixup,
)
from surefoot.metrics import (
    Stream as Stream,
    accuracy as accuracy,
    ada_ece as ada_ece,
    aurc as aurc,
    auroc as auroc,
    brier as brier,
    classwise_ece as classwise_ece,
    confidence_gap as confidence_gap,
    debiased_ece as debiased_ece,
    e_aurc as e_aurc,
    ece as ece,
    entropy as entropy,
    kce as kce,
    mce as mce,
    misclassification_auroc as misclassification_auroc,
    nll as nll,
    overconfidence as overconfidence,
    reliability as reliability,
    rms_ce as rms_ce,
    smooth_ece as smooth_ece,
    top_k_accuracy as top_k_accuracy,
    underconfidence as underconfidence,
)
from surefoot.optim import (
    AESAM as AESAM,
    AMP as AMP,
    ASAM as ASAM,
    BSAM as BSAM,
    BulkSGD as BulkSGD,
    CSAM as CSAM,
    DomSGD as DomSGD,
    ESAM as ESAM,
    FSAM as FSAM,
    FisherSAM as FisherSAM,
    GNP as GNP,
    GSAM as GSAM,
    LookSAM as LookSAM,
    Muon as Muon,
    Plain as Plain,
    RST as RST,
    SAM as SAM,
    SSAM as SSAM,
    SharpnessAware as SharpnessAware,
    USAM as USAM,
    VASSO as VASSO,
    WSAM as WSAM,
)
from surefoot.schema import (
    LossTerms as LossTerms,
    MethodSpec as MethodSpec,
    PartSpec as PartSpec,
    Predictions as Predictions,
    RunSpec as RunSpec,
    Split as Split,
    Splits as Splits,
    Tracking as Tracking,
)
from surefoot.steering import (
    KeepCalibrated as KeepCalibrated,
)
from surefoot.trackers import (
    Watch as Watch,
)

__version__: str
__all__: list[str]
