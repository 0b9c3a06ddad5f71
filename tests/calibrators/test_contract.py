"""What every registered calibrator must do: a new one is tested by being added."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.calibrators import Calibrator, load
from surefoot.errors import InputError, SplitError
from surefoot.metrics.ece import ece
from surefoot.registry import CALIBRATORS, Part
from surefoot.schema import Predictions

ALL = list(CALIBRATORS)
every = pytest.mark.parametrize("part", ALL, ids=lambda part: part.name)


def made(n: int, split: str, *, sharpen: float = 2.0, seed: int = 0, n_classes: int = 4) -> Predictions:
    """Over-confident predictions of noisy labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, n_classes))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = (p.cumsum(1) < rng.random((n, 1))).sum(1)
    return Predictions(sharpen * z, labels, split)


def nll(probs: np.ndarray, labels: np.ndarray) -> float:
    return -np.log(probs[np.arange(len(labels)), labels]).mean()


@pytest.fixture(scope="module")
def fitted() -> dict[str, Calibrator]:
    calibration = made(1500, "calibration")
    return {part.name: part.build(calibration) for part in ALL}


@every
def test_improves_overconfident_predictions(part: Part, fitted: dict[str, Calibrator]) -> None:
    test = made(4000, "test", seed=1)
    plain = np.exp(test.logits) / np.exp(test.logits).sum(1, keepdims=True)
    repaired = fitted[part.name].probs(test.logits)
    np.testing.assert_allclose(repaired.sum(1), 1, atol=1e-12)
    assert (repaired >= 0).all()
    if part.name == "prior":  # repairs how frequent classes are, not how sure the network is
        assert nll(repaired, test.labels) < nll(plain, test.labels) + 0.01
        return
    gain = 0.05 if part.name != "histogram" else 0.0
    assert nll(repaired, test.labels) < nll(plain, test.labels) - gain
    assert _ece(repaired, test.labels) < 0.6 * _ece(plain, test.labels)


def _ece(probs: np.ndarray, labels: np.ndarray) -> float:
    return ece(torch.from_numpy(probs), torch.from_numpy(labels)).item()


@every
def test_repairs_predictions_of_another_split(part: Part, fitted: dict[str, Calibrator]) -> None:
    test = made(50, "test", seed=2)
    repaired = fitted[part.name](test)
    assert repaired.fitted_on == "calibration"
    assert repaired.split == "test"
    assert np.isfinite(repaired.logits).all()
    assert np.array_equal(repaired.labels, test.labels)
    shares = torch.from_numpy(repaired.logits).softmax(1).numpy()
    np.testing.assert_allclose(shares, fitted[part.name].probs(test.logits), atol=1e-12)
    with pytest.raises(SplitError, match="Expected a calibrator fitted on another split"):
        fitted[part.name](made(50, "calibration"))


@every
def test_refuses_the_test_split(part: Part) -> None:
    with pytest.raises(SplitError, match="Expected the calibration split to fit on, but got 'test'"):
        part.build(made(50, "test"))


@every
def test_keeps_the_order_if_it_says_so(part: Part, fitted: dict[str, Calibrator]) -> None:
    logits = made(1000, "test", seed=3).logits
    repaired = fitted[part.name].logits(logits)
    same = bool((repaired.argsort(1) == logits.argsort(1)).all())
    assert same == part.facts["keeps_order"]


