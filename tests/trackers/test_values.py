"""What trackers record is what the quantities are, taken by hand at the same weights."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn

from surefoot.curvature import GaussNewton, Hessian
from surefoot.errors import OptionError
from surefoot.losses.label_smoothing import LabelSmoothing
from surefoot.method import parse_method
from surefoot.moment import Horizon, Moment
from surefoot.optim import build_optimizer
from surefoot.schema import Splits
from surefoot.trackers import Probe, build_trackers

HORIZON = Horizon(100, 10, 16)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, 3))


def measured(text: str, model: nn.Module, splits: Splits, **rest: object) -> dict[str, float]:
    (tracker,) = build_trackers([text], HORIZON).values()
    return tracker.measure(Moment(3, 0, model, splits, **rest))


def test_the_ends_of_the_spectrum(model: nn.Module, small_splits: Splits) -> None:
    x, y, *held_out = Probe(40)(Moment(0, 0, model, small_splits))
    exact = torch.linalg.eigvalsh(Hessian(model, x, y).dense())
    found = measured("kappa:examples=40,tol=1e-4", model, small_splits)
    assert found["kappa_max/value"] == pytest.approx(exact[-1].item(), rel=1e-3)
    assert found["kappa_min/value"] == pytest.approx(exact[0].item(), rel=1e-2)
    assert found["kappa_max/examples"] == 40
    values, vectors = torch.linalg.eigh(GaussNewton(model, x, y).dense())
    found = measured("gn_sharpness:examples=40,tol=1e-5", model, small_splits)
    assert found["gn_sharpness/value"] == pytest.approx(values[-1].item(), rel=1e-3)
    held_out = [tensor[:10] for tensor in held_out]
    outside = vectors[:, -1] @ (GaussNewton(model, *held_out).dense() @ vectors[:, -1])
    assert found["gn_sharpness/held_out"] == pytest.approx(outside.item(), rel=1e-3)
    middle = math.sqrt(found["gn_sharpness/value"] * found["gn_sharpness/held_out"])
    assert found["gn_sharpness/middle"] == pytest.approx(middle)


def test_sharpness_on_test_examples(model: nn.Module, small_splits: Splits) -> None:
    test = dataclasses.replace(small_splits, train=small_splits.test)
    x, y, *_ = Probe(40)(Moment(0, 0, model, test))
    assert all(any(torch.equal(row, other) for other in small_splits.test.inputs) for row in x)
    exact = torch.linalg.eigvalsh(GaussNewton(model, x, y).dense())[-1].item()
    found = measured("sharpness_on_test:examples=40,tol=1e-5", model, small_splits)
    assert found["sharpness_on_test/value"] == pytest.approx(exact, rel=1e-3)
    assert found["sharpness_on_test/examples"] == 40


def test_the_middle_of_two_negative_ends_is_negative(model: nn.Module, small_splits: Splits) -> None:
    found = measured("kappa:examples=40", model, small_splits)
    assert found["kappa_min/value"] < 0
    assert found["kappa_min/held_out"] >= 0 or found["kappa_min/middle"] < 0


@pytest.mark.parametrize(("method", "line", "limit"), [("sgd", 20.0, 38.0), ("csam:lr=0.5,momentum=0", 4.0, 4.0)])
def test_the_line_of_the_learning_rate(
    method: str, line: float, limit: float, model: nn.Module, small_splits: Splits
) -> None:
    optimizer = build_optimizer(parse_method(method), model)
    found = measured("gn_sharpness", model, small_splits, optimizer=optimizer)
    assert found["gn_sharpness/two_over_lr"] == pytest.approx(line)
    assert found["gn_sharpness/threshold"] == pytest.approx(limit)
    found = measured("batch_sharpness", model, small_splits, optimizer=optimizer)
    assert found["batch_sharpness/large_batch_plateau"] == pytest.approx(limit)
    assert (found["batch_sharpness/batches"], found["batch_sharpness/batch_size"]) == (5, 16)


def test_probe_and_held_out_examples_are_different_ones(model: nn.Module, small_splits: Splits) -> None:
    moment = Moment(0, 0, model, small_splits)
    x, _, others, _ = Probe(40)(moment)
    assert len(x) == len(others) == 40
    assert not {row.numpy().tobytes() for row in x} & {row.numpy().tobytes() for row in others}
    x, _, others, _ = Probe(1000)(moment)  # all there are: others come from another split
    assert (len(x), len(others)) == (90, 60)


def test_margins_and_quality(model: nn.Module, small_splits: Splits) -> None:
    logits, labels = model(small_splits.test.inputs).double(), small_splits.test.labels
    right = logits.gather(1, labels[:, None])[:, 0]
    margin = right - logits.scatter(1, labels[:, None], -math.inf).amax(1)
    found = measured("margins", model, small_splits)
    assert found["test/margin_median"] == pytest.approx(margin.quantile(0.5).item(), abs=1e-6)
    assert found["test/margin_log_q"] == pytest.approx(margin.neg().exp().mean().log().item(), rel=1e-6)
    assert found["test/margin_share_negative"] == pytest.approx((margin <= 0).double().mean().item())
    found = measured("quality", model, small_splits)
    assert found["test/accuracy"] == pytest.approx((margin > 0).double().mean().item())
    assert found["test/loss"] == pytest.approx(nn.functional.cross_entropy(logits, labels).item())
    held_out = model(small_splits.calibration.inputs).double(), small_splits.calibration.labels
    assert found["calibration/loss"] == pytest.approx(nn.functional.cross_entropy(*held_out).item())
    assert found["calibration/accuracy"] == pytest.approx((held_out[0].argmax(1) == held_out[1]).double().mean().item())
    sure = held_out[0].softmax(1)
    gap = sure.amax(1) - (held_out[0].argmax(1) == held_out[1]).double()
    assert found["calibration/gap"] == pytest.approx(gap.mean().item(), abs=1e-6)
    assert found["calibration/gap_error"] == pytest.approx(gap.std().item() / math.sqrt(len(gap)), rel=1e-3)
    losses = nn.functional.cross_entropy(*held_out, reduction="none")
    assert found["calibration/loss_error"] == pytest.approx(losses.std().item() / math.sqrt(len(losses)), rel=1e-5)
    scaled = nn.functional.cross_entropy(held_out[0] / math.exp(found["calibration/log_temperature"]), held_out[1])
    assert scaled < losses.mean()
    assert sum(found["bins"]["count"]) == len(gap)
    of = {name: {key.partition("/")[2] for key in found if key.startswith(name)} for name in ("calibration", "test")}
    assert of["calibration"] - of["test"] == {
        *("gap", "gap_error", "log_temperature", "log_temperature_error", "loss_error", "ece_by_chance")
    }
    assert of["test"] < of["calibration"]
    smoothed = LabelSmoothing(alpha=0.3)
    found = measured("objective", model, small_splits, loss=smoothed)
    assert found["test/objective"] == pytest.approx(smoothed(logits, labels).per_example.mean().item(), rel=1e-5)
    assert measured("objective", model, small_splits) == {}


def test_the_certificate_bounds_the_measured_ece(model: nn.Module, small_splits: Splits) -> None:
    found = measured("certificate:probe=30", model, small_splits)
    assert found["certificate/violated"] == 0
    quality = measured("quality", model, small_splits)
    for split in ("train", "test"):
        assert found[f"{split}/certificate_ece"] == pytest.approx(quality[f"{split}/ece"])
        assert found[f"{split}/certificate_ece"] <= found[f"{split}/certificate_bound"]
        assert math.log(found[f"{split}/certificate_bound"]) <= found[f"{split}/certificate_log_bound"]


def test_the_certificate_with_a_radius_covers_robust_margins(model: nn.Module, small_splits: Splits) -> None:
    plain = measured("certificate:probe=30", model, small_splits)
    found = measured("certificate:probe=30,epsilon=0.1", model, small_splits)
    assert found["certificate/violated"] == 0
    robust = set(found) - set(plain)
    assert any("b_7" in key for key in robust)
    assert any("b_8" in key for key in robust)
    assert all(found[key] >= -1e-9 for key in robust)
    with pytest.raises(OptionError, match="Expected epsilon ≥ 0"):
        build_trackers(["certificate:epsilon=-1"], HORIZON)


def test_the_path_starts_at_the_weights_and_keeps_them(model: nn.Module, small_splits: Splits) -> None:
    before = [p.clone() for p in model.parameters()]
    found = measured("path:examples=40,rho=0.3", model, small_splits)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    ends = measured("kappa:examples=40,tol=1e-4", model, small_splits)
    assert found["path/kappa_min@0"] == pytest.approx(ends["kappa_min/value"], rel=0.05)
    assert found["path/loss@1"] > found["path/loss@0"]
    assert found["path/bound"] == pytest.approx(-found["path/gradient_norm"] / 0.3)


def test_preconditioned_sharpness_is_for_adam_alone(model: nn.Module, small_splits: Splits) -> None:
    sgd = build_optimizer(parse_method("sgd"), model)
    assert measured("preconditioned_sharpness", model, small_splits, optimizer=sgd) == {}
    adam = build_optimizer(parse_method("adamw:lr=0.001"), model)
    x, y = small_splits.train.inputs, small_splits.train.labels
    adam.step(lambda: nn.functional.cross_entropy(model(x), y, reduction="none"))
    found = measured("preconditioned_sharpness", model, small_splits, optimizer=adam)
    assert found["preconditioned_sharpness/threshold"] == pytest.approx(38000)
    assert found["preconditioned_sharpness/value"] > 0
