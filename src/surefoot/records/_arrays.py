"""Arrays of a run: predictions and splits as ``.npz``, read back only as they were written."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.atomic import write_bytes
from surefoot.errors import InputError
from surefoot.records._checksums import check_file
from surefoot.records._lines import ANEW
from surefoot.schema import LABELS_ARE, SPLITS, Predictions, Rows, SplitName

SPLITS_FILE = "splits.npz"
FOLDER = "predictions"


def array_files(run: Path) -> Iterator[str]:
    """List the files of arrays that a run has, by their names in its folder."""
    for name in (SPLITS_FILE, *(f"{FOLDER}/{split}.npz" for split in SPLITS)):
        if (run / name).exists():
            yield name


def write_predictions(run: Path, predictions: Predictions) -> None:
    """Store the predictions of one split."""
    arrays = {"logits": predictions.logits, "labels": predictions.labels, LABELS_ARE: np.array("from-0")}
    if predictions.class_names:
        arrays["class_names"] = np.array(predictions.class_names)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # NumPy's stubs take names for allow_pickle
    (run / FOLDER).mkdir(exist_ok=True)
    write_bytes(run / FOLDER / f"{predictions.split}.npz", buffer.getvalue())


def read_predictions(run: Path, split: SplitName) -> Predictions:
    """Read the predictions of one split.

    Args:
        run: The run folder.
        split: Which one.

    Returns:
        The predictions.

    Raises:
        InputError: If they are missing or damaged.
    """
    name = f"{FOLDER}/{split}.npz"
    if not (run / name).exists():
        raise InputError(f"Expected predictions of the {split} split, but {run} has none. Let the run finish.")
    with _opened(run, name) as arrays:
        names = tuple(arrays["class_names"].tolist()) if "class_names" in arrays else ()
        return Predictions(arrays["logits"], arrays["labels"], split, class_names=names)


def write_rows(run: Path, rows: Mapping[SplitName, Rows]) -> None:
    """Store which rows of the published data make each split."""
    arrays = {name: found.numbers.astype(np.int32) for name, found in rows.items()}
    sources = {f"{name}_source": np.array(found.source) for name, found in rows.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, **sources)  # type: ignore[arg-type]  # NumPy's stubs take names for allow_pickle
    write_bytes(run / SPLITS_FILE, buffer.getvalue())


def read_rows(run: Path) -> dict[SplitName, Rows]:
    """Read which rows of the published data make each split; empty where that was not known."""
    if not (run / SPLITS_FILE).exists():
        return {}
    with _opened(run, SPLITS_FILE) as arrays:
        return {name: Rows(str(arrays[f"{name}_source"]), arrays[name]) for name in SPLITS if name in arrays}


@contextmanager
def _opened(run: Path, name: str) -> Iterator[Any]:
    """Open arrays of a run, unless they are damaged."""
    if (run / "done.json").exists():  # which is written after the hashes
        check_file(run, name, ANEW)
    try:
        with (run / name).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, NotImplementedError) as error:
        raise InputError(f"Expected arrays of a run, but {run / name} is damaged. {ANEW}") from error
