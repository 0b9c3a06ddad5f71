"""What arrays and columns are called in the wild, and which of them belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["logits", "probs"]
Role = Literal["logits", "probs", "scores", "labels", "classes", "group"]

_WORDS: dict[Role, tuple[str, ...]] = {
    "logits": ("logits", "logit"),
    "probs": ("probabilities", "probability", "probs", "prob", "proba", "softmax", "y prob", "y proba", "p"),
    "scores": ("predictions", "prediction", "preds", "scores", "score", "outputs", "output", "y score", "y pred"),
    "labels": (
        *("true labels", "true label", "ground truth", "y true", "labels", "label", "targets", "target", "truth"),
        *("gt", "y"),
    ),
    "classes": ("class names", "classes", "label names"),
    "group": ("groups", "group", "slices", "slice"),
}
CALIBRATION = ("calibration", "calib", "cal", "validation", "valid", "val", "dev")
TEST = ("test", "eval", "holdout")


@dataclass(frozen=True)
class Named:
    """A name taken apart: what it stands for, and of which model or split."""

    key: str
    role: Role
    of: str


@dataclass(frozen=True)
class Pick:
    """A set of scores and the labels that go with it."""

    of: str
    scores: tuple[str, ...]
    kind: Kind | None  # None: to be told from the values
    labels: str


def take_apart(key: str) -> Named | None:
    """Find the known word in a name.

    Args:
        key: For example ``"val_logits"``.

    Returns:
        What it stands for; None if no word is known.

    Example:
        >>> take_apart("val_logits"), take_apart("image_id")
        (Named(key='val_logits', role='logits', of='val'), None)
    """
    words = re.sub(r"[^a-z0-9]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", key).lower()).strip()
    known = sorted(((word, role) for role, all_ in _WORDS.items() for word in all_), key=lambda pair: -len(pair[0]))
    for word, role in known:
        if match := re.search(rf"(?:^| ){word}(?: |$)", words):
            rest = f"{words[: match.start()]} {words[match.end() :]}".strip()
            return Named(key, role, rest)
    return None


def pick_arrays(keys: Iterable[str]) -> tuple[list[Pick], list[str]]:
    """Match score arrays with label arrays.

    Args:
        keys: Names of the arrays in a file.

    Returns:
        The sets found, and the keys of class names (at most one).
    """
    named = [found for found in map(take_apart, keys) if found]
    labels = {found.of: found.key for found in named if found.role == "labels"}
    picks = []
    for found in named:
        if found.role in ("logits", "probs", "scores"):
            whose = labels.get(found.of, labels.get("", next(iter(labels.values())) if len(labels) == 1 else None))
            if whose is not None:
                kind: Kind | None = None if found.role == "scores" else found.role  # type: ignore[assignment]
                picks.append(Pick(found.of, (found.key,), kind, whose))
    return _prefer(picks), [found.key for found in named if found.role == "classes"][:1]


def pick_columns(columns: Iterable[str]) -> tuple[list[Pick], dict[str, tuple[str, ...]]]:
    """Match score columns, one per class, with a label column.

    ``logit_cat, logit_dog`` and ``p0, p1`` are scores of named classes; without such prefixes there is no telling
    from the names alone, and the caller looks at what is numeric.

    Args:
        columns: Names of the columns of a table.

    Returns:
        The sets found, and the class names of each by the model they are of.
    """
    columns = list(columns)
    label = next((c for c in columns if (found := take_apart(c)) and found.role == "labels" and not found.of), None)
    if label is None:
        return [], {}
    pattern = re.compile(
        r"^(?:(?P<of>.+?)[_.\s/-])?(?P<word>logits?|probs?|proba|probability|p)[_.\s\[-]*(?P<name>[^\]]+)\]?$", re.I
    )
    groups: dict[tuple[str, Kind], list[tuple[str, str]]] = {}
    for column in columns:
        if column != label and (match := pattern.match(column)):
            kind: Kind = "logits" if match["word"].lower().startswith("logit") else "probs"
            groups.setdefault(((match["of"] or "").lower(), kind), []).append((column, match["name"]))
    picks = [
        Pick(of, tuple(c for c, _ in found), kind, label) for (of, kind), found in groups.items() if len(found) > 1
    ]
    names = {of: tuple(n for _, n in found) for (of, _), found in groups.items()}
    return _prefer(picks), names


def _prefer(picks: list[Pick]) -> list[Pick]:
    """Where a model has both logits and probabilities, logits say more."""
    best: dict[str, Pick] = {}
    for pick in picks:
        if pick.of not in best or (pick.kind == "logits" and best[pick.of].kind != "logits"):
            best[pick.of] = pick
    return list(best.values())
