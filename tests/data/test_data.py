from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot
from surefoot.data import load_splits
from surefoot.data._arrays import splits_from_arrays
from surefoot.data.fashion import fashion
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import PartSpec, Splits
from tests.conftest import small_arrays

FASHION = Path(surefoot.__file__).parent / "data" / "fashion.npz"


def test_fashion_is_the_file_that_the_script_builds() -> None:
    digest = hashlib.sha256(FASHION.read_bytes()).hexdigest()
    assert digest == "7f76d317bfaad1b96fc8a80ba507b564c943d28698b123538909ac58c8b5cc45"


def test_fashion_is_balanced_and_its_splits_are_disjoint() -> None:
    splits = fashion()
    for split, per_class in (("train", 400), ("calibration", 200), ("test", 400)):
        assert torch.bincount(splits[split].labels).tolist() == [per_class] * 10
    rows = {split: set(map(bytes, splits[split].inputs.numpy())) for split in ("train", "calibration", "test")}
    assert not rows["train"] & rows["calibration"]
    assert not rows["train"] & rows["test"]


def test_fashion_is_standardised_by_its_training_split() -> None:
    train = fashion().train.inputs
    assert abs(train.mean().item()) < 1e-3
    assert abs(train.std().item() - 1) < 1e-3


@pytest.mark.skipif(
    not Path("/usr/share/datasets/fashion-mnist").exists(), reason="dataset-fashion-mnist is not installed"
)
def test_the_script_rebuilds_fashion() -> None:
    import subprocess
    import sys

    script = Path(__file__).parents[2] / "scripts" / "build_fashion.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


@pytest.mark.parametrize("name", [part.name for part in DATA])
def test_contract(name: str, small_npz: Path) -> None:
    spec = DATA.parse({"npz": f"npz:{small_npz}", "noisy": f"noisy:npz:{small_npz}"}.get(name, name))
    splits = load_splits(spec)
    assert isinstance(splits, Splits)
    for split in ("train", "calibration", "test"):
        part = splits[split]
        assert len(part) > 0
        assert part.inputs.dtype == torch.float32
        assert part.inputs.isfinite().all()
        assert part.inputs.shape[1:] == splits.input_shape
        assert part.labels.dtype == torch.int64
        assert 0 <= part.labels.min() <= part.labels.max() < splits.n_classes
    assert load_splits(spec).fingerprint == splits.fingerprint


def test_npz_without_calibration_split_sets_aside_the_same_share_of_each_class() -> None:
    arrays = {key: value for key, value in small_arrays().items() if "calibration" not in key}
    arrays["y_train"] = np.arange(90) % 3
    splits = splits_from_arrays(arrays, origin="x", calibration=0.2)
    assert torch.bincount(splits.calibration.labels).tolist() == [6, 6, 6]
    assert torch.bincount(splits.train.labels).tolist() == [24, 24, 24]
    again = splits_from_arrays(arrays, origin="x", calibration=0.2)
    assert torch.equal(splits.calibration.inputs, again.calibration.inputs)


def test_pictures_become_channels_first() -> None:
    arrays = small_arrays()
    colour = {key: np.repeat(v[..., None], 3, -1) if key[0] == "x" else v for key, v in arrays.items()}
    assert splits_from_arrays(colour, origin="x").input_shape == (3, 6, 6)
    assert splits_from_arrays(arrays, origin="x").input_shape == (1, 6, 6)


