"""One row of a sample file of lm-evaluation-harness: its choices, and which of them is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefoot.errors import InputError
from surefoot.json_values import is_number
from surefoot.sources.labels import Meaning, whole
from surefoot.sources.told import Normalise


@dataclass(frozen=True)
class Question:
    """What is kept of a row."""

    doc_id: int
    likelihoods: list[float]
    scores: list[float]
    """The same, or divided by the lengths of the choices."""
    choices: list[str]
    target: str
    filter: str
    own: dict[str, float] = field(default_factory=dict)
    """What the file itself says: ``acc``, ``acc_norm``, ``acc_bytes``."""
    groups: dict[str, Any] = field(default_factory=dict)


def question_of(row: Mapping[str, Any], groups: Sequence[str], way: Normalise, where: str) -> Question | None:
    """Read a row.

    Args:
        row: As the harness writes it: numbers may be texts.
        groups: Keys of the row, or of its ``doc``, to keep.
        way: How log-likelihoods are normalised.
        where: The file, for messages.

    Returns:
        The question; None where a text was generated, so that there are no choices.

    Raises:
        InputError: If something is missing.
    """
    number = whole(str(row["doc_id"]))
    pairs = row["filtered_resps"]
    if number is None or not isinstance(pairs, list) or not pairs:
        raise InputError(
            f"Expected doc_id and filtered_resps in every row, but {row['doc_id']!r} lacks one in {where}."
        )
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return None
    likelihoods = [_number(pair[0], number, where) for pair in pairs]
    requests = [_texts(each, number, where) for each in _values(row["arguments"])]
    half, uniform = len(likelihoods) // 2, len(requests) == len(likelihoods)
    if "acc_mutual_info" in row and uniform and not any(each[0] for each in requests[half:]):
        likelihoods, requests = likelihoods[:half], requests[:half]  # the others are of choices without a question
    if len(requests) != len(likelihoods):
        raise InputError(
            f"Expected a request per choice, but doc_id {number} has {len(requests)} for {len(likelihoods)} in {where}."
        )
    continuations = [each[1] for each in requests]
    choices, scores = _without_delimiter(continuations), likelihoods
    if way != "none":
        sizes = [len(each) if way == "length" else len(each.encode(errors="surrogatepass")) for each in choices]
        if not all(sizes):
            raise InputError(
                f"Expected a text for every choice to divide by its length, but doc_id {number} has an empty one in "
                f"{where}. Say --normalise none."
            )
        scores = [score / size for score, size in zip(likelihoods, sizes, strict=True)]
    said = {key: row[key] for key in ("acc", "acc_norm", "acc_bytes") if key in row}
    own = {key: float(value) for key, value in said.items() if is_number(value) or isinstance(value, bool)}
    doc = row.get("doc")
    kept = {name: _group(name, row, doc if isinstance(doc, dict) else {}, where) for name in groups if name != "task"}
    return Question(number, likelihoods, scores, choices, str(row["target"]), str(row.get("filter", "")), own, kept)


def _number(value: Any, doc_id: int, where: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = float("nan")
    if found != found:
        raise InputError(f"Expected log-likelihoods, but doc_id {doc_id} has {value!r} in {where}. Leave it out.")
    return found


def _texts(request: Any, doc_id: int, where: str) -> tuple[str, str]:
    """Return a question and the choice behind it."""
    values = _values(request)
    if not values:
        raise InputError(
            f"Expected the texts of every request under 'arguments', but doc_id {doc_id} lacks one in {where}."
        )
    return str(values[0]), str(values[1]) if len(values) > 1 else ""


def _values(held: Any) -> list[Any]:
    """Return what a list or an object holds; nothing else holds anything."""
    return list(held.values()) if isinstance(held, dict) else list(held) if isinstance(held, list) else []


def _without_delimiter(continuations: Sequence[str]) -> list[str]:
    """Take off what stands between question and choice: the white space that all of them begin with."""
    blanks = {each[: len(each) - len(each.lstrip())] for each in continuations}
    common = len(next(iter(blanks))) if len(blanks) == 1 else 0
    return [each[common:] for each in continuations]


def _group(name: str, row: Mapping[str, Any], doc: Mapping[str, Any], where: str) -> Any:
    if name not in row and name not in doc:
        raise InputError(
            f"Expected {name!r} in every row or doc, but {where} has {', '.join([*row, *doc][:12])}. Check its name."
        )
    return row[name] if name in row else doc[name]


def right_choices(questions: Sequence[Question], said: Meaning | None, where: str) -> tuple[list[int], str]:
    """Find the right choice of every question of a task: one reading for all of them.

    A target is the place of the choice or its text; where both are possible and differ, the file's own ``acc`` tells.
    Where the target is neither, as where questions differ and all choices are the same text, ``acc`` tells which of two
    choices is right.

    Args:
        questions: Of one task.
        said: Places (``from-0``) or texts (``names``), where somebody said so.
        where: The file, for messages.

    Returns:
        Places from 0, and how they were found.

    Raises:
        InputError: If there is no telling.
    """
    places = [_place(each) for each in questions]
    texts = [_text_place(each) for each in questions]
    by = {"from-0": (places, "'target' as the place of the right one"), "names": (texts, "'target' as its text")}
    possible = [key for key, (found, _) in by.items() if None not in found and said in (None, key)]
    if len(possible) == 2 and places != texts:
        possible = [key for key in possible if _agrees(questions, by[key][0])]
        if len(possible) != 1:
            raise InputError(
                f"Expected targets that mean one thing, but {questions[0].target!r} could be a place or the text of a "
                f"choice in {where}. Say --labels-are from-0 or names."
            )
    if possible:
        found, how = by[possible[0]]
        return [place for place in found if place is not None], how
    if said is None and all(len(each.scores) == 2 and each.own.get("acc") in (0, 1) for each in questions):
        right = [_best(each) if each.own["acc"] else 1 - _best(each) for each in questions]
        return right, "the right one of two by 'acc'"
    odd = next(each for n, each in enumerate(questions) if places[n] is None or said == "names")
    raise InputError(
        f"Expected as target the place or the text of one choice, but doc_id {odd.doc_id} has {odd.target[:60]!r} and "
        f"{len(odd.scores)} choices in {where}. Leave out tasks with several right choices."
    )


def _place(question: Question) -> int | None:
    place = whole(question.target)
    return place if place is not None and 0 <= place < len(question.scores) else None


def _text_place(question: Question) -> int | None:
    wanted = question.target.strip()
    found = [place for place, choice in enumerate(question.choices) if choice.strip() == wanted]
    return found[0] if len(found) == 1 else None


def _agrees(questions: Sequence[Question], places: Sequence[int | None]) -> bool:
    rows = [(each, place) for each, place in zip(questions, places, strict=True) if "acc" in each.own]
    return bool(rows) and all((_best(each) == place) == bool(each.own["acc"]) for each, place in rows)


def _best(question: Question) -> int:
    return max(range(len(question.scores)), key=lambda place: question.likelihoods[place])
