"""A share of somebody's own dataset, set aside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import surefoot as sf
from surefoot.data import set_aside
from surefoot.errors import InputError

LABELS = torch.arange(4000) % 10


class Told(Dataset[int]):
    """Tells labels by an attribute; its examples must not be loaded."""

    def __init__(self, n: int = 4000, **attributes: Any) -> None:
        self.n = n
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        raise AssertionError("loaded")


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))

    def __len__(self) -> int:
        return 5


class Unmeasured(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


def tensors(n: int = 4000) -> TensorDataset:
    return TensorDataset(torch.arange(n).float()[:, None], torch.arange(n) % 10)


def per_class(part: Subset[Any], labels: torch.Tensor = LABELS) -> list[int]:
    return labels[torch.tensor(part.indices)].bincount().tolist()


def test_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    sf.set_aside(tensors())
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "Set aside 400 of 4,000 examples (10 %) by class, seed 0: do not train on them.\n"
    set_aside(Told(30), 1 / 3, seed=7)
    assert capsys.readouterr().err == "Set aside 10 of 30 examples (33.3 %) at random, seed 7: do not train on them.\n"
    set_aside(tensors(), quiet=True)
    assert capsys.readouterr() == ("", "")


def test_every_example_is_in_one_part() -> None:
    data = tensors()
    train, aside = set_aside(data, 0.1, quiet=True)
    assert (len(train), len(aside)) == (3600, 400)
    assert sorted(x.item() for part in (train, aside) for x, _ in part) == list(range(4000))
    assert train.dataset is data
    assert list(train.indices) == sorted(train.indices)
    assert list(aside.indices) == sorted(aside.indices)
    assert (per_class(train), per_class(aside)) == ([360] * 10, [40] * 10)


@pytest.mark.parametrize("data", [tensors(), Told()], ids=["by class", "at random"])
def test_the_seed_decides(data: Dataset[Any]) -> None:
    chosen = [set_aside(data, seed=seed, quiet=True)[1].indices for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len(chosen[2]) == 400


def test_nothing_else_is_drawn() -> None:
    before = torch.get_rng_state()
    set_aside(tensors(), quiet=True)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "data",
    [
        Told(targets=LABELS),
        Told(targets=LABELS.tolist()),
        Told(labels=LABELS.numpy().astype(np.uint8)),
        Told(targets=["a", "b"], labels=list(LABELS)),  # names of classes come before the labels
        Subset(Told(targets=LABELS), range(4000)),
        Subset(Subset(tensors(), range(3999, -1, -1)), np.arange(3999, -1, -1)),
    ],
    ids=["tensor", "list", "bytes", "second", "subset", "nested"],
)
def test_labels_are_found_without_loading_examples(data: Dataset[Any], capsys: pytest.CaptureFixture[str]) -> None:
    train, aside = set_aside(data, 0.2)
    assert "by class" in capsys.readouterr().err
    assert (per_class(train), per_class(aside)) == ([320] * 10, [80] * 10)


def test_a_subset_of_some_classes_has_those_alone() -> None:
    odd = Subset(tensors(), [index for index in range(4000) if index % 2])
    train, aside = set_aside(odd, 0.1, quiet=True)
    assert torch.stack([label for _, label in aside]).bincount().tolist() == [0, 40] * 5
    inner = set_aside(train, 0.5, quiet=True)[1]  # once more, of what is left
    assert torch.stack([label for _, label in inner]).bincount().tolist() == [0, 180] * 5


@pytest.mark.parametrize(
    "data",
    [
        Told(),
        Told(targets=LABELS.float()),
        Told(targets=LABELS.numpy() / 2),
        Told(targets=LABELS[:-1]),
        Told(targets=torch.zeros(4000, 3).long()),
        Told(targets=[[1], [1, 2]] * 2000),
        Told(targets=[f"{index}.png" for index in range(4000)]),
        TensorDataset(LABELS),
        TensorDataset(LABELS, torch.randn(4000)),
        ConcatDataset([tensors(2000), tensors(2000)]),
        Subset(Unmeasured(), range(4000)),
    ],
    ids=[
        *("none", "floats", "halves", "short", "two axes", "ragged", "paths", "inputs", "regression", "joined"),
        "without length",
    ],
)
def test_else_it_goes_at_random(data: Dataset[Any], capsys: pytest.CaptureFixture[str]) -> None:
    train, aside = set_aside(data, 0.2)
    assert "at random" in capsys.readouterr().err
    assert (len(train), len(aside)) == (3200, 800)
    assert sorted([*train.indices, *aside.indices]) == list(range(4000))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_every_class_is_left_to_train_on(share: float) -> None:
    labels = torch.tensor([0] * 60 + [1] * 37 + [2, 3, 3])
    for seed in range(5):
        train, aside = set_aside(Told(100, targets=labels), share, seed=seed, quiet=True)
        assert len(aside) == round(100 * share)
        assert min(per_class(train, labels)) >= 1


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, 10, float("nan")])
def test_shares_that_are_none_are_refused(share: float) -> None:
    with pytest.raises(InputError, match=f"Expected a share between 0 and 1 to set aside, but got {share:g}. Choose"):
        set_aside(tensors(), share)


@pytest.mark.parametrize(
    ("n", "share", "says"),
    [(4, 0.1, "but 0.1 of 4 examples is 0"), (4, 0.9, "but 0.9 of 4 examples is 4"), (0, 0.5, "of 0 examples is 0")],
)
def test_an_empty_part_is_refused(n: int, share: float, says: str) -> None:
    with pytest.raises(InputError, match=f"that leaves neither part empty, .*{says}. Choose another one"):
        set_aside(Told(n), share)


def test_a_part_without_a_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"each of 10 classes to train on, but it leaves 4 in all\. Choose a smaller"):
        set_aside(tensors(40), 0.9)


@pytest.mark.parametrize("data", [Endless(), DataLoader(tensors()), iter([1, 2])], ids=["iterable", "loader", "iter"])
def test_what_has_no_numbers_is_refused(data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        InputError, match=f"examples by number, but got {type(data).__name__}. Pass a map-style Dataset"
    ):
        set_aside(data)
    assert capsys.readouterr().err == ""


def test_what_has_no_length_is_refused() -> None:
    with pytest.raises(InputError, match=r"a dataset with a length, but Unmeasured has none\. Give it __len__"):
        set_aside(Unmeasured())
