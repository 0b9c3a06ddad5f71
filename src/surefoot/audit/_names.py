"""What arrays and columns are called in the wild, and which of them belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["logits", "probs"]
Role = Literal["logits", "probs", "scores", "labels", "classes"]
Split = Literal["", "train", "calibration", "test"]

_WORDS: dict[Role, tuple[str, ...]] = {
    "logits": ("logits", "logit", "log probs", "logprobs", "log prob", "log softmax", "log probabilities"),
    "probs": ("probabilities", "probability", "probs", "prob", "proba", "softmax", "y prob", "y proba", "p"),
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
            return Named(key, role, *_model_and_split(f"{words[: match.start()]} {words[match.end() :]}"))
    return None


def _model_and_split(words: str) -> tuple[str, Split]:
    rest = words.split()
    for split, known in _SPLITS.items():
        if found := next((word for word in rest if word in known), None):
            rest.remove(found)
            return "_".join(rest), split
    return "_".join(rest), ""


def pick_arrays(keys: Iterable[str], label: str | None = None) -> tuple[list[Pick], str | None]:
    """Match score arrays with label arrays.

    Args:
        keys: Names of the arrays in a file.
        label: The labels, where names do not tell.

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
        whose = label or _labels_of(found, labels)
        if whose is not None:
            kind: Kind | None = None if found.role == "scores" else found.role  # type: ignore[assignment]  # the other roles are kinds
            pick = Pick(found.model, found.split, (found.key,), kind, whose)
            picks.setdefault((found.model, found.split), pick)
    classes = next((found.key for found in named if found.role == "classes"), None)
    return list(picks.values()), classes


def _labels_of(scores: Named, labels: list[Named]) -> str | None:
    """Find the labels of the same model and split; else those that all models share; else the only ones."""
    for model, split in ((scores.model, scores.split), ("", scores.split), ("", "")):
        for found in labels:
            if (found.model, found.split) == (model, split):
                return found.key
    return labels[0].key if len(labels) == 1 and labels[0].split in ("", scores.split) else None


_COLUMN = re.compile(
    r"^(?:(?P<of>.+?)[_.\s/-])?(?P<word>logits?|log[_-]?probs?|probs?|proba|probability|p)"
    r"(?:[_.\s\[/-]+|(?=\d))(?P<name>[^\]]+)\]?$",
    re.IGNORECASE,
)


def pick_columns(columns: Iterable[str], label: str | None = None) -> list[Pick]:
    """Match score columns, one per class, with a label column.

    ``logit_cat, logit_dog`` and ``p0, p1`` are scores of named classes; without such prefixes there is no telling
    from the names alone, and the caller looks at what is numeric.

    Args:
        columns: Names of the columns of a table.
        label: The label column, where names do not tell.

    Returns:
        The sets found.

    Example:
        >>> pick_columns(["label", "prob_cat", "prob_dog"])[0].class_names
        ('cat', 'dog')
    """
    columns = list(columns)
    label = label or label_column(columns)
    if label is None:
        return []
    found: dict[tuple[str, Kind], list[tuple[str, str]]] = {}
    for column in columns:
        if column != label and (match := _COLUMN.match(column)):
            kind: Kind = "logits" if match["word"].lower().startswith("log") else "probs"
            found.setdefault(((match["of"] or "").lower(), kind), []).append((column, match["name"]))
    picks: dict[tuple[str, Split], Pick] = {}
    for (of, kind), pairs in sorted(found.items(), key=lambda item: _RANK[item[0][1]]):
        if len(pairs) > 1:
            model, split = _model_and_split(re.sub(r"[^a-z0-9]+", " ", of))
            scores, names = zip(*pairs, strict=True)
            picks.setdefault((model, split), Pick(model, split, scores, kind, label, names))
    return list(picks.values())


def label_column(columns: Iterable[str]) -> str | None:
    """Find the column that holds the true classes."""
    named = [found for found in map(take_apart, columns) if found and found.role == "labels"]
    plain = [found.key for found in named if not found.model]
    return next(iter(plain or [found.key for found in named]), None)
