"""What people call: each command of the command line as a function with the same options and defaults.

Nothing here imports torch before it is called.
"""

from surefoot.api._audit import audit
from surefoot.api._audit_part import audit_part
from surefoot.api._audit_report import AuditReport
from surefoot.api._calibrate import calibrate, load_calibrator, repair
from surefoot.api._check import CheckReport, check
from surefoot.api._compare import ComparisonReport, compare, read_seeds
from surefoot.api._conformal import SetsReport, apply_sets, conformal, load_sets
from surefoot.api._estimate import EstimateReport, estimate
from surefoot.api._places import find_place
from surefoot.api._runs import Run, load_run
from surefoot.api._train import check_out, train
from surefoot.api._watch import watch

__all__ = [
    "AuditReport",
    "CheckReport",
    "ComparisonReport",
    "EstimateReport",
    "Run",
    "SetsReport",
    "apply_sets",
    "audit",
    "audit_part",
    "calibrate",
    "check",
    "check_out",
    "compare",
    "conformal",
    "estimate",
    "find_place",
    "load_calibrator",
    "load_run",
    "load_sets",
    "read_seeds",
    "repair",
    "train",
    "watch",
]