@every
def test_is_frozen(part: Part, fitted: dict[str, Calibrator]) -> None:
    calibrator = fitted[part.name]
    with pytest.raises(dataclasses.FrozenInstanceError):
        calibrator.fitted_on = "train"
    for field in dataclasses.fields(calibrator):
        value = getattr(calibrator, field.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0


@every
@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_survives_saving(part: Part, suffix: str, fitted: dict[str, Calibrator], tmp_path: Path) -> None:
    calibrator, path = fitted[part.name], tmp_path / f"calibrator{suffix}"
    calibrator.save(path)
    again = load(path)
    assert again == calibrator
    assert hash(again) == hash(calibrator)
    logits = made(20, "test", seed=4).logits
    assert np.array_equal(again.probs(logits), calibrator.probs(logits))
    assert Calibrator.from_json(json.loads(json.dumps(calibrator.to_json()))) == calibrator


@every
def test_head_does_the_same_and_can_be_exported(part: Part, fitted: dict[str, Calibrator]) -> None:
    logits = torch.from_numpy(made(30, "test", seed=5).logits)
    expected = fitted[part.name].logits(logits.numpy())
    head = fitted[part.name].module()
    np.testing.assert_array_equal(head(logits).numpy(), expected)
    assert not list(head.parameters())
    network = torch.nn.Sequential(torch.nn.Identity(), head)
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(network, (logits[:7],), dynamic_shapes=({0: batch},)).module()
    np.testing.assert_allclose(exported(logits).numpy(), expected, rtol=1e-12)
    assert head(logits.float()).dtype == torch.float32


@every
def test_float32_logits_stay_float32(part: Part, fitted: dict[str, Calibrator]) -> None:
    logits = made(10, "test").logits
    single = fitted[part.name].logits(logits.astype(np.float32))
    assert single.dtype == np.float32
    if part.name not in ("histogram", "bbq", "venn_abers"):  # a step function may jump at a rounded number
        np.testing.assert_allclose(single, fitted[part.name].logits(logits), atol=1e-3)


@every
@pytest.mark.parametrize("extreme", [60.0, 800.0])
def test_certain_logits_stay_finite(part: Part, extreme: float) -> None:
    data = made(300, "calibration")
    logits = data.logits.copy()
    logits[::3] = np.eye(4)[data.labels[::3]] * extreme
    logits[::30] = np.eye(4)[(data.labels[::30] + 1) % 4] * extreme
    repaired = part.build(Predictions(logits, data.labels, "calibration"))(Predictions(logits, data.labels, "test"))
    assert np.isfinite(repaired.logits).all()


@every
@pytest.mark.parametrize("case", ["absent class", "one class only", "one example", "all equal", "always right"])
def test_odd_data(part: Part, case: str) -> None:
    data = made(60, "calibration")
    logits, labels = data.logits.copy(), data.labels.copy()
    if case == "absent class":
        labels[labels == 2] = 0
    elif case == "one class only":
        labels[:] = 1
    elif case == "one example":
        logits, labels = logits[:1], labels[:1]
    elif case == "all equal":
        logits[:] = 0
    else:
        labels = logits.argmax(1)
    fitted = part.build(Predictions(logits, labels, "calibration"))
    probs = fitted.probs(made(40, "test", seed=6).logits)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-9)


@every
def test_two_classes(part: Part) -> None:
    fitted = part.build(made(800, "calibration", n_classes=2))
    test = made(2000, "test", seed=7, n_classes=2)
    plain = np.exp(test.logits) / np.exp(test.logits).sum(1, keepdims=True)
    limit = 1.02 if part.name == "prior" else 1.0  # repairs how frequent classes are, not how sure the network is
    assert _ece(fitted.probs(test.logits), test.labels) < limit * _ece(plain, test.labels)


@every
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_weight_counts_as_so_many_rows(part: Part, n_classes: int) -> None:
    data = made(240, "calibration", n_classes=n_classes)
    counts = np.random.default_rng(1).integers(0, 4, 240)
    weighed = part.build(dataclasses.replace(data, weights=counts.astype(float)))
    repeated = part.build(data.rows(np.repeat(np.arange(240), counts)))
    logits = made(300, "test", seed=8, n_classes=n_classes).logits
    np.testing.assert_allclose(weighed.probs(logits), repeated.probs(logits), atol=1e-5)
    alike = part.build(dataclasses.replace(data, weights=np.ones(240)))
    np.testing.assert_allclose(alike.probs(logits), part.build(data).probs(logits), atol=1e-5)
    assert not np.allclose(weighed.probs(logits), part.build(data).probs(logits), atol=1e-4)