def test_floats_are_left_as_they_are() -> None:
    arrays = {key: v.astype(np.float64) if key[0] == "x" else v for key, v in small_arrays().items()}
    inputs = splits_from_arrays(arrays, origin="x").train.inputs
    assert np.array_equal(inputs.numpy(), arrays["x_train"].astype(np.float32))


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_come_back_whole(channels: int) -> None:
    arrays = small_arrays()
    if channels == 3:
        arrays = {key: np.stack([v, v // 2, 255 - v], -1) if key[0] == "x" else v for key, v in arrays.items()}
    splits = splits_from_arrays(arrays, origin="x")
    assert splits.scaling is not None
    assert len(splits.scaling.mean) == channels
    pixels = splits.scaling.to_pixels(splits.test.inputs)
    raw = arrays["x_test"].transpose(0, 3, 1, 2) if channels == 3 else arrays["x_test"][:, None]
    assert np.array_equal(pixels.numpy(), raw)
    assert torch.equal(splits.scaling.to_inputs(pixels), splits.test.inputs)
    assert torch.equal(splits.scaling.to_inputs(pixels.to(torch.uint8)), splits.test.inputs)


def test_what_is_no_picture_has_no_scaling() -> None:
    arrays = {key: v.astype(np.float64) if key[0] == "x" else v for key, v in small_arrays().items()}
    assert splits_from_arrays(arrays, origin="x").scaling is None


def test_fingerprint_sees_every_value() -> None:
    arrays = small_arrays()
    before = splits_from_arrays(arrays, origin="x").fingerprint
    arrays["y_test"][0] = (arrays["y_test"][0] + 1) % 3
    assert splits_from_arrays(arrays, origin="x").fingerprint != before


def broken(change: str) -> dict[str, np.ndarray]:
    arrays = small_arrays()
    floats = {key: v.astype(np.float32) if key[0] == "x" else v for key, v in arrays.items()}
    match change:
        case "missing key":
            del arrays["y_test"]
        case "nan":
            floats["x_test"][3, 0, 0] = np.nan
            return floats
        case "label too small":
            arrays["y_train"][0] = -1
        case "label too large":
            arrays["y_test"][5] = 3
        case "label is an id":
            arrays["y_train"][0] = 10**9
        case "empty":
            arrays["x_test"], arrays["y_test"] = arrays["x_test"][:0], arrays["y_test"][:0]
        case "lengths":
            arrays["y_train"] = arrays["y_train"][:-1]
        case "shapes":
            arrays["x_test"] = arrays["x_test"][:, :5]
        case "fractional labels":
            arrays["y_train"] = arrays["y_train"] + 0.5
    return arrays


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("missing key", "to hold y_test, but"),
        ("nan", "1 of 60 hold NaN or infinity, first at row 3, in x, test split"),
        ("label too small", "labels in 0…2, but got -1 in x, train split"),
        ("label too large", "labels in 0…2, but got 3 in x, test split"),
        ("label is an id", "got label 1000000000 in x. Renumber them"),
        ("empty", "empty x, test split"),
        ("lengths", r"one label per input, but got \(90, 6, 6\) and \(89,\)"),
        ("shapes", r"\(6, 6\), but got \(5, 6\) in x, test split"),
        ("fractional labels", "whole numbers as labels"),
    ],
)
def test_bad_arrays_are_refused(change: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        splits_from_arrays(broken(change), origin="x")


def test_labels_outside_named_classes_are_refused() -> None:
    with pytest.raises(InputError, match="labels in 0…1, but got 2"):
        splits_from_arrays(small_arrays(), origin="x", class_names=["a", "b"])


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        DATA.build(DATA.parse(f"npz:{tmp_path / 'no.npz'}"))
    (tmp_path / "cut.npz").write_bytes(FASHION.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"Save it with np\.savez"):
        DATA.build(DATA.parse(f"npz:{tmp_path / 'cut.npz'}"))
    np.savez(tmp_path / "pickled.npz", x_train=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="pickled objects"):
        DATA.build(DATA.parse(f"npz:{tmp_path / 'pickled.npz'}"))


def test_a_users_function_may_return_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_data.py").write_text(
        "from tests.conftest import small_arrays\n"
        "def splits():\n    return small_arrays()\n"
        "def wrong():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_splits(DATA.parse("my_data:splits")).n_classes == 3
    with pytest.raises(InputError, match="but got int"):
        load_splits(PartSpec("my_data:wrong"))
