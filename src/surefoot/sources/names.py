"""What arrays and columns are called in the wild, and which of them belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from surefoot.errors import InputError

Kind = Literal["logits", "probs"]
Role = Literal["logits", "probs", "scores", "labels", "classes"]
Split = Literal["", "train", "calibration", "test"]

_WORDS: dict[Role, tuple[str, ...]] = {
    "logits": ("logits", "logit", "log probs", "logprobs", "log prob", "log softmax", "log probabilities"),
    "probs": (
        *("probabilities", "probability", "probs", "prob", "proba", "softmax", "y prob", "y proba", "p", "p1"),
        "risk",
    ),
    "scores": (
        *("predictions", "prediction", "preds", "pred", "scores", "score", "outputs", "output", "y score", "y pred"),
    ),
    "labels": (
        *("true labels", "true label", "ground truth", "y true", "labels", "label", "targets", "target", "truth"),
        *("gt", "y"),
    ),
    "classes": ("class names", "classes", "label names"),
}
_SPLITS: dict[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "calibration": ("calibration", "calib", "cal", "validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "holdout"),
}
_BY_LENGTH = sorted(((word, role) for role, words in _WORDS.items() for word in words), key=lambda pair: -len(pair[0]))
_RANK: dict[Role, int] = {"logits": 0, "probs": 1, "scores": 2}  # logits say most; "preds" may be classes


@dataclass(frozen=True)
class Named:
    """A name taken apart: what it stands for, of which model, on which split."""

    key: str
    role: Role
    model: str
    split: Split


@dataclass(frozen=True)
class Pick:
    """A set of scores and the labels that go with it."""

    model: str
    split: Split
    scores: tuple[str, ...]
    kind: Kind | None  # None: to be told from the values
    labels: str
    class_names: tuple[str, ...] = ()


def take_apart(key: str) -> Named | None:
    """Find the known words in a name.

    Args:
        key: For example ``"val_logits"``.

    Returns:
        What it stands for; None if no word is known.

    Example:
        >>> take_apart("resnet_val_logits")
        Named(key='resnet_val_logits', role='logits', model='resnet', split='calibration')
        >>> take_apart("image_id") is None
        True
    """
    words = re.sub(r"[^a-z0-9]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", key).lower()).strip()
    for word, role in _BY_LENGTH:
        if match := re.search(rf"(?:^| ){word}(?= |$)", words):
            return Named(key, role, *model_and_split(f"{words[: match.start()]} {words[match.end() :]}"))
    return None


def model_and_split(text: str) -> tuple[str, Split]:
    """Find the split in what is left of a name; the rest is the model's.

    Example:
        >>> model_and_split("resnet val")
        ('resnet', 'calibration')
    """
    rest = re.sub(r"[^a-z0-9]+", " ", text.lower()).split()
    for split, known in _SPLITS.items():
        if found := next((word for word in rest if word in known), None):
            rest.remove(found)
            return "_".join(rest), split
    return "_".join(rest), ""


def pick_arrays(
    keys: Iterable[str], label: str | None = None, where: str = "the file"
) -> tuple[list[Pick], str | None]:
    """Match score arrays with label arrays.

    Args:
        keys: Names of the arrays in a file.
        label: The labels, where names do not tell.
        where: The file, for messages.

    Returns:
        The sets found, and the key of the class names.

    Example:
        >>> [pick.scores for pick in pick_arrays(["preds", "probs", "labels"])[0]]
        [('probs',)]
    """
    named = [found for found in map(take_apart, keys) if found and found.key != label]
    labels = [found for found in named if found.role == "labels"]
    picks: dict[tuple[str, Split], Pick] = {}
    for found in sorted((found for found in named if found.role in _RANK), key=lambda found: _RANK[found.role]):
        whose = label or _labels_of(found, labels, where)
        if whose is not None:
            kind: Kind | None = None if found.role == "scores" else found.role  # type: ignore[assignment]  # the other roles are kinds
            pick = Pick(found.model, found.split, (found.key,), kind, whose)
            before = picks.setdefault((found.model, found.split), pick)
            if before is not pick and before.kind is kind is None:
                raise InputError(
                    f"Expected one set of scores, but {before.scores[0]!r} and {found.key!r} could both be it in "
                    f"{where}. Say which with --scores {before.scores[0]}."
                )
    classes = next((found.key for found in named if found.role == "classes"), None)
    return list(picks.values()), classes


def picked_by_hand(key: str, keys: Iterable[str], label: str | None, where: str) -> list[Pick]:
    """Pair scores that somebody named with labels; their name may tell of which kind and model they are.

    Args:
        key: The scores.
        keys: Names of all arrays in the file.
        label: The labels, where names do not tell.
        where: The file, for messages.

    Returns:
        The pair; nothing if there are no labels.
    """
    known = take_apart(key)
    found = known if known and known.role in _RANK else Named(key, "scores", "", "")
    labels = [each for each in map(take_apart, keys) if each and each.role == "labels" and each.key != key]
    whose = label or _labels_of(found, labels, where)
    kind: Kind | None = None if found.role == "scores" else found.role  # type: ignore[assignment]  # the other roles are kinds
    return [] if whose is None else [Pick(found.model, found.split, (key,), kind, whose)]


def _labels_of(scores: Named, labels: list[Named], where: str) -> str | None:
    """Find the labels of the same model and split; else those that all models share; else the only ones."""
    for model, split in ((scores.model, scores.split), ("", scores.split), ("", "")):
        found = [each.key for each in labels if (each.model, each.split) == (model, split)]
        if found:
            return _the_only_one(found, where)
    return labels[0].key if len(labels) == 1 and labels[0].split in ("", scores.split) else None


def _the_only_one(labels: list[str], where: str) -> str:
    if len(labels) > 1:
        shown = " and ".join(map(repr, labels[:3]))
        raise InputError(
            f"Expected one set of labels, but {shown} could both be it in {where}. Say which with --labels {labels[0]}."
        )
    return labels[0]


def label_column(columns: Iterable[str], where: str = "the file") -> str | None:
    """Find the column that holds the true classes.

    Args:
        columns: Names of the columns of a table.
        where: The file, for messages.

    Returns:
        Its name; None if no name says so.

    Raises:
        InputError: If several could be it.
    """
    named = [found for found in map(take_apart, columns) if found and found.role == "labels"]
    plain = [found.key for found in named if not found.model]
    found = plain or [found.key for found in named if not _PREDICTED & set(found.model.split("_"))]
    return _the_only_one(found, where) if found else None


def is_weight(name: str) -> bool:
    """Return whether a column is called as one that says how much a row counts.

    Example:
        >>> is_weight("sampleWeight"), is_weight("freq"), is_weight("weighty"), is_weight("word_count")
        (True, True, False, False)
    """
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return bool(re.search(r"(?:^|[^a-z])weights?(?:$|[^a-z])", words)) or words in _WEIGHTS


_WEIGHTS = {"wt", "freq", "frequency", "count", "counts", "multiplicity"}
_PREDICTED = {"pred", "preds", "predicted", "prediction", "guess", "guessed", "model"}
