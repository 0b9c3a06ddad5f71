"""Which columns of a table are scores where no list holds them: by their names, then by names and values together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from surefoot.errors import InputError
from surefoot.sources._cells import Column, numbers_or_none
from surefoot.sources._values import rounding
from surefoot.sources.labels import Array, whole
from surefoot.sources.names import (
    Kind,
    Pick,
    Split,
    is_weight,
    label_column,
    model_and_split,
    pick_arrays,
    take_apart,
)
from surefoot.sources.source import SUM_TOLERANCE

_COLUMN = re.compile(
    r"^(?:(?P<of>.+?)[_.\s/-])?(?P<word>logits?|log[_-]?probs?|probs?|proba|probability|p)"
    r"(?:[_.\s\[/-]+|(?=\d))(?P<name>[^\]]+)\]?$",
    re.IGNORECASE,
)
# What such columns hold their names do not tell: classes that were predicted, shares, logits.
_VAGUE = re.compile(
    r"^(?:(?P<of>.+?)[_.\s/-])?(?P<word>scores?|outputs?|preds?|predictions?|softmax|class)"
    r"(?:[_.\s\[/-]+|(?=\d))(?P<name>[^\]]+)\]?$",
    re.IGNORECASE,
)
_NO_SCORE = re.compile(
    r"^(|unnamed: .*|level_\d+|__index_level_\d+__|confidence|conf|correct|(.*[_.\s-])?(id|idx|index|row|fold|seed))$",
    re.IGNORECASE,
)
Pairs = list[tuple[str, str]]  # a column, and the name of its class


def pick_columns(columns: Iterable[str], label: str | None = None) -> list[Pick]:
    """Match score columns, one per class, with a label column.

    ``logit_cat, logit_dog`` and ``p0, p1`` are scores of named classes; without such prefixes there is no telling
    from the names alone, and :func:`pick_by_values` looks at what is in them.

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
    rank: dict[Kind, int] = {"logits": 0, "probs": 1}  # logits say most
    found: dict[tuple[str, Kind], Pairs] = {}
    for column in columns:
        if column != label and (match := _COLUMN.match(column)):
            kind: Kind = "logits" if match["word"].lower().startswith("log") else "probs"
            found.setdefault(((match["of"] or "").lower(), kind), []).append((column, match["name"]))
    picks: dict[tuple[str, Split], Pick] = {}
    for (of, kind), pairs in sorted(found.items(), key=lambda item: rank[item[0][1]]):
        if len(pairs) > 1:
            model, split = model_and_split(of)
            scores, names = zip(*pairs, strict=True)
            picks.setdefault((model, split), Pick(model, split, scores, kind, label, names))
    return list(picks.values())


def pick_by_values(
    first: Mapping[str, Column], rest: Sequence[str], label: str, label_texts: Callable[[], set[str]], where: str
) -> list[Pick]:
    """Find the scores among columns whose names do not tell, and refuse where features could be taken for them.

    Columns are classes if they are called as the labels are, or are numbered, or if all rows sum to 1 (or 100).

    Args:
        first: The first rows.
        rest: Columns that may hold scores.
        label: The label column.
        label_texts: Gives the different labels of the whole column.
        where: The file, for messages.

    Returns:
        The sets found; none if there is nothing like a score.

    Raises:
        InputError: If columns could be scores or something else.
    """
    held = {name: values for name in rest if (values := numbers_or_none(first[name])) is not None}
    vague = _vague(held)
    for of, pairs in vague.items():
        if chosen := _classes(pairs, held, label_texts):
            return [_pick(chosen, label, *model_and_split(of))]
    bare = [(name, name) for name in held if _may_be_a_score(name, held[name])]
    chosen = _classes(bare, held, label_texts)
    single = [name for name in held if (part := take_apart(name)) and part.role in ("logits", "probs", "scores")]
    soft = [name for name in single if not _are_whole(held[name])]
    if chosen and soft and not _are_named(chosen, label_texts):
        raise _unclear([soft[0], *(column for column, _ in chosen)], "scores of", where)
    if chosen:
        return [_pick(chosen, label, "", "")]
    if soft or single:
        return _single(soft or single, vague, label, where)
    if len(bare) > 1:
        raise _unclear([column for column, _ in bare], "scores or features of", where)
    return []


def score_like(names: Iterable[str]) -> bool:
    """Return whether names tell of scores of classes: several with one prefix, or arrays that are called so.

    Example:
        >>> score_like(["prob_a", "prob_b"]), score_like(["logits", "label"]), score_like(["confidence", "correct"])
        (True, True, False)
    """
    names = list(names)
    several = sum(bool(_COLUMN.match(name)) for name in names) > 1
    return several or any((part := take_apart(name)) and part.role in ("logits", "probs") for name in names)


def class_of_column(name: str) -> str | None:
    """Return the class that a column of scores is called after; None where its name tells none.

    Example:
        >>> class_of_column("prob_sick"), class_of_column("score")
        ('sick', None)
    """
    match = _COLUMN.match(name) or _VAGUE.match(name)
    return match["name"] if match else None


