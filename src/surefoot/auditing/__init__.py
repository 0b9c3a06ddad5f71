"""For the reviewer with predictions: can they be trusted, and how can they be repaired?"""

from surefoot.auditing._batches import is_batches
from surefoot.auditing._forms import check_form
from surefoot.auditing._gate_words import read_limits
from surefoot.auditing._harness import check_normalise
from surefoot.auditing._labels import check_meaning
from surefoot.auditing._memory import hold, with_columns
from surefoot.auditing._outputs import hold_outputs
from surefoot.auditing._paths import find_files, is_path
from surefoot.auditing._weights import check_counting
from surefoot.auditing.apply import Applied, apply
from surefoot.auditing.apply_sets import AppliedSets, apply_sets
from surefoot.auditing.audit import audit
from surefoot.auditing.baseline import Baseline, load_baseline
from surefoot.auditing.calibrate import Fitted, calibrate
from surefoot.auditing.checked import Gate
from surefoot.auditing.conformal import FittedSets, conformal
from surefoot.auditing.engines import open_engine
from surefoot.auditing.estimate import Estimate, estimate
from surefoot.auditing.files import files_of, open_predictions
from surefoot.auditing.gate import check
from surefoot.auditing.parts import AuditPart, audit_part
from surefoot.auditing.ranking import Ranking
from surefoot.auditing.result import Audit, AuditComparison
from surefoot.auditing.several import Several, audit_several, compare_audits
from surefoot.auditing.thresholds import Threshold

__all__ = [
    "Applied",
    "AppliedSets",
    "Audit",
    "AuditComparison",
    "AuditPart",
    "Baseline",
    "Estimate",
    "Fitted",
    "FittedSets",
    "Gate",
    "Ranking",
    "Several",
    "Threshold",
    "apply",
    "apply_sets",
    "audit",
    "audit_part",
    "audit_several",
    "calibrate",
    "check",
    "check_counting",
    "check_form",
    "check_meaning",
    "check_normalise",
    "compare_audits",
    "conformal",
    "estimate",
    "files_of",
    "find_files",
    "hold",
    "hold_outputs",
    "is_batches",
    "is_path",
    "load_baseline",
    "open_engine",
    "open_predictions",
    "read_limits",
    "with_columns",
]
