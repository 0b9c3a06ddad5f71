"""What people call: each command of the command line as a function with the same options and defaults.

Nothing here imports torch before it is called.
"""

from surefoot.api._audit import audit
from surefoot.api._audit_report import AuditReport
from surefoot.api._calibrate import calibrate, load_calibrator, repair
from surefoot.api._compare import ComparisonReport, compare, read_seeds
from surefoot.api._runs import Run, load_run
from surefoot.api._train import check_out, train

__all__ = [
    "AuditReport",
    "ComparisonReport",
    "Run",
    "audit",
    "calibrate",
    "check_out",
    "compare",
    "load_calibrator",
    "load_run",
    "read_seeds",
    "repair",
    "train",
]
