"""The whole state of a training on disk: safetensors and JSON, no pickle.

Each checkpoint is a folder ``checkpoint/step-<n>`` that appears by one rename; then older ones are removed, but for
the one before it, until the training ends, and those that are to be kept. The hashes of its files are in
``checksums.json``. ``model.safetensors`` alone is what a user of the trained network needs, or
``member-<i>.safetensors`` where an ensemble keeps several. Of a network that is spread out over ranks, each writes its
part as ``shard-<i>-…safetensors``, and only the checkpoint at the end has ``model.safetensors`` as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from surefoot.errors import InputError, RunError
from surefoot.ranks import ALONE, Ranks, is_sharded
from surefoot.records import check_checksums, checkpoints, remove_checkpoint, sync_folder, write_checksums
from surefoot.training.shards import Sketch, load_shards, save_shards, sketch_of

Tree = Any  # nested dicts, lists and tuples of tensors and JSON values


def pack(tree: Tree, tensors: dict[str, Tensor], spread: dict[str, Tensor] | None = None) -> Any:
    """Move the tensors of a tree into a dictionary, leaving JSON values that say where they went.

    Args:
        tree: Nested dicts (with text or integer keys), lists and tuples.
        tensors: Takes the tensors, under new names.
        spread: Takes those that are spread out over ranks, as they are.

    Returns:
        JSON values.

    Raises:
        RunError: If there is anything that cannot be stored without pickle.
    """
    if isinstance(tree, Tensor) and spread is not None and is_sharded(tree):
        name = f"shards {len(spread)}"
        spread[name] = tree.detach()
        return {"shards": [name, *sketch_of(tree)]}
    if isinstance(tree, Tensor):
        name = str(len(tensors))
        tensors[name] = tree.detach().cpu().contiguous().clone()  # clone: tied tensors share memory
        return {"tensor": name}
    if isinstance(tree, dict):
        return {"dict": [[key, pack(value, tensors, spread)] for key, value in tree.items()]}
    if isinstance(tree, list | tuple):
        return {type(tree).__name__: [pack(value, tensors, spread) for value in tree]}
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    kind = type(tree).__name__
    raise RunError(f"Expected tensors and plain values in a checkpoint, but got {kind}. Keep it out of state_dict().")


def unpack(packed: Any, tensors: dict[str, Tensor]) -> Tree:
    """Undo :func:`pack`.

    Example:
        >>> kept: dict[str, Tensor] = {}
        >>> unpack(pack({0: (1.5, None), "a": [True]}, kept), kept)
        {0: (1.5, None), 'a': [True]}
    """
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "shards":
        return tensors[content[0]]
    if kind == "dict":
        return {key: unpack(value, tensors) for key, value in content}
    values = [unpack(value, tensors) for value in content]
    return tuple(values) if kind == "tuple" else values


def save_checkpoint(
    folder: Path,
    step: int,
    model: dict[str, Tensor],
    state: Tree,
    members: Sequence[dict[str, Tensor]] = (),
    *,
    keep: Callable[[int], bool] = lambda step: False,
    ranks: Ranks = ALONE,
    whole: dict[str, Tensor] | None = None,
    is_last: bool = False,
) -> None:
    """Write a checkpoint and remove those before the one before it; what somebody else put beside them stays.

    Args:
        folder: Holds the checkpoints of one run.
        step: Number of steps made.
        model: The model's ``state_dict()``.
        state: Everything else.
        members: Weights that an ensemble keeps.
        keep: Says of a number of steps whether its checkpoint stays.
        ranks: Who has parts of the tensors, and calls this together; others leave it to the first.
        whole: Of a model that is spread out, all of it on the first rank, where that is wanted.
        is_last: Whether the training ends here: then the one before goes too, for when it was written is chance.
    """
    tensors: dict[str, Tensor] = {}
    spread: dict[str, Tensor] = {}
    is_spread_out = any(map(is_sharded, model.values()))
    text = json.dumps(pack({**state, "model": model} if is_spread_out else state, tensors, spread))
    final, aside = folder / f"step-{step:08d}", folder / f".step-{step:08d}.{ranks.told(os.getpid())}.tmp"
    if ranks.is_first:
        folder.mkdir(parents=True, exist_ok=True)
        if aside.exists():  # of an earlier process with the same number
            remove_checkpoint(aside)
        aside.mkdir(exist_ok=True)
    if is_spread_out:
        ranks.wait()
        if not aside.is_dir():
            raise RunError(
                f"Expected {folder} on a path that all machines share, but this one does not see it. "
                "Choose another --out."
            )
        save_shards(aside, spread)  # which ends when all ranks have written
    if ranks.is_first:
        weights = whole if is_spread_out else model
        try:
            _write(aside, text, weights, tensors, members)
            _put_in_place(aside, final)
        except BaseException:
            with suppress(OSError):  # the first error says what is wrong
                remove_checkpoint(aside)
            raise
        remove_others(folder, final, keep, is_last=is_last)
    ranks.wait()


def _write(
    aside: Path,
    text: str,
    model: dict[str, Tensor] | None,
    tensors: dict[str, Tensor],
    members: Sequence[dict[str, Tensor]],
) -> None:
    if model is not None:
        weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.items()}
        save_file(weights, aside / "model.safetensors")
    for index, member in enumerate(members):
        save_file(member, aside / f"member-{index:04d}.safetensors")
    save_file(tensors, aside / "state.safetensors")
    (aside / "state.json").write_text(text)
    write_checksums(aside, [file.name for file in aside.iterdir()])
    for file in aside.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    sync_folder(aside)


def _put_in_place(aside: Path, final: Path) -> None:
    before = aside.with_suffix(".old")
    if final.exists():  # between two renames there is hardly time to be killed; to remove files takes longer
        final.rename(before)
    try:
        aside.rename(final)
        sync_folder(final.parent)
    except BaseException:  # all as it was: who calls this removes what is aside
        if before.exists():
            if final.exists():
                final.rename(aside)
            before.rename(final)
        raise


def remove_others(folder: Path, final: Path, keep: Callable[[int], bool], *, is_last: bool) -> None:
    """Remove what a new checkpoint has made superfluous; done again after a kill amid of it, it does the rest.

    Args:
        folder: Holds the checkpoints of one run.
        final: The newest one.
        keep: Says of a number of steps whether its checkpoint stays.
        is_last: Whether the training ends there: then the one before goes too.
    """
    before = [old for old in checkpoints(folder) if old.name < final.name]
    spared = {final, *(() if is_last else before[-1:])}
    for old in checkpoints(folder, aside=True):
        is_whole = old.name.startswith("step-")
        if old not in spared and not (is_whole and keep(int(old.name.removeprefix("step-")))):
            remove_checkpoint(old, final if old.name.startswith(f".{final.name}.") else None)


def load_checkpoint(folder: Path, mesh: Any = None) -> tuple[dict[str, Tensor], Tree] | None:
    """Read the newest checkpoint of a run.

    Args:
        folder: Holds the checkpoints of one run.
        mesh: Over which ranks to spread out what was spread out when it was written; all of them call this together.

    Returns:
        The model's state and everything else, with the members' weights under ``"members"``; None if there is no
        checkpoint.
    """
    found = list(checkpoints(folder))
    return _read(found[-1], mesh) if found else None


def load_checkpoints(folder: Path) -> Iterator[tuple[dict[str, Tensor], Tree]]:
    """Read all checkpoints of a run, the oldest first."""
    yield from map(_read, checkpoints(folder))


def _read(checkpoint: Path, mesh: Any = None) -> tuple[dict[str, Tensor], Tree]:
    before = [path.name for path in checkpoints(checkpoint.parent) if path.name < checkpoint.name]
    way_back = f"Remove the folder {checkpoint} to go on from {before[-1]}, or begin" if before else "Begin"
    todo = f"{way_back} anew with --fresh."
    check_checksums(checkpoint, todo)
    try:
        packed = json.loads((checkpoint / "state.json").read_text())
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected a checkpoint, but {checkpoint / 'state.json'} is damaged. {todo}") from error
    tensors = _load(checkpoint / "state.safetensors")
    if sketches := dict(_sketches(packed)):
        tensors |= load_shards(checkpoint, sketches, mesh)
    elif mesh is not None:
        raise InputError(
            f"Expected a checkpoint of a network in shards, but {checkpoint} holds a whole one. Go on as the run "
            "began, without --shard, or begin anew with --fresh."
        )
    state = unpack(packed, tensors)
    state["members"] = [_load(path) for path in sorted(checkpoint.glob("member-*.safetensors"))]
    return state.pop("model") if sketches else _load(checkpoint / "model.safetensors"), state


def _sketches(packed: Any) -> Iterator[tuple[str, Sketch]]:
    """Find what is in shards."""
    if isinstance(packed, dict):
        ((kind, content),) = packed.items()
        if kind == "shards":
            name, shape, dtype = content
            yield name, (tuple(shape), dtype)
        elif kind != "tensor":
            for value in content:
                yield from _sketches(value[1] if kind == "dict" else value)


def _load(path: Path) -> dict[str, Tensor]:
    """Read tensors into memory of their own, aligned as torch aligns it.

    A file's tensors lie anywhere in it, and the last bits of a product with a vector depend on where a matrix begins.
    """
    try:
        found = load_file(path)
    except (SafetensorError, FileNotFoundError) as error:
        raise InputError(f"Expected tensors, but {path} is missing or damaged. Begin anew with --fresh.") from error
    return {name: tensor.clone() for name, tensor in found.items()}
