"""Predictions of any kind as rows, some at a time: files of all formats, data frames, arrays, batches of a model.

:func:`open_predictions` gives a ``Source``, which says what its columns mean and refuses what could mean two things.
Repaired predictions are written as they were read.
"""

from surefoot.sources.batches import is_batches
from surefoot.sources.files import files_of, open_predictions
from surefoot.sources.forms import check_form
from surefoot.sources.harness import check_normalise
from surefoot.sources.labels import check_meaning
from surefoot.sources.memory import hold, with_columns
from surefoot.sources.outputs import hold_outputs
from surefoot.sources.paths import find_files, is_path
from surefoot.sources.weights import check_counting

__all__ = [
    "check_counting",
    "check_form",
    "check_meaning",
    "check_normalise",
    "files_of",
    "find_files",
    "hold",
    "hold_outputs",
    "is_batches",
    "is_path",
    "open_predictions",
    "with_columns",
]
