"""Wrong labels on purpose, around any data set."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from surefoot.data import load_splits
from surefoot.data._arrays import relabel, with_labels
from surefoot.data._inside import as_option, from_option
from surefoot.data.people import read_labels
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import SplitName, Splits
from surefoot.seeding import generator

Kind = Literal["sym", "pairflip", "asym", "given"]
# Which classes of CIFAR-10 are taken for each other (Patrini et al. 2017, arXiv:1609.03683).
_LOOKALIKES = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}


@DATA.register("noisy")
def noisy(
    *,
    of: str,
    kind: Kind = "sym",
    rate: float = 0.2,
    seed: int = 0,
    file: str = "",
    name: str = "",
    calibration: bool = False,
) -> Splits:
    """Any data set with a share of its training labels made wrong: noisy:fashion,kind=pairflip,rate=0.4.

    The test labels stay true, and so do those for calibration unless asked.

    Args:
        of: The data set, as on the command line; a semicolon stands for a comma between its own options.
        kind: ``sym``: any other class, all with the same chance; ``pairflip``: the next class; ``asym``: the
            look-alikes of CIFAR-10; ``given``: the labels in ``file``, such as those that people gave.
        rate: Chance that a label is made wrong.
        seed: Which ones.
        file: For ``given``: a file with one label per training example in the published order, calibration examples
            included where they are taken from there; .npy, .npz or .pt.
        name: Which array of the file, such as CIFAR-10N's ``worse_label``; an .npy has one only.
        calibration: Make labels of the calibration split wrong as well; with ``given`` only where its examples come
            from the published training part.

    Returns:
        The splits.
    """
    splits = load_splits(DATA.parse(from_option(of)))
    if (kind == "given") != bool(file):
        raise InputError(f"Expected file= with kind=given and only there, but got kind {kind}. Add or drop file=.")
    names: tuple[SplitName, ...] = ("train", "calibration") if calibration else ("train",)
    if file:
        return relabel(splits, read_labels(Path(file).expanduser(), name), origin=file, names=names)
    chances = transitions(kind, rate, splits.class_names)
    return with_labels(
        splits,
        {part: flip(splits[part].labels, chances, generator(seed, f"label noise/{part}")).numpy() for part in names},
    )


def transitions(kind: str, rate: float, class_names: tuple[str, ...]) -> Tensor:
    """Return the chance T[i, j] that class i is labelled j.

    Args:
        kind: ``sym``, ``pairflip`` or ``asym``.
        rate: Chance that a label is wrong; for ``asym`` that of the classes that have a look-alike.
        class_names: One per class.

    Returns:
        Shape ``(classes, classes)``; rows sum to one.

    Raises:
        InputError: If the rate is no share, or there are no look-alikes.

    Example:
        >>> transitions("pairflip", 0.25, ("a", "b", "c")).tolist()
        [[0.75, 0.25, 0.0], [0.0, 0.75, 0.25], [0.25, 0.0, 0.75]]
        >>> transitions("sym", 0.5, ("a", "b", "c"))[0].tolist()
        [0.5, 0.25, 0.25]
    """
    k = len(class_names)
    if not 0 <= rate <= 1 or k < 2:
        raise InputError(f"Expected a rate of wrong labels in 0…1, but got {rate:g}. Write rate=0.2")
    right = torch.eye(k, dtype=torch.float64)
    if kind == "sym":
        return (1 - rate) * right + rate / (k - 1) * (1 - right)
    if kind == "pairflip":
        return (1 - rate) * right + rate * right.roll(1, 1)
    if not set(_LOOKALIKES) | set(_LOOKALIKES.values()) <= set(class_names):
        raise InputError(
            f"Expected the classes of CIFAR-10 for kind=asym, but got {', '.join(class_names[:4])} …. Use pairflip."
        )
    for name, other in _LOOKALIKES.items():
        right[class_names.index(name)] *= 1 - rate
        right[class_names.index(name), class_names.index(other)] = rate
    return right


def flip(labels: Tensor, chances: Tensor, draws: torch.Generator) -> Tensor:
    """Draw a label for each example from the row of its true class."""
    at = torch.rand(len(labels), 1, generator=draws, dtype=torch.float64)
    return (at >= chances.cumsum(1)[labels]).sum(1).clamp(max=len(chances) - 1)


def with_noise(data: str, noise: str | None) -> str:
    """Write a data set with label noise as one name, for ``--label-noise sym:0.2``.

    Args:
        data: As on the command line.
        noise: Kind, and after a colon its rate; or None.

    Returns:
        The name of the wrapped data set.

    Example:
        >>> with_noise("npz:a.npz,calibration=0.1", "sym:0.4")
        'noisy:of=npz:a.npz;calibration=0.1,kind=sym,rate=0.4'
    """
    if noise is None:
        return data
    kind, _, rest = noise.partition(":")
    detail = f",{'file' if kind == 'given' else 'rate'}={rest}" if rest else ""
    return f"noisy:of={as_option(data)},kind={kind}{detail}"