@every
def test_weights_may_be_shares(part: Part) -> None:
    """Their sum is then no number of rows: 240 rows stay 240."""
    data = made(240, "calibration")
    shares = np.random.default_rng(1).random(240)
    one, other = (part.build(dataclasses.replace(data, weights=shares * by)) for by in (1e-6, 1 / shares.mean()))
    logits = made(50, "test", seed=8).logits
    np.testing.assert_allclose(one.probs(logits), other.probs(logits), atol=1e-5)


@every
@pytest.mark.parametrize("weights", [[-1.0], [np.nan], [0.0] * 20])
def test_bad_weights_get_one_line(part: Part, weights: list[float]) -> None:
    given = np.ones(20)
    given[: len(weights)] = weights
    with pytest.raises(InputError, match="Expected finite weights of at least 0, not all 0, but got"):
        part.build(dataclasses.replace(made(20, "calibration"), weights=given))


def choices(n: int, split: str, seed: int = 0) -> Predictions:
    """Questions with two to four answers."""
    whole = made(n, split, seed=seed)
    logits, rng = whole.logits.copy(), np.random.default_rng(seed)
    for row, label in zip(logits, whole.labels, strict=True):
        row[max(2, label + 1, rng.integers(2, 5)) :] = -np.inf
    return Predictions(logits, whole.labels, split, form="choices")


@every
def test_choices_mean_something_else_in_every_row(part: Part) -> None:
    data = choices(400, "calibration")
    if not part.facts.get("any_columns"):
        with pytest.raises(InputError, match="columns mean something else in every row"):
            part.build(data)
        return
    fitted = part.build(dataclasses.replace(data, weights=np.arange(400) % 3.0))
    test = choices(100, "test", seed=1)
    repaired = fitted(test)
    assert repaired.form == "choices"
    np.testing.assert_array_equal(np.isneginf(repaired.logits), np.isneginf(test.logits))
    assert np.isfinite(repaired.logits[~np.isneginf(test.logits)]).all()
    assert nll(fitted.probs(test.logits), test.labels) < nll(softmax(test.logits), test.labels)


@every
def test_labels_by_themselves_are_refused(part: Part) -> None:
    data = Predictions(np.zeros((5, 3)), np.zeros((5, 3), int), "calibration", form="multilabel")
    with pytest.raises(InputError, match=r"labels are each true or not by themselves\. Calibrate one label at a time"):
        part.build(data)


@every
def test_confidence_is_two_classes(part: Part) -> None:
    two = made(300, "calibration", n_classes=2)
    as_classes = part.build(two)
    assert part.build(dataclasses.replace(two, form="confidence")) == as_classes


def softmax(logits: np.ndarray) -> np.ndarray:
    return torch.from_numpy(logits).softmax(1).numpy()


@every
def test_bad_data_get_one_line(part: Part) -> None:
    data = made(20, "calibration")
    broken = data.logits.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InputError, match="Expected finite logits to fit on, but row 3 is"):
        part.build(Predictions(broken, data.labels, "calibration"))
    with pytest.raises(InputError, match=r"Expected labels in 0…3, but got 4 to 7"):
        part.build(Predictions(data.logits, data.labels % 4 * 0 + np.arange(20) % 4 + 4, "calibration"))
    with pytest.raises(InputError, match="Expected predictions of at least two classes"):
        part.build(Predictions(data.logits[:0], data.labels[:0], "calibration"))


def test_loading_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"calibrator": "nosuch"}')
    with pytest.raises(InputError, match="Expected a saved calibrator, but got 'nosuch'"):
        load(path)
    path.write_text("[1, 2]")
    with pytest.raises(InputError, match=r"Expected a saved calibrator, but x\.json is none"):
        load(path)
    (tmp_path / "y.safetensors").write_bytes(b"not a safetensors file")
    with pytest.raises(InputError, match=r"but y\.safetensors is none"):
        load(tmp_path / "y.safetensors")
    with pytest.raises(InputError, match=r"Expected a file name in \.json or \.safetensors, but got 'z\.txt'"):
        CALIBRATORS["temperature"].build(made(20, "calibration")).save(tmp_path / "z.txt")
