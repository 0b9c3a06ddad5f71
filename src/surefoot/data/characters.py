"""Plain text for the character language model: which character comes next."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Array
from surefoot.data._places import candidates
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Rows, Split, Splits

UNKNOWN = "�"


@DATA.register("characters", licence="yours")
def characters(
    *,
    path: str,
    length: int = 32,
    calibration: float = 0.1,
    test: float = 0.1,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """Plain text, to say which character follows each stretch: characters:FILE --model char_lm.

    The end of the file tests, what is before it calibrates, the rest trains, so that no stretch is seen twice. Token
    and class 0 is any character that the training part does not have.

    Args:
        path: The file, in UTF-8; from here, else from a folder that is searched for data.
        length: Characters in a stretch.
        calibration: Share of the text.
        test: Share of the text.
        n_train: Train on no more than so many stretches, the first ones.
        n_test: Test on no more than so many.

    Returns:
        The three splits.

    Raises:
        InputError: If the file is missing, no text or too short.
    """
    try:
        places = candidates(path)
        content = next(filter(Path.is_file, places), places[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Expected {path} to be a text in UTF-8, but {error}. Check the path.") from error
    if length < 1 or min(calibration, test) <= 0 or calibration + test >= 1:
        raise InputError(
            f"Expected length ≥ 1 and shares above 0 that leave something, but got length={length}, "
            f"calibration={calibration:g}, test={test:g}. Leave them out for defaults."
        )
    first = round(len(content) * (1 - calibration - test))
    second = round(len(content) * (1 - test))
    names = [UNKNOWN, *sorted(set(content[:first]))]
    token = {name: number for number, name in enumerate(names)}
    tokens = np.array([token.get(character, 0) for character in content], np.int64)
    bounds = {
        "train": (0, first, n_train),
        "calibration": (first, second, None),
        "test": (second, len(content), n_test),
    }
    starts = {name: np.arange(low, high - length, length + 1)[:n] for name, (low, high, n) in bounds.items()}
    if not all(map(len, starts.values())):
        raise InputError(f"Expected a text of several stretches of {length}, but {path} is too short. Lower length.")
    arrays: dict[str, Array] = {}
    for name, begin in starts.items():
        arrays[f"x_{name}"] = tokens[begin[:, None] + np.arange(length)]
        arrays[f"y_{name}"] = tokens[begin + length]
    splits = splits_from_arrays(arrays, origin=path, class_names=names, kind="raw")
    return dataclasses.replace(
        splits,
        train=_placed(splits.train, starts["train"]),
        calibration=_placed(splits.calibration, starts["calibration"]),
        test=_placed(splits.test, starts["test"]),
    )


def _placed(split: Split, starts: Array) -> Split:
    """Say at which character of the file each stretch begins."""
    return dataclasses.replace(split, rows=Rows("text", starts))
