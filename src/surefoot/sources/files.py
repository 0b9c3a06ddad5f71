"""Open a file of predictions, whatever it is, and settle what is in it before a row is used."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from surefoot.errors import InputError
from surefoot.places import place
from surefoot.sources._arrays import labels_beside, open_npy, open_npz
from surefoot.sources._beside import labels_file, with_labels
from surefoot.sources._binary import names_of_two
from surefoot.sources._multilabel import settled_labels
from surefoot.sources._open_forms import ignoring_for, open_form
from surefoot.sources._parts import join_sources, names_in, same_labels
from surefoot.sources._skipping import without_gaps
from surefoot.sources._stored import arrays_in
from surefoot.sources._tables import open_table
from surefoot.sources._tokens import open_held_tokens
from surefoot.sources.batches import is_batches
from surefoot.sources.choices import choice_words, counts_of
from surefoot.sources.forms import form_of
from surefoot.sources.harness import sample_files
from surefoot.sources.kind import tell_kind
from surefoot.sources.labels import Meaning, Places, in_words, missing_labels, one_per_row, possible, texts_of
from surefoot.sources.memory import Held, hold
from surefoot.sources.paths import SUFFIXES, Files, find_files, is_path, suffix_of
from surefoot.sources.readers import has_header, read_table, table_suffix
from surefoot.sources.source import Raw, Source
from surefoot.sources.told import Told

__all__ = ["SUFFIXES", "files_of", "is_path", "name_of", "open_predictions"]


def open_predictions(source: Any, **told: Unpack[Told]) -> list[Source]:
    """List the predictions in a file or in memory, without reading more than need be.

    Args:
        source: The path of an ``.npz``, ``.npy``, ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.parquet``, ``.feather``
            or ``.arrow`` file; a folder, a pattern or a list of such files, which are read as one; or a DataFrame,
            arrays by name, or :class:`~surefoot.schema.Predictions`.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        One source per model or split in the file, each of a known kind.

    Raises:
        InputError: If the file is missing, cannot be read or does not tell what it holds.
    """
    groups, counting = tuple(told.get("groups", ())), told.get("weights_are")
    if not is_path(source) and not is_batches(source):
        source = hold(source)
    found = open_form(source, told, name_of(source))
    if not found:
        opened = _open_parts(find_files(source), told) if is_path(source) else _open_held(hold(source), told)
        found = [ignoring_for(each, told) for each in opened]
    found = [replace(each, groups=each.groups or groups, weights_are=counting or "importance") for each in found]
    if is_path(source):
        files = _apart(source, told)
        found = [replace(each, files=files) for each in found]
    if counting and not any(each.weights for each in found):
        raise InputError(f"Expected weights beside --weights-are, but {found[0].where} has none. Say --weights NAME.")
    if told.get("skip_missing"):
        found = [without_gaps(each) for each in found]
    return [each if each.form in ("choices", "confidence") and each.settled else _settled(each, told) for each in found]


def _apart(source: Any, told: Told) -> tuple[Path, ...]:
    """List files of which each can be read on its own: not those whose labels stand in another, in step with all."""
    if isinstance(source, str | Path) and sample_files(source):
        return ()
    files = find_files(source)
    beside = labels_beside(files.paths[0], told.get("labels")) if files.suffix == ".npy" else None
    label = told.get("labels")
    elsewhere = beside is None and label is not None and suffix_of(place(label)) in SUFFIXES and place(label).is_file()
    return () if elsewhere or (beside is not None and beside.suffix != ".npy") else files.paths


def name_of(source: Any) -> str:
    """Name a file, or what is in memory, for people."""
    if is_path(source):
        return (
            place(source).name if isinstance(source, str | Path) and sample_files(source) else find_files(source).name
        )
    return "batches" if is_batches(source) else hold(source).name


def _open_held(held: Held, told: Told) -> list[Source]:
    weights = told.get("weights")
    groups, scores = tuple(told.get("groups", ())), tuple(told.get("scores", ()))
    weights = held.weights if weights is None else weights
    found = open_held_tokens(held, groups, told.get("labels"), scores, told.get("class_axis"))
    if found and isinstance(weights, str):
        raise InputError(
            f"Expected no weights with scores of more than two axes, but got {weights!r} in {held.name}. Flatten all "
            "of them to rows, or leave the weights out."
        )
    found = found or open_table(held.name, held.batches, groups, told.get("labels"), scores, weights=weights)
    if held.class_names:
        found = [replace(each, class_names=held.class_names) for each in found]
    if held.form != "multiclass":
        found = [replace(each, form=held.form) for each in found]
    if held.split:
        found = [replace(each, split=held.split) for each in found]
    if held.meaning is not None:
        found = [replace(each, meaning=held.meaning, settled=True) for each in found]
    return found


def _open_parts(files: Files, told: Told) -> list[Source]:
    found = _open_files(files, told)
    beside = place(told.get("labels") or "").is_file()  # for all of them
    note = "" if beside else same_labels(files, lambda path: _open_files(Files(path.name, path.name, (path,)), told))
    return [replace(each, notes=(note, *each.notes)) for each in found] if note else found


def _open_files(files: Files, told: Told) -> list[Source]:
    groups, scores = tuple(told.get("groups", ())), tuple(told.get("scores", ()))
    axis = told.get("class_axis")
    labels, weights, header = told.get("labels"), told.get("weights"), told.get("header")
    if header is not None and files.suffix not in (".csv", ".tsv", ".txt"):
        raise InputError(f"Expected --header or --no-header with a .csv, but got {files.name}. Leave it out.")
    if files.suffix == ".npz":
        if len(files.paths) == 1:
            return open_npz(files.paths[0], groups, labels, scores, axis, weights=weights)
        if labels_file(labels, [labels or ""] if _is_array(files, labels) else []):
            raise InputError(
                f"Expected labels in each of {files.name}, but got a file for all. Save them in the parts."
            )
        return join_sources(files, lambda path: open_npz(path, groups, labels, scores, axis, weights=weights))
    if files.suffix == ".npy":
        if groups or scores or isinstance(weights, str):
            named = "--group" if groups else "--scores" if scores else "--weights"
            raise InputError(f"Expected {named} with a file that names its columns, but .npy does not. Save an .npz.")
        return open_npy(files.paths[0], labels, axis)
    batches = read_table(files, header)
    if (beside := labels_file(labels, names_in(batches))) is not None:
        batches, labels = with_labels(batches, beside, files.name), beside.name
    return open_table(
        *(files.name, batches, groups, labels, scores),
        weights=weights,
        names_once=files.suffix == ".json",
        named=has_header(files.paths[0], header),
    )


def _is_array(files: Files, name: str | None) -> bool:
    return name is not None and all(name in arrays_in(path) for path in dict.fromkeys(files.paths))


def files_of(source: Path | str, labels: str | None = None) -> list[Path]:
    """List the files that hold the predictions, and the one that holds the labels where it is another."""
    if not is_path(source):
        return []
    if samples := sample_files(source) if isinstance(source, str | Path) else []:
        return samples
    found = list(dict.fromkeys(find_files(source).paths))
    beside = labels_beside(found[0], labels) if table_suffix(found[0]) == ".npy" else place(labels or "")
    return [*found, beside] if beside is not None and beside.is_file() else found


def _settled(source: Source, said: Told) -> Source:
    """Settle what scores and labels are: as told, by name, or by their values."""
    kind, labels_are, form = said.get("kind"), said.get("labels_are"), said.get("form")
    first = replace(source, kind="probs").first()
    if first is None:
        raise InputError(f"Expected at least one row, but {source.where} has none. Check the file.")
    source = replace(source, form=form or form_of(source, first))
    if source.form == "multilabel":
        return settled_labels(source, kind, first)
    scores = replace(source, kind="probs").scores(first)
    n_classes = scores.shape[1]
    two = _two_names(source, first, said) if first.scores.ndim == 1 else None
    source = source if two is None else replace(source, class_names=two[0])
    names = source.class_names
    if names and len(names) != n_classes:
        raise InputError(
            f"Expected {n_classes} class names, one per column of scores, but got {len(names)} in {source.where}."
        )
    told, how = (
        (kind, "as you said")
        if kind
        else tell_kind(scores if source.form == "choices" else first.scores, source.kind, source.where)
    )
    found = replace(source, kind="probs" if told == "percent" else told, percent=told == "percent")
    meaning, why = _meaning(found, first, n_classes, labels_are) if two is None else ("names", two[1])
    is_choice = source.form == "choices"
    read_as = choice_words(counts_of(first.scores), meaning) if is_choice else in_words(meaning, n_classes)
    took = f"{source.took} ({told}, {how}); labels read as {read_as}{why}"
    return replace(
        found,
        meaning=meaning,
        n_classes=n_classes,
        took=took,
        settled=found.settled or labels_are is not None,
        notes=(*found.notes, *_twice(found, meaning)),
    )


def _two_names(source: Source, first: Raw, said: Told) -> tuple[tuple[str, str], str] | None:
    """Name two classes with one score per row after their labels, where these are not 0 and 1."""
    if source.form != "multiclass" or source.class_names or source.meaning is not None or said.get("labels_are"):
        return None
    labels, is_one_hot = one_per_row(first.labels, (len(first.scores), 2), source.where)
    if is_one_hot or set(texts_of(labels[~missing_labels(labels, ())])) <= {"0", "1"}:
        return None
    found = names_of_two(_all_texts(source), source.columns[0][0], said.get("score_of"), source.where)
    return None if found is None else (found[0], f"; the score is that of {found[0][1]!r}, {found[1]}")


def _meaning(source: Source, first: Raw, n_classes: int, said: Meaning | None) -> tuple[Meaning, str]:
    """Settle what the labels mean: as told, as the file says, or as all of them together allow."""
    labels, is_one_hot = one_per_row(first.labels, (len(first.scores), n_classes), source.where)
    if is_one_hot:
        if said not in (None, "from-0"):
            raise InputError(
                f"Expected --labels-are from-0 for one-hot labels, but got {said} for {source.where}. Leave it out."
            )
        return "from-0", ", one-hot"
    if said == "names" and not source.class_names:
        raise InputError(f"Expected names of classes to look labels up in, but {source.where} has none. Leave it out.")
    if said is not None:
        return said, ", as you said"
    if source.meaning is not None:
        return source.meaning, ", as the file says"
    places = Places(source.class_names)
    if not source.class_names or places.counts_from_0:
        return "from-0", ""
    texts = set(texts_of(labels[~missing_labels(labels, source.class_names)]))
    if places.any_number:  # what the first rows allow others may not
        texts |= _all_texts(source)
    found = possible(texts, n_classes, source.class_names)
    if len(found) > 1:
        shown, called = (", ".join(list(words)[:4]) for words in (sorted(texts), source.class_names))
        raise InputError(
            f"Expected labels that mean one thing, but {shown} could be names of classes ({called}, …) or class "
            f"numbers from 0 in {source.where}. Say --labels-are names, or --labels-are from-0."
        )
    if found:
        return found[0], ""
    by_name = any(places.find(text) is not None for text in texts) or not any(text.isdecimal() for text in texts)
    return "names" if by_name else "from-0", ""  # the first row that does not fit says what is wrong


def _all_texts(source: Source) -> set[str]:
    found: set[str] = set()
    with closing(source.start_labels()) as reading:
        for part in reading:
            labels, _ = one_per_row(part, (len(part),), source.where)
            found.update(texts_of(labels[~missing_labels(labels, source.class_names)]))
    return found


def _twice(source: Source, meaning: Meaning) -> list[str]:
    """Refuse names that several classes share where labels are names, else say so."""
    twice = [name for name, count in Counter(source.class_names).items() if count > 1]
    if not twice:
        return []
    shown = ", ".join(map(repr, twice[:3])) + (", …" if len(twice) > 3 else "")
    if meaning == "names":
        raise InputError(
            f"Expected every class name once, but {shown} stands for several classes in {source.where}. Rename one."
        )
    return [f"The class name {shown} stands for several classes; they are told apart by their numbers."]
