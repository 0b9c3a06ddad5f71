"""A data set divided anew: the same examples, other splits."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.data import load_splits, redivided
from surefoot.data._divide import first_of_each_class
from surefoot.data._inside import as_option, from_option
from surefoot.data.label_noise import with_noise
from surefoot.errors import InputError, OptionError
from surefoot.registry import DATA
from surefoot.schema import SPLITS, Rows, Split, Splits
from tests.data import made


def load(text: str) -> Splits:
    return load_splits(DATA.parse(text))


def examples(*splits: Split) -> Counter[tuple[bytes, int]]:
    """Count every input with its label."""
    return Counter(
        (x.tobytes(), y) for split in splits for x, y in zip(split.inputs.numpy(), split.labels.tolist(), strict=True)
    )


def all_of(splits: Splits) -> Counter[tuple[bytes, int]]:
    return examples(splits.train, splits.calibration, splits.test)


def same(one: Split, other: Split) -> bool:
    return torch.equal(one.inputs, other.inputs) and torch.equal(one.labels, other.labels)


@pytest.fixture(scope="module")
def fashion() -> Splits:
    return load("fashion")


@pytest.fixture(scope="module")
def anew() -> Splits:
    return load("redivided:fashion,seed=3")


def test_sizes_and_classes_stay(fashion: Splits, anew: Splits) -> None:
    assert [len(anew[name]) for name in SPLITS] == [4000, 2000, 4000]
    for name, per_class in zip(SPLITS, (400, 200, 400), strict=True):
        assert torch.bincount(anew[name].labels).tolist() == [per_class] * 10
    assert anew.class_names == fashion.class_names
    assert anew.scaling == fashion.scaling


def test_no_example_is_lost_or_there_twice(fashion: Splits, anew: Splits) -> None:
    assert all_of(anew) == all_of(fashion)
    for name in SPLITS:
        assert examples(anew[name]) != examples(fashion[name])


def test_a_split_comes_from_all_of_them(fashion: Splits, anew: Splits) -> None:
    share = sum((examples(anew.test) & examples(fashion.test)).values()) / 4000
    assert share == pytest.approx(0.4, abs=0.04)


def test_the_seed_decides(anew: Splits) -> None:
    again, other = load("redivided:fashion,seed=3"), load("redivided:fashion,seed=4")
    assert all(same(again[name], anew[name]) for name in SPLITS)
    assert again.fingerprint == anew.fingerprint
    for name in SPLITS:
        assert examples(other[name]) != examples(anew[name])


def test_the_fingerprint_tells_data_seed_and_what_was_divided(fashion: Splits, anew: Splits) -> None:
    others = ("redivided:fashion,seed=4", "redivided:fashion,seed=3,test=false", "redivided:digits,seed=3")
    assert len({fashion.fingerprint, anew.fingerprint, *(load(text).fingerprint for text in others)}) == 5


def test_the_test_split_can_stay(fashion: Splits) -> None:
    splits = load("redivided:fashion,seed=3,test=false")
    assert same(splits.test, fashion.test)
    assert (splits.test.rows.source, splits.test.rows.numbers.tolist()) == ("test", list(range(4000)))
    assert splits.train.rows is None
    assert examples(splits.train, splits.calibration) == examples(fashion.train, fashion.calibration)
    assert examples(splits.train) != examples(fashion.train)
    assert torch.bincount(splits.calibration.labels).tolist() == [200] * 10


def test_rows_lead_back_to_the_published_examples() -> None:
    splits, plain = load("redivided:digits,seed=1"), load("digits")
    assert all_of(splits) == all_of(plain)
    numbers = np.concatenate([splits[name].rows.numbers for name in SPLITS])
    assert sorted(numbers.tolist()) == list(range(1797))
    by_number = {
        number: x
        for name in SPLITS
        for number, x in zip(plain[name].rows.numbers.tolist(), plain[name].inputs, strict=True)
    }
    for name in SPLITS:
        assert splits[name].rows.source == "all"
        found = torch.stack([by_number[number] for number in splits[name].rows.numbers.tolist()])
        assert torch.equal(found, splits[name].inputs)


def test_classes_are_as_frequent_as_in_all_of_them() -> None:
    splits = load("redivided:digits")
    pooled = torch.cat([splits[name].labels for name in SPLITS]).bincount().double() / 1797
    for name in SPLITS:
        expected = pooled * len(splits[name])
        assert (splits[name].labels.bincount() - expected).abs().max() < 2


def test_rows_are_given_only_where_one_part_has_them_all(tmp_path: Path, anew: Splits) -> None:
    assert all(anew[name].rows is None for name in SPLITS)
    made.write_binary(tmp_path / "cifar-10-batches-bin", 10)
    cifar = f"redivided:of=cifar10:path={tmp_path};calibration=0.2"
    assert all(load(cifar)[name].rows is None for name in SPLITS)
    kept = load(f"{cifar},test=false")
    assert [kept[name].rows.source for name in SPLITS] == ["train", "train", "test"]
    both = np.concatenate([kept.train.rows.numbers, kept.calibration.rows.numbers])
    assert sorted(both.tolist()) == list(range(100))


def test_label_noise_goes_around_it(anew: Splits) -> None:
    noisy = load("noisy:of=redivided:of=fashion;seed=3,rate=0.2")
    assert torch.equal(noisy.train.inputs, anew.train.inputs)
    assert (noisy.train.labels != anew.train.labels).double().mean().item() == pytest.approx(0.2, abs=0.03)
    assert same(noisy.calibration, anew.calibration)
    assert same(noisy.test, anew.test)
    assert noisy.fingerprint != anew.fingerprint


def test_options_come_back_from_any_depth() -> None:
    inner = load("redivided:of=digits:n_test=500;split_seed=2,seed=3")
    assert len(inner.test) == 500
    text = with_noise("redivided:of=digits:n_test=500;split_seed=2,seed=3", "sym:0.2")
    assert text == "noisy:of=redivided:of=digits:n_test=500;;split_seed=2;seed=3,kind=sym,rate=0.2"
    assert torch.equal(load(text).train.inputs, inner.train.inputs)
    twice = load("redivided:" + as_option("redivided:of=digits:n_test=500;split_seed=2,seed=3") + ",seed=4")
    assert all_of(twice) == all_of(inner)
    assert examples(twice.test) != examples(inner.test)
    for data in ("fashion", "a:b=1,c=2", "a:of=b:of=c:d=1;;e=2;f=3,g=4"):
        assert from_option(as_option(data)) == data
        assert "," not in as_option(data)


def rare(n_train: int = 30) -> Splits:
    """Two classes, and three more that have one example each, in the training split."""
    labels = {
        "train": torch.cat([torch.arange(2, 5), torch.arange(n_train - 3) % 2])[:n_train],
        "calibration": torch.arange(20) % 2,
        "test": torch.arange(20) % 2,
    }
    splits = {
        name: Split(torch.randn(len(y), 2, generator=torch.Generator().manual_seed(len(name))), y)
        for name, y in labels.items()
    }
    return Splits(**splits, class_names=tuple("abcde"), fingerprint="rare")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> dict[str, Splits]:
    """Let redivided find splits that are made here."""
    found: dict[str, Splits] = {}
    monkeypatch.setattr("surefoot.data._load.DATA.build", lambda spec: found["digits"])
    return found


@pytest.mark.parametrize("seed", range(5))
def test_every_class_is_left_to_train_on(own: dict[str, Splits], seed: int) -> None:
    own["digits"] = rare()
    splits = redivided(of="digits", seed=seed)
    assert splits.train.labels.bincount(minlength=5).min() >= 1
    assert [len(splits[name]) for name in SPLITS] == [30, 20, 20]
    assert all_of(splits) == all_of(own["digits"])


def test_the_division_depends_on_labels_and_seed_alone(own: dict[str, Splits]) -> None:
    plain = rare()
    numbered = {
        name: dataclasses.replace(plain[name], rows=Rows("all", np.arange(len(plain[name])) + 100 * place))
        for place, name in enumerate(SPLITS)
    }
    others = {name: dataclasses.replace(split, inputs=split.inputs**2) for name, split in numbered.items()}
    found = []
    for each in (numbered, others):
        own["digits"] = dataclasses.replace(plain, **each)
        found.append(redivided(of="digits", seed=1))
    for name in SPLITS:
        assert found[0][name].rows.numbers.tolist() == found[1][name].rows.numbers.tolist()


def test_too_few_to_train_on_are_refused(own: dict[str, Splits]) -> None:
    own["digits"] = rare(4)
    with pytest.raises(InputError, match=r"each of 5 classes to train on, but got 4 in all in digits\. Train on more"):
        redivided(of="digits")


@pytest.mark.parametrize("test", [True, False])
def test_the_same_examples_in_two_splits_are_refused(own: dict[str, Splits], test: bool) -> None:
    own["digits"] = dataclasses.replace(rare(), calibration=rare().test)
    redivided(of="digits", test=test)  # equal by chance, but not the same
    own["digits"] = dataclasses.replace(own["digits"], calibration=own["digits"].test)
    with pytest.raises(
        InputError, match=r"other examples in each split, but calibration and test are the same in digits\. Set some"
    ):
        redivided(of="digits", test=test)


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match=r"Expected redivided to be given of\. Write redivided:of="):
        load("redivided")
    with pytest.raises(OptionError, match="Unknown option 'split_seed' for 'redivided'"):
        load("redivided:digits,split_seed=1")


@pytest.mark.parametrize("n", [1, 7, 40, 60])
def test_some_of_each_class_are_left_over(n: int) -> None:
    labels = np.repeat([0, 1, 2], [50, 12, 1])
    counts = np.bincount(labels[first_of_each_class(labels, n, leave=1)], minlength=3)
    assert counts.sum() == n
    assert (np.array([50, 12, 1]) - counts).min() >= 1
    assert counts[:2].tolist() == {1: [1, 0], 7: [6, 1], 40: [32, 8], 60: [49, 11]}[n]


def test_what_is_left_over_cannot_be_chosen() -> None:
    with pytest.raises(InputError, match="n between 1 and 60, the rows there are, but got 61"):
        first_of_each_class(np.repeat([0, 1, 2], [50, 12, 1]), 61, leave=1)
