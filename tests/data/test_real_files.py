"""Facts about the real files, where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.data import load_splits
from surefoot.data.people import read_noisy_labels, read_votes
from surefoot.registry import DATA
from surefoot.schema import Splits

SHARED = Path(__file__).parents[3] / "shared" / "data"
FASHION = Path("/usr/share/datasets/fashion-mnist")
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="../shared/data is not here")


def load(text: str) -> Splits:
    return load_splits(DATA.parse(text))


def first(splits: Splits, part: str, n: int) -> list[int]:
    """The first labels of a published part, which train and calibration may share."""
    labels = {}
    for split in (splits.train, splits.calibration, splits.test):
        if split.rows.source == part:
            labels |= dict(zip(split.rows.numbers.tolist(), split.labels.tolist(), strict=True))
    return [labels[row] for row in range(n)]


@needs_shared
def test_cifar10() -> None:
    splits = load(f"cifar10:path={SHARED}")
    assert first(splits, "train", 5) == [6, 9, 9, 4, 1]
    assert first(splits, "test", 5) == [3, 8, 8, 0, 6]
    assert splits.scaling.mean == pytest.approx((125.307, 122.950, 113.865), abs=0.7)  # those of all 50,000
    assert splits.scaling.std == pytest.approx((62.99, 62.09, 66.70), abs=0.4)
    assert torch.bincount(splits.test.labels).tolist() == [1000] * 10
    assert splits.class_names[6] == "frog"
    noisy = load(f"cifar10:path={SHARED},labels=worse_label,n_train=5000")
    clean = load(f"cifar10:path={SHARED},n_train=5000")
    assert (noisy.train.labels != clean.train.labels).float().mean() == pytest.approx(
        0.40, abs=0.02
    )  # published: 40.21 %


@needs_shared
def test_people_about_cifar10() -> None:
    votes = read_votes(str(SHARED))
    assert votes.shape == (10000, 10)
    assert votes.sum(1).mean() == pytest.approx(51, abs=0.5)
    with np.load(SHARED / "cifar10.npz") as arrays:
        train, test = arrays["y_train"].ravel(), arrays["y_test"].ravel()
    assert (votes.argmax(1) == test).mean() > 0.99
    assert np.array_equal(read_noisy_labels(10, "clean_label", str(SHARED)), train)


@needs_shared
def test_cifar100() -> None:
    splits = load(f"cifar100:path={SHARED},n_test=1000")
    assert splits.n_classes == 100
    assert splits.input_shape == (3, 32, 32)


@needs_shared
@pytest.mark.parametrize(
    ("name", "sizes", "classes"),
    [("trec", (4906, 546, 500), 6), ("sst2", (6920, 872, 1821), 2), ("sst5", (8544, 1101, 2210), 5)],
)
def test_texts(name: str, sizes: tuple[int, ...], classes: int) -> None:
    splits = load(f"text:{SHARED / 'text' / name}")
    assert (len(splits.train), len(splits.calibration), len(splits.test)) == sizes
    assert splits.n_classes == classes


@needs_shared
def test_shakespeare() -> None:
    splits = load(f"characters:{SHARED / 'text' / 'tinyshakespeare.txt'}")
    assert splits.n_classes == 66  # 65 characters and the unknown one
    assert "".join(splits.class_names[int(token)] for token in splits.train.inputs[0])[:13] == "First Citizen"


@pytest.mark.skipif(not FASHION.exists(), reason="dataset-fashion-mnist is not installed")
def test_all_of_fashion() -> None:
    splits = load("fashion_full")
    assert [len(splits.train), len(splits.calibration), len(splits.test)] == [54000, 6000, 10000]
    assert splits.scaling.mean[0] / 255 == pytest.approx(0.2860, abs=5e-4)
    assert splits.scaling.std[0] / 255 == pytest.approx(0.3530, abs=5e-4)
    assert torch.bincount(splits.calibration.labels).tolist() == [600] * 10


def test_digits_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    published = datasets.load_digits()
    splits = load("digits")
    for split in (splits.train, splits.calibration, splits.test):
        assert split.labels.tolist() == published.target[split.rows.numbers].tolist()
        shades = np.rint(splits.scaling.to_pixels(split.inputs).numpy()[:, 0] / 255 * 16)
        assert np.array_equal(shades, published.images[split.rows.numbers])
