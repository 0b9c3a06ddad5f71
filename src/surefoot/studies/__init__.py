"""Questions that take many runs to answer: what a study is, how its arms are made, and how its results are read.

A study of your own is a function that returns a :class:`Study`, registered with ``@STUDIES.register("name")``.
"""

from surefoot.studies._arms import finished, moving, tuned
from surefoot.studies._tables import metrics_table
from surefoot.studies.compare import Comparison, make_spec
from surefoot.studies.contract import (
    Analysis,
    Arm,
    Column,
    Drawing,
    Finding,
    Fixed,
    Headline,
    Row,
    Size,
    Study,
    Table,
    Verdict,
)
from surefoot.studies.results import SavedResult, load_result, read_results
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, below, no_worse, none_of, together, true_if

__all__ = [
    "Analysis",
    "Arm",
    "Column",
    "Comparison",
    "Drawing",
    "Finding",
    "Fixed",
    "Headline",
    "Row",
    "Runs",
    "SavedResult",
    "Size",
    "Study",
    "Table",
    "Verdict",
    "above",
    "below",
    "finished",
    "load_result",
    "make_spec",
    "metrics_table",
    "moving",
    "no_worse",
    "none_of",
    "read_results",
    "together",
    "true_if",
    "tuned",
]
