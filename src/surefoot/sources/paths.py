"""Which files a path means: one, or those of a folder or a pattern, which are read as one."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.places import is_address, matching, place
from surefoot.sources.names import model_and_split

ARRAYS = (".npz", ".npy")
TABLES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".feather", ".arrow")
SUFFIXES = (*ARRAYS, *TABLES)
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".joblib")


@dataclass(frozen=True)
class Files:
    """Files that are read as one, in this order.

    Attributes:
        name: What they are called in messages.
        stem: What is written about them is named after this.
        paths: At least one; all have the same ending.
    """

    name: str
    stem: str
    paths: tuple[Path, ...]

    @property
    def suffix(self) -> str:
        """The ending that says what they are, without ``.gz``."""
        return suffix_of(self.paths[0])


def suffix_of(path: Path) -> str:
    """Return the ending that counts.

    Example:
        >>> suffix_of(Path("a.csv.gz")), suffix_of(Path("part-0.snappy.parquet"))
        ('.csv', '.parquet')
    """
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def is_path(source: Any) -> bool:
    """Return whether predictions are in files rather than in memory: a path, or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(each, str | Path) for each in source)
    return isinstance(source, str | Path)


def find_files(source: Path | str | Sequence[Path | str]) -> Files:
    """Find the files that a path, a folder, a pattern such as ``preds/*.parquet`` or a list of paths means.

    Args:
        source: Of a folder, all files of predictions in it, but not in folders below; of a pattern, all that match.
            Both in the order of their names. A list may name a file several times.

    Returns:
        The files.

    Raises:
        InputError: If there are none, if they are of several kinds, or if they cannot be parts of one.
    """
    if not isinstance(source, str | Path):
        paths = tuple(_one(place(each)) for each in source)
        if not paths:
            raise InputError("Expected paths of predictions, but got an empty list. Name a file.")
        more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        return _same_kind(Files(paths[0].name + more, _stem(paths[0]), paths))
    path = place(source)
    if is_address(path) and suffix_of(path) in SUFFIXES and not glob.has_magic(str(path)):  # asked once is enough
        return _same_kind(Files(path.name, _stem(path), (_one(path),)))
    if path.is_dir():
        found = [each for each in sorted(path.iterdir()) if each.is_file() and _is_known(each)]
        if not found:
            raise InputError(
                f"Expected files of predictions, but the folder {path} holds none in {', '.join(SUFFIXES)}. Name a "
                f"file, or a pattern such as '{path}/**/*.parquet'."
            )
        name = path.resolve().name
        return _parts(Files(f"{name} ({_count(found)})", name, tuple(found)))
    if glob.has_magic(str(path)) and not path.is_file():
        found = matching(path)
        if not found:
            raise InputError(f"Expected files of predictions, but no file matches {path}. Check the pattern.")
        if len(found) == 1:
            return find_files(found[0])
        name = f"{path.parent.name}/{path.name}".lstrip("/")
        stem = next((part for part in reversed(path.parts[:-1]) if not glob.has_magic(part)), "predictions")
        return _parts(Files(f"{name} ({_count(found)})", stem.strip("/.") or "predictions", tuple(found)))
    return _same_kind(Files(path.name, _stem(path), (_one(path),)))


def _one(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"Expected a file of predictions, but {path} does not exist. Check the path.")
    return path


def _is_known(path: Path) -> bool:
    """Leave out what writers put beside the parts: hidden files and those that begin with an underscore."""
    return suffix_of(path) in SUFFIXES and not path.name.startswith((".", "_"))


def _count(paths: Sequence[Path]) -> str:
    return "1 file" if len(paths) == 1 else f"{len(paths):,} files"


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name


def _parts(files: Files) -> Files:
    """Refuse files that are no parts of one: those of a folder may be of several splits."""
    splits: dict[str, Path] = {}
    for path in files.paths:
        if split := model_and_split(_stem(path))[1]:
            splits.setdefault(split, path)
    if len(splits) > 1:
        shown = " and ".join(path.name for path in list(splits.values())[:3])
        raise InputError(
            f"Expected parts of one split, but {shown} are called as several in {files.name}. Name one of them, or a "
            f"pattern such as '{next(iter(splits.values())).name[:4]}*'."
        )
    return _same_kind(files)


def _same_kind(files: Files) -> Files:
    kinds = list(dict.fromkeys(map(suffix_of, files.paths)))
    if len(kinds) > 1:
        raise InputError(
            f"Expected files of one kind, but {files.name} has {' and '.join(kinds[:3])}. Say which, such as "
            f"'{files.paths[0].parent}/*{kinds[0]}'."
        )
    if kinds[0] in PICKLES:
        raise _pickled(files.paths[0])
    if kinds[0] not in SUFFIXES:
        raise InputError(
            f"Expected a file in {', '.join(SUFFIXES)}, but got {files.paths[0].name!r}. Save it as one of these."
        )
    if len(files.paths) > 1 and kinds[0] in (".npy", ".json"):
        other = ".npz" if kinds[0] == ".npy" else ".jsonl"
        raise InputError(
            f"Expected parts in files that name their columns row by row, but {files.name} are {kinds[0]}. Save "
            f"{other}, or name one file."
        )
    return files


def _pickled(path: Path) -> InputError:
    """Say how to get the arrays out of a file that can run code when it is loaded."""
    new = f"{_stem(path)}.npz"
    if path.suffix.lower() in (".pt", ".pth"):
        load = (
            f"import numpy as np, torch; d = torch.load('{path}', map_location='cpu', weights_only=True); "
            f"np.savez('{new}', **{{k: (v.float() if v.is_floating_point() else v).numpy() for k, v in d.items()}})"
        )
        how = "Convert a dictionary of tensors once, without running code"
    else:
        module, read = (
            ("joblib", "joblib.load") if path.suffix.lower() == ".joblib" else ("pandas", "pandas.read_pickle")
        )
        arrays = "**{k: np.asarray(d[k]) for k in d}"
        load = f"import numpy as np, {module}; d = {read}('{path}'); np.savez('{new}', {arrays})"
        how = "If you made it yourself, convert its columns once"
    return InputError(
        f"Expected plain arrays or a table, but {path.name} is a pickle, which can run any code when it is loaded. "
        f'{how}: python -c "{load}"'
    )
