"""Texts with labels, as JSON lines; and what all texts need: words, a vocabulary, rows of one length."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.data._arrays import splits_from_rows
from surefoot.data._divide import Array, Division, divide
from surefoot.data._places import candidates
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import SplitName, Splits

PADDING, UNKNOWN = 0, 1
_WORD = re.compile(r"\w+|[^\w\s]")
_NAMES: dict[SplitName, tuple[str, ...]] = {
    "train": ("train",),
    "calibration": ("calibration", "dev", "valid", "validation", "val"),
    "test": ("test",),
}


def words_of(text: str) -> list[str]:
    """Cut a text into lower-case words and single marks.

    Example:
        >>> words_of("It's good!")
        ['it', "'", 's', 'good', '!']
    """
    return _WORD.findall(text.lower())


def make_vocabulary(texts: Iterable[str], size: int) -> dict[str, int]:
    """Number the most frequent words from 2; 0 is padding and 1 any other word.

    Args:
        texts: Of the training split, and of no other.
        size: How many tokens there may be, these two included.

    Returns:
        The token of each word; of equally frequent ones the alphabetically first is in.

    Example:
        >>> make_vocabulary(["a b a", "b a c"], 4)
        {'a': 2, 'b': 3}
    """
    counts = Counter(word for text in texts for word in words_of(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: token for token, word in enumerate(ranked[: max(0, size - 2)], start=2)}


def to_tokens(texts: Sequence[str], vocabulary: dict[str, int], length: int) -> Array:
    """Write texts as rows of tokens, cut or padded at the end to one length.

    Example:
        >>> to_tokens(["a x a", "b"], {"a": 2, "b": 3}, 4).tolist()
        [[2, 1, 2, 0], [3, 0, 0, 0]]
    """
    rows = np.full((len(texts), length), PADDING, np.int64)
    for row, text in zip(rows, texts, strict=True):
        tokens = [vocabulary.get(word, UNKNOWN) for word in words_of(text)[:length]]
        row[: len(tokens)] = tokens
    return rows


def splits_from_texts(
    texts: dict[SplitName, Sequence[str]],
    labels: dict[SplitName, Array],
    *,
    origin: str,
    vocabulary: int,
    length: int,
    division: Division,
    class_names: Sequence[str] | None,
) -> Splits:
    """Make splits of texts; the vocabulary is that of the training split alone.

    Args:
        texts: Of the published parts.
        labels: Of the same.
        origin: Where they come from, for error messages.
        vocabulary: How many different tokens.
        length: Tokens per text.
        division: Who gets which texts.
        class_names: One per class; else the class numbers, all of which must be there.

    Returns:
        The splits, tokens as floats.

    Raises:
        InputError: If vocabulary or length leave nothing.
    """
    if vocabulary < 3 or length < 1:
        raise InputError(
            f"Expected vocabulary ≥ 3 and length ≥ 1, but got {vocabulary} and {length}. Leave them out for defaults."
        )
    train = divide(labels, division)["train"].numbers
    known = make_vocabulary((texts["train"][row] for row in train), vocabulary)
    tokens = {part: to_tokens(found, known, length) for part, found in texts.items()}
    return splits_from_rows(tokens, labels, origin=origin, division=division, class_names=class_names, kind="raw")


@DATA.register("text", licence="yours")
def text(
    *,
    path: str,
    vocabulary: int = 256,
    length: int = 48,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """Your texts as JSON lines {"text": …, "label": …} in train.jsonl and test.jsonl (or .jsonl.gz): text:FOLDER.

    Args:
        path: The folder, or the beginning of the names: ``data/trec`` for ``data/trec_train.jsonl.gz``; searched for in
            the folders of ``$SUREFOOT_DATA`` too.
        vocabulary: How many different tokens; give --model text_transformer the same.
        length: Tokens per text; longer ones are cut.
        calibration: Where there is no dev or valid file, the share of the training texts to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The three splits.

    Raises:
        InputError: If a file is missing or a line is something else.
    """
    files = find_texts(path)
    read = {part: read_jsonl(file) for part, file in files.items()}
    names = sorted({label for label in read["train"][1] if isinstance(label, str)})
    labels = {part: _numbered(read[part][1], names, files[part]) for part in read}
    return splits_from_texts(
        {part: texts for part, (texts, _) in read.items()},
        labels,
        origin=path,
        vocabulary=vocabulary,
        length=length,
        division=Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test),
        class_names=names or None,
    )


def find_texts(path: str) -> dict[SplitName, Path]:
    """Return the files of texts by split.

    Args:
        path: The folder, or the beginning of the names; from here, else from a folder that is searched for data.

    Returns:
        Those of train and test and, where there is one, of calibration.

    Raises:
        InputError: If train or test are not there.
    """
    found = next(filter(_is_whole, map(_files_at, candidates(path))), None)
    if found is None:
        place = Path(path).expanduser()
        where = f"{place}/train.jsonl" if place.is_dir() else f"{place}_train.jsonl"
        raise InputError(f"Expected {where} (or .gz) and the same for test, but they are not there. Check the path.")
    return found


def _is_whole(found: dict[SplitName, Path]) -> bool:
    return "train" in found and "test" in found


def _files_at(place: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for part, names in _NAMES.items():
        for name in names:
            stems = [place / name] if place.is_dir() else [place.with_name(f"{place.name}_{name}")]
            files = [stem.with_name(stem.name + ending) for stem in stems for ending in (".jsonl", ".jsonl.gz")]
            if part not in found and (file := next((file for file in files if file.is_file()), None)):
                found[part] = file
    return found


def read_jsonl(file: Path) -> tuple[list[str], list[int | str]]:
    """Read texts and labels, one JSON object per line.

    Args:
        file: ``.jsonl`` or ``.jsonl.gz``.

    Returns:
        The texts and the labels.

    Raises:
        InputError: If the file is damaged, empty, or a line lacks a text or a label.
    """
    texts: list[str] = []
    labels: list[int | str] = []
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        lines = content.decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"Expected to read {file}, but {error}. Get the file again.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
        except ValueError as error:
            raise InputError(f"Expected JSON in line {number} of {file}, but {error}. Repair the line.") from error
        row = value if isinstance(value, dict) else {}
        label = row.get("label")
        if not isinstance(row.get("text"), str) or isinstance(label, bool) or not isinstance(label, int | str):
            raise InputError(f'Expected {{"text": …, "label": …}} in line {number} of {file}, but got {line[:60]!r}.')
        texts.append(row["text"])
        labels.append(label)
    if not texts:
        raise InputError(f"Expected texts in {file}, but it is empty. Get the file again.")
    return texts, labels


def _numbered(labels: Sequence[int | str], names: Sequence[str], file: Path) -> Array:
    number = {name: k for k, name in enumerate(names)}
    wrong = next((label for label in labels if (label not in number if names else isinstance(label, str))), None)
    if wrong is not None:
        raise InputError(f"Expected the labels of the training file in {file}, but got {wrong!r}. Repair it.")
    return np.array([number[label] if isinstance(label, str) else label for label in labels], np.int64)
