from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot
from surefoot.data import load_splits
from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Division
from surefoot.data.fashion import fashion
from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.method import parse_method
from surefoot.registry import DATA
from surefoot.schema import PartSpec, RunSpec
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


def test_npz_without_calibration_split_sets_aside_the_same_share_of_each_class() -> None:
    arrays = {key: value for key, value in small_arrays().items() if "calibration" not in key}
    arrays["y_train"] = np.arange(90) % 3
    splits = splits_from_arrays(arrays, origin="x", division=Division(calibration=0.2))
    assert torch.bincount(splits.calibration.labels).tolist() == [6, 6, 6]
    assert torch.bincount(splits.train.labels).tolist() == [24, 24, 24]
    again = splits_from_arrays(arrays, origin="x", division=Division(calibration=0.2))
    assert torch.equal(splits.calibration.inputs, again.calibration.inputs)


def test_pictures_become_channels_first() -> None:
    arrays = small_arrays()
    colour = {key: np.repeat(v[..., None], 3, -1) if key[0] == "x" else v for key, v in arrays.items()}
    assert splits_from_arrays(colour, origin="x").input_shape == (3, 6, 6)
    assert splits_from_arrays(arrays, origin="x").input_shape == (1, 6, 6)


def table(seed: int = 0) -> dict[str, np.ndarray]:
    """Two classes by the small column; the large one is noise, and one column does not vary."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, n in (("train", 200), ("test", 100)):
        labels = rng.integers(0, 2, n)
        small = labels + rng.normal(0, 0.2, n)
        arrays[f"x_{part}"] = np.stack([1e-3 * small, 1e6 * rng.normal(5, 1, n), np.full(n, 7.0)], axis=1)
        arrays[f"y_{part}"] = labels
    return arrays


def test_columns_of_a_table_are_standardised_by_the_training_split() -> None:
    splits = splits_from_arrays(table(), origin="x")
    train = splits.train.inputs
    assert train.mean(0).abs().max() < 1e-5
    assert train.std(0, correction=0).tolist() == pytest.approx([1.0, 1.0, 0.0], abs=1e-4)
    raw = table()["x_train"][splits.train.rows.numbers]
    mean, std = raw.mean(0), np.where(raw.std(0) > 0, raw.std(0), 1)
    assert np.allclose(splits.test.inputs.numpy(), (table()["x_test"] - mean) / std, atol=1e-5)
    assert splits.scaling.mean == pytest.approx(tuple(mean))
    assert not splits.scaling.is_pixels


def test_a_table_with_columns_of_different_scales_is_learned(tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", **table())
    data = DATA.parse(f"npz:{tmp_path / 'table.npz'}")
    spec = RunSpec(parse_method("sgd:lr=0.1"), data, PartSpec("mlp"), epochs=5, batch_size=32)
    folder = run(spec, tmp_path / "run")
    predictions = folder.predictions("test")
    assert (predictions.logits.argmax(1) == predictions.labels).mean() > 0.95
    assert folder.data["scaling"]["mean"] == pytest.approx([5e-4, 5e6, 7.0], rel=0.2)


def test_floats_of_pictures_are_standardised_channel_by_channel() -> None:
    arrays = {key: np.stack([v, v // 2, v], -1) / 255 if key[0] == "x" else v for key, v in small_arrays().items()}
    inputs = splits_from_arrays(arrays, origin="x").train.inputs
    assert inputs.shape[1:] == (3, 6, 6)
    assert inputs.mean((0, 2, 3)).abs().max() < 1e-5
    assert inputs.std((0, 2, 3), correction=0).tolist() == pytest.approx([1.0] * 3, abs=1e-4)


def test_inputs_stay_as_they_are_when_told_so() -> None:
    arrays = {key: v.astype(np.float64) if key[0] == "x" else v for key, v in small_arrays().items()}
    splits = splits_from_arrays(arrays, origin="x", kind="raw")
    assert np.array_equal(splits.train.inputs.numpy(), arrays["x_train"].astype(np.float32))
    assert splits.scaling is None


def test_whole_numbers_are_asked_about() -> None:
    arrays = {key: v.astype(np.int64) for key, v in small_arrays().items()}
    with pytest.raises(InputError, match=r"int64 in x, which could be either, or tokens. Write inputs=features"):
        splits_from_arrays(arrays, origin="x")
    pixels = splits_from_arrays(arrays, origin="x", kind="pixels")
    assert torch.equal(pixels.test.inputs, splits_from_arrays(small_arrays(), origin="x").test.inputs)
    assert splits_from_arrays(arrays, origin="x", kind="raw").scaling is None


def test_a_function_of_ones_own_says_what_its_inputs_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_tokens.py").write_text(
        "import numpy as np\n"
        "def load():\n"
        "    x, y = np.arange(80).reshape(20, 4), np.arange(20) % 2\n"
        "    return {'x_train': x, 'y_train': y, 'x_test': x, 'y_test': y, 'inputs': 'raw'}\n"
    )
    splits = load_splits(DATA.parse("own_tokens:load"))
    assert splits.test.inputs[1].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(("factor", "says"), [(255.0, "standard deviations off"), (1 / 255, "times less")])
def test_splits_on_different_scales_are_refused(factor: float, says: str) -> None:
    arrays = {key: v / 255 if key[0] == "x" else v for key, v in small_arrays().items()}
    arrays["x_test"] = arrays["x_test"] * factor
    with pytest.raises(InputError, match=f"{says} in x, test split. Scale all splits alike"):
        splits_from_arrays(arrays, origin="x")


def test_bytes_beside_floats_are_refused() -> None:
    arrays = small_arrays()
    arrays["x_test"] = arrays["x_test"] / 255
    with pytest.raises(InputError, match="those for training, uint8, but got float64 in x, test split"):
        splits_from_arrays(arrays, origin="x")


def labelled(train: object, test: object = None) -> dict[str, np.ndarray]:
    y = {"train": np.asarray(train), "test": np.asarray(train if test is None else test)}
    rng = np.random.default_rng(0)
    return {
        f"{key}_{part}": rng.normal(size=(len(of), 3)) if key == "x" else of for part, of in y.items() for key in "xy"
    }


ONE_TO_THREE = [1, 2, 3] * 20


@pytest.mark.parametrize(
    ("train", "test", "says"),
    [
        (ONE_TO_THREE, ONE_TO_THREE, "begin at 1 \\(those of the test split at 1\\): 1…3. Number the classes from 0"),
        (ONE_TO_THREE, [0, 1, 2] * 20, "begin at 1 \\(those of the test split at 0\\)"),
        ([0, 1] * 30 + [300], [0, 1] * 30, "298 of them have no example: there are 0, 1, 300. .* renumber=true"),
        ([0, 1, 2] * 20, ONE_TO_THREE, "labels in 0…2, but got 3 in x, test split"),
        ([0] * 60, [0] * 60, "two classes to tell apart, but all 48 labels are '0' in x, train split"),
        (["cat", "dog"] * 30, ["cat", "dog"] * 30, "whole numbers as labels, but got <U3 .* renumber=true"),
    ],
)
def test_labels_that_are_not_0_to_k_are_refused_before_training(train: list, test: list, says: str) -> None:
    with pytest.raises(InputError, match=says):
        splits_from_arrays(labelled(train, test), origin="x")


@pytest.mark.parametrize("values", [(1, 2, 3), (5, 70, 300), ("ant", "bee", "cow"), (1.0, 2.0, 3.0)])
def test_classes_are_renumbered_when_told_so(values: tuple[object, ...]) -> None:
    splits = splits_from_arrays(labelled(list(values) * 20), origin="x", renumber=True)
    assert splits.class_names == tuple(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
    assert splits.test.labels.tolist() == [0, 1, 2] * 20


def test_renumbered_classes_must_be_those_of_the_training_split() -> None:
    with pytest.raises(InputError, match="the training labels, 1…3, but got 0 in x, test split"):
        splits_from_arrays(labelled(ONE_TO_THREE, [0, 1, 2] * 20), origin="x", renumber=True)


def test_truth_values_are_two_classes() -> None:
    splits = splits_from_arrays(labelled([True, False] * 30), origin="x")
    assert splits.class_names == ("0", "1")


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
        ("label is an id", "there are 0, 1, 2, 1000000000. Number the classes from 0"),
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


def test_a_text_is_found_where_data_are_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plays").mkdir()
    (tmp_path / "plays" / "one.txt").write_text("to be or not to be, that is the question; " * 40)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    found = load_splits(DATA.parse("characters:plays/one.txt,length=8"))
    assert found.fingerprint == load_splits(DATA.parse(f"characters:{tmp_path}/plays/one.txt,length=8")).fingerprint
    with pytest.raises(InputError, match=r"Expected plays/other.txt to be a text in UTF-8"):
        load_splits(DATA.parse("characters:plays/other.txt,length=8"))
