"""Sample files of lm-evaluation-harness: log-likelihoods of the choices of every question, per task."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.errors import InputError
from surefoot.options import one_of
from surefoot.places import matching, place
from surefoot.sources._cells import texts
from surefoot.sources._harness_rows import Question, question_of, right_choices
from surefoot.sources.choices import padded
from surefoot.sources.labels import Array, Meaning
from surefoot.sources.readers import read_table, table_suffix
from surefoot.sources.source import Raw, Source
from surefoot.sources.told import Normalise

_KEYS = {"doc_id", "arguments", "filtered_resps", "target"}
_MOST_TASKS = 50  # that are slices; of more only what they say together
_DATED = re.compile(r"_\d{4}-\d\d-\d\dT[\d.:-]+$")
_ROWS = 4096
_SAID: dict[Normalise, str] = {
    "none": "as they are, not divided by length",
    "length": "divided by the characters of each choice, as acc_norm has it",
    "bytes": "divided by the bytes of each choice, as acc_bytes has it",
}
_OWN: dict[Normalise, str] = {"none": "acc", "length": "acc_norm", "bytes": "acc_bytes"}


def check_normalise(text: str) -> Normalise:
    """Read what somebody typed.

    Args:
        text: ``none``, ``length`` or ``bytes``.

    Returns:
        The same.

    Raises:
        InputError: If it is something else.
    """
    return one_of(text, tuple(_SAID), "--normalise")


def sample_files(source: str | Path) -> list[Path]:
    """List the sample files of one model.

    Args:
        source: One of them, the folder they are in, or a pattern such as ``results/samples_mmlu_*.jsonl``.

    Returns:
        Their paths, by name; none if this is something else.
    """
    path = place(source)
    if path.is_dir():
        found = sorted([*path.glob("samples_*.jsonl"), *path.glob("samples_*.jsonl.gz")])
    elif any(mark in str(source) for mark in "*?[") and not path.exists():
        found = matching(path)
    else:
        found = [path]
    return found if found and all(map(_is_samples, found)) else []


def _is_samples(path: Path) -> bool:
    if not path.is_file() or table_suffix(path) not in (".jsonl", ".ndjson", ".json"):
        return False
    try:
        with closing(read_table(path)(1, None, ())) as reading:
            first, _ = next(reading, ({}, None))
    except InputError:
        return False
    return set(first) >= _KEYS


def task_of(path: Path) -> str:
    """Find the task in the name of a file.

    Example:
        >>> task_of(Path("samples_arc_easy_2024-06-01T12-30-05.123456.jsonl"))
        'arc_easy'
    """
    name = path.name.removesuffix(".gz").rpartition(".")[0]
    return _DATED.sub("", name).removeprefix("samples_") or name


@dataclass(frozen=True)
class _Task:
    name: str
    questions: list[Question]
    labels: list[int]
    how: str
    notes: tuple[str, ...]


def open_samples(
    source: str | Path,
    files: Sequence[Path],
    normalise: Normalise | None = None,
    labels_are: Meaning | None = None,
    groups: Sequence[str] = (),
) -> Source:
    """Read the sample files of one model as choices, ordered by task and number of the question.

    Only log-likelihoods and targets are kept, so questions may be long.

    Args:
        source: What the user named.
        files: As :func:`sample_files` lists them; of a task that comes twice, the last by name is read.
        normalise: Whether log-likelihoods are divided by the length of their choice; else they are taken as they are.
        labels_are: Whether targets are places (``from-0``) or the text of the choice (``names``).
        groups: Keys of the rows, or of their ``doc``, that divide them into slices.

    Returns:
        The source, with the tasks as a group where there are several.

    Raises:
        InputError: If no file holds choices, or targets cannot be read.
    """
    way, where = normalise or "none", place(source).name
    newest = {task_of(path): path for path in files}
    notes = [f"Of {task}, {newest[task].name} was read, the last." for task in _twice(files)]
    tasks: list[_Task] = []
    for task, path in newest.items():
        found, note = _read(path, task, groups, labels_are, way)
        notes += [note] if note else []
        tasks += found
    if not tasks:
        raise InputError(
            f"Expected log-likelihoods of choices, but {where} holds generated texts. Audit a confidence beside "
            "whether the text was right: --form confidence."
        )
    notes += [note for task in tasks for note in task.notes]
    return _source(where, sorted(tasks, key=lambda task: task.name), way, groups, tuple(notes))


def _twice(files: Sequence[Path]) -> list[str]:
    return [task for task, count in Counter(map(task_of, files)).items() if count > 1]


def _read(
    path: Path, task: str, groups: Sequence[str], labels_are: Meaning | None, way: Normalise
) -> tuple[list[_Task], str]:
    """Read one file: its tasks, and what must be said about it."""
    rows: dict[str, list[Question]] = {}
    others, used = 0, ""
    with closing(read_table(path)(256, None, ())) as reading:
        for columns, _ in reading:
            for number in range(len(columns["doc_id"])):
                row = {name: values[number] for name, values in columns.items()}
                found = question_of(row, groups, way, path.name)
                if found is None:
                    return [], f"{path.name} holds generated texts and no choices: it is left out."
                used = used or found.filter
                if found.filter != used:
                    others += 1
                    continue
                rows.setdefault(str(row.get("task") or row.get("task_name") or task), []).append(found)
    tasks = [_task(name, questions, labels_are, way, path.name) for name, questions in rows.items()]
    return tasks, f"{others:,} rows of other filters than {used!r} are left out of {path.name}." if others else ""


def _task(name: str, questions: list[Question], labels_are: Meaning | None, way: Normalise, where: str) -> _Task:
    ids = Counter(each.doc_id for each in questions)
    if twice := [number for number, count in ids.items() if count > 1]:
        raise InputError(f"Expected every doc_id once, but {twice[0]} comes {ids[twice[0]]} times in {where}.")
    questions = sorted(questions, key=lambda each: each.doc_id)
    labels, how = right_choices(questions, labels_are, where)
    own = [each.own.get(_OWN[way]) for each in questions]
    mine = [float(int(np.argmax(each.scores)) == label) for each, label in zip(questions, labels, strict=True)]
    off = sum(theirs is not None and theirs != here for theirs, here in zip(own, mine, strict=True))
    notes = (f"In {name} the file's own {_OWN[way]} says otherwise in {off:,} of {len(own):,} rows.",) if off else ()
    return _Task(name, questions, labels, how, notes)


def _source(
    where: str, tasks: Sequence[_Task], way: Normalise, groups: Sequence[str], notes: tuple[str, ...]
) -> Source:
    questions = [each for task in tasks for each in task.questions]
    scores, counts = padded([each.scores for each in questions], 0, where)
    labels = np.array([label for task in tasks for label in task.labels], np.int64)
    names = np.repeat([task.name for task in tasks], [len(task.labels) for task in tasks])
    held: dict[str, Array] = {"task": names} if 1 < len(tasks) <= _MOST_TASKS else {}
    if len(tasks) > _MOST_TASKS:
        notes = (*notes, f"{len(tasks)} tasks are pooled: with more than {_MOST_TASKS} none is shown by itself.")
    held |= {name: texts([each.groups[name] for each in questions]) for name in groups if name != "task"}
    digest = hashlib.blake2b(digest_size=16)
    for name, each in zip(names, questions, strict=True):
        digest.update(f"{name}\n{each.doc_id}\n{len(each.scores)}\n".encode(errors="surrogatepass"))

    def start() -> Generator[Raw]:
        for first in range(0, len(labels), _ROWS):
            here = slice(first, first + _ROWS)
            some = {name: values[here] for name, values in held.items()}
            yield Raw(scores[here], labels[here], some, min(1.0, here.stop / len(labels)), counts=counts[here])

    def start_labels() -> Generator[Array]:
        yield labels

    hows = ", ".join(dict.fromkeys(task.how for task in tasks))
    of = f"{tasks[0].name}" if len(tasks) == 1 else f"{len(tasks)} tasks"
    took = (
        f"samples of lm-evaluation-harness, {of}: log-likelihoods of {counts.min()} to {counts.max()} choices, "
        f"{_SAID[way]}; {hows}"
    )
    return Source(
        *("", "", took, "logits", (), where, (("filtered_resps",), "target"), start, start_labels),
        meaning="from-0",
        settled=True,
        notes=notes,
        form="choices",
        n_classes=scores.shape[1],
        groups=tuple(held),
        rows_digest=digest.hexdigest(),
    )
