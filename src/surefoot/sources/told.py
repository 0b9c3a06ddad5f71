"""What a user may say about predictions, declared once for all that read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from surefoot.schema import Form
from surefoot.sources.labels import Meaning
from surefoot.sources.weights import Counting

Normalise = Literal["none", "length", "bytes"]
Said = Literal["logits", "probs", "percent"]


class Told(TypedDict, total=False):
    """What names and values do not tell, or tell wrongly.

    Attributes:
        kind: What the scores are.
        labels: The labels' array or column, for files without names their file.
        scores: The scores' array or columns.
        labels_are: Class numbers ``from-0`` or ``from-1``, or ``names``. It also says that the file is right as it is,
            however unlikely its labels are.
        groups: Arrays or columns that divide the rows into slices.
        weights: The array or column that says how much a row counts; False: all count alike, whatever there is.
        weights_are: ``importance``, how much a row represents, or ``counts``, for how many rows it stands.
        skip_missing: Leave rows out in which a score, the label or the weight is missing, instead of refusing them.
        header: Whether the first line of a ``.csv`` holds names; else its cells tell.
        form: One true class per row, several labels, choices of their own in every row, or a confidence and whether it
            was right.
        normalise: Of files of lm-evaluation-harness: log-likelihoods as they are, or divided by how long a choice is.
        ignore_index: The label of tokens or pixels that do not count.
        class_axis: Which axis of an array with more than two is that of the classes.
        score_of: Of two classes with one score per row, the name of the one whose score it is.
    """

    kind: Said | None
    labels: str | None
    scores: Sequence[str]
    labels_are: Meaning | None
    groups: Sequence[str]
    weights: str | bool | None
    weights_are: Counting | None
    skip_missing: bool
    header: bool | None
    form: Form | None
    normalise: Normalise | None
    ignore_index: int | None
    class_axis: int | None
    score_of: str | None
