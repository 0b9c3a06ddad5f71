"""Tensors that are spread out over ranks, on disk: every rank writes and reads its own shards, as safetensors.

torch's distributed checkpoint does the work. Another number of ranks reads the same files, and so does one process.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Sketch = tuple[tuple[int, ...], str]  # shape of the whole, and type


def sketch_of(tensor: Tensor) -> Sketch:
    """Describe a tensor as JSON can."""
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def save_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the shards of all ranks; all of them call this together.

    Args:
        folder: Is there, and all ranks reach it.
        tensors: Spread out, by name.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    with _quietly():
        save(dict(tensors), storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))


def load_shards(folder: Path, sketches: Mapping[str, Sketch], mesh: Any = None) -> dict[str, Tensor]:
    """Read tensors, whatever number of ranks wrote them.

    Args:
        folder: Where they are.
        sketches: Shape and type of each tensor, by name.
        mesh: Over which ranks to spread them out; all of these call this together. None for whole tensors.

    Returns:
        The tensors by name.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    found: dict[str, Tensor] = {}
    for name, (shape, dtype) in sketches.items():
        kind: torch.dtype = getattr(torch, dtype)
        if mesh is None:
            found[name] = torch.full(tuple(shape), math.nan if kind.is_floating_point else 0, dtype=kind)
        else:
            from torch.distributed.tensor import Shard, empty

            found[name] = empty(*shape, dtype=kind, device_mesh=mesh, placements=[Shard(0)])
    with _quietly():
        load(found, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=mesh is None)
    return found


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out torch's remarks about ranks that it takes for missing, and about storages of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