def by_hand(columns: Sequence[str], label: str) -> Pick:
    """Pair columns of scores that somebody named with labels; a common prefix tells of which kind they are."""
    matches = [_COLUMN.match(column) or _VAGUE.match(column) for column in columns]
    words = {match["word"].lower() for match in matches if match}
    named = pick_columns([label, *columns], label) if all(matches) and len(words) == 1 else []
    kind = named[0].kind if named else None
    return Pick(
        "",
        "",
        tuple(columns),
        kind,
        label,
        tuple(m["name"] if m and len(words) == 1 else c for c, m in zip(columns, matches, strict=True)),
    )


def _pick(pairs: Pairs, label: str, model: str, split: Split) -> Pick:
    columns, names = zip(*pairs, strict=True)
    return Pick(model, split, columns, None, label, names)


def _vague(held: Iterable[str]) -> dict[str, Pairs]:
    """Find columns such as ``score_cat, score_dog``: two or more with one prefix."""
    found: dict[tuple[str, str], Pairs] = {}
    for column in held:
        if match := _VAGUE.match(column):
            of = (match["of"] or "").lower()
            found.setdefault(("" if of == "y" else of, match["word"].lower()), []).append((column, match["name"]))
    return {of: pairs for (of, _), pairs in found.items() if len(pairs) > 1}


def _may_be_a_score(name: str, values: Array) -> bool:
    """Leave out running numbers and predicted classes: whole numbers other than 0 and 1."""
    if _NO_SCORE.match(name) or is_weight(name) or take_apart(name) is not None:
        return False
    return (
        not _are_whole(values)
        or set(values[np.isfinite(values)]) <= {0.0, 1.0}
        or whole(name) is not None
        or _percent(values)
    )


def _percent(values: Array) -> bool:
    known = values[np.isfinite(values)]
    return bool(known.min() >= 0 and known.max() <= 100)


def _are_whole(values: Array) -> bool:
    known = values[np.isfinite(values)]
    return bool((known == np.floor(known)).all())


def _classes(pairs: Pairs, held: Mapping[str, Array], label_texts: Callable[[], set[str]]) -> Pairs | None:
    """Choose the columns that are classes, if it is certain that they are."""
    if len(pairs) < 2:
        return None
    numbered = [pair for pair in pairs if whole(pair[1]) is not None]
    if len(numbered) > 1 and sorted(int(whole(name) or 0) for _, name in numbered) in _counts(len(numbered)):
        return numbered
    if _are_shares(pairs, held):
        return pairs
    labelled = label_texts()
    called = [pair for pair in pairs if pair[1] in labelled]
    if labelled <= {name for _, name in called} and (len(called) == len(pairs) or _are_shares(called, held)):
        return called
    return None


def _counts(n: int) -> tuple[list[int], list[int]]:
    return list(range(n)), list(range(1, n + 1))


def _are_named(pairs: Pairs, label_texts: Callable[[], set[str]]) -> bool:
    names = {name for _, name in pairs}
    return all(whole(name) is not None for name in names) or label_texts() <= names


def _are_shares(pairs: Pairs, held: Mapping[str, Array]) -> bool:
    """Return whether all rows sum to 1, or to 100 percent, as far as they are complete."""
    if len(pairs) < 2:
        return False
    rows = np.stack([held[column] for column, _ in pairs], axis=1)
    rows = rows[np.isfinite(rows).all(axis=1)]
    sums = rows.sum(axis=1)
    near = (np.abs(sums - 1) <= SUM_TOLERANCE) | ((np.abs(sums - 100) <= rounding(len(pairs))) & (rows.max(axis=1) > 1))
    return bool(len(rows)) and bool((rows >= 0).all()) and bool(near.all())


def _single(names: Sequence[str], vague: Mapping[str, Pairs], label: str, where: str) -> list[Pick]:
    """Take a column for two classes: the score of class 1."""
    for pairs in vague.values():
        columns = [column for column, _ in pairs]
        if set(columns) & set(names):
            raise _unclear(columns, "scores of", where)
    for name in names:
        match = _COLUMN.match(name) or _VAGUE.match(name)
        if match and whole(match["name"]) == 0:
            raise InputError(
                f"Expected a column per class, or for two classes the score of class 1, but {name!r} is of class 0 in "
                f"{where}. Give the column of class 1 too."
            )
    return pick_arrays(names, label, where)[0]


def _unclear(columns: Sequence[str], what: str, where: str) -> InputError:
    shown = ", ".join(map(repr, columns[:4])) + (", …" if len(columns) > 4 else "")
    return InputError(
        f"Expected scores that are called so, such as prob_cat or logit_0, but cannot tell whether {shown} are {what} "
        f"classes in {where}. Say which with --scores {columns[0]} (again for more), or rename them."
    )
