"""Each rule speaks where it should, and is silent where chance explains what it sees."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from surefoot.serve.findings import (
    best_nll,
    confidence,
    controller,
    ece_and_chance,
    failures,
    findings,
    gap_by_chance,
)
from surefoot.serve.stability import SIGMAS, diverging, sharpness

Record = dict[str, Any]


BINS = {"count": [0, 1000], "confidence": [None, 0.95], "accuracy": [None, 0.9]}  # chance: up to 2.9 points


def quality(epoch: int, split: str = "calibration", **values: float) -> Record:
    keys = {f"{split}/{key}": value for key, value in {"loss": 0.5, **values}.items()}
    return {"step": 10 * epoch, "epoch": epoch, "tracker": "quality", "bins": BINS, **keys}


def gaps(*values: float, error: float = 0.01, **more: float) -> list[Record]:
    return [quality(epoch, gap=value, gap_error=error, **more) for epoch, value in enumerate(values)]


def losses(*values: float) -> list[Record]:
    return [{"step": step, "epoch": 0, "loss": value} for step, value in enumerate(values, 1)]


def test_over_confidence_says_since_when_how_much_and_what_repairs_it() -> None:
    records = gaps(0.0, 0.01, 0.03, 0.05, 0.06, log_temperature=math.log(1.6), log_temperature_error=0.02)
    assert confidence(records) == (
        "Over-confidence began at epoch 2 and is 6.0 ± 2.0 points now; temperature 1.60 (1.54 to 1.66) would repair it."
    )


def test_a_stretch_that_was_broken_began_after_the_break() -> None:
    assert "began at epoch 3" in str(confidence(gaps(0.05, 0.05, 0.0, 0.04, 0.05)))


def test_under_confidence_is_told_with_a_temperature_below_one_only() -> None:
    low = gaps(-0.05, -0.08, log_temperature=-0.3, log_temperature_error=0.05)
    assert confidence(low) == (
        "Under-confidence is there since before the first step and is 8.0 ± 2.0 points now; "
        "temperature 0.74 (0.67 to 0.82) would repair it."
    )
    assert "temperature" not in str(confidence(gaps(-0.08, log_temperature=0.3, log_temperature_error=0.05)))
    assert "temperature" not in str(confidence(gaps(-0.08, log_temperature=-0.05, log_temperature_error=0.05)))
    assert "temperature" not in str(confidence(gaps(0.9, log_temperature=math.log(20), log_temperature_error=0.1)))


@pytest.mark.parametrize("records", [[], gaps(0.05, 0.019), gaps(math.nan), [quality(0)], [{"tracker": "quality"}]])
def test_a_gap_within_its_interval_is_not_told(records: list[Record]) -> None:
    assert confidence(records) is None


def test_a_run_without_calibration_split_is_watched_by_its_test_split() -> None:
    assert "5.0 ± 2.0" in str(confidence([quality(1, "test", gap=0.05, gap_error=0.01)]))


def test_nll_that_rose_is_told_with_where_it_was_best() -> None:
    values = [0.9, 0.4, 0.45, 0.6]
    records = [quality(epoch, loss=value, loss_error=0.02) for epoch, value in enumerate(values)]
    said = best_nll(records)
    assert said == (
        "NLL was best at epoch 1: 0.400, now 0.600 ± 0.039; "
        "its weights are not kept: --keep-checkpoints 1 would have them."
    )
    assert str(best_nll(records, kept={10})).endswith("; --keep-checkpoints has it: checkpoint/step-00000010.")
    assert best_nll(records, kept=None) == "NLL was best at epoch 1: 0.400, now 0.600 ± 0.039."
    worse = [quality(epoch, loss=value, loss_error=0.02) for epoch, value in enumerate([2.3, 9.0])]
    assert best_nll(worse) == "Worse than before the first step: NLL was 2.300, now 9.000 ± 0.039."


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.4], [0.4, 0.45], [0.4, math.nan]])
def test_nll_that_is_best_now_or_within_noise_is_not_told(values: list[float]) -> None:
    assert best_nll([quality(epoch, loss=value, loss_error=0.02) for epoch, value in enumerate(values)]) is None


def test_ece_is_set_beside_chance() -> None:
    assert "is within what chance" in str(ece_and_chance([quality(1, ece=0.02, ece_by_chance=0.03)]))
    assert "is more than chance" in str(ece_and_chance([quality(1, ece=0.04, ece_by_chance=0.03)]))
    assert ece_and_chance([quality(1, ece=0.04)]) is None


def looks(*ratios: float, momentum: float = 0.0) -> list[Record]:
    lines = {"gn_sharpness/two_over_lr": 20.0, "gn_sharpness/threshold": 20.0 * (1 + momentum)}
    place = {"tracker": "gn_sharpness", **lines}
    return [{**place, "step": i, "gn_sharpness/value": r * 20.0 * (1 + momentum)} for i, r in enumerate(ratios)]


def test_sharpness_at_its_threshold_is_told() -> None:
    assert sharpness(looks(0.2, 0.5, *[1.0, 1.05, 0.95, 1.0, 1.0] * 2)) == (
        "Sharpness sits at 2/η: 1.00 of it, 0.95 to 1.05 at the last 10 looks."
    )
    assert "sits at (2 + 2β)/η" in str(sharpness(looks(*[1] * 10, momentum=0.9)))
    hovering = [1.08, 1.43, 1.07, 1.3, 1.17, 1.36, 1.19, 1.38, 1.14, 1.34]  # of a real training by whole batches
    assert "sits at 2/η: 1.25 of it, 1.07 to 1.43" in str(sharpness(looks(*hovering)))
    assert "beyond 2/η: 2.00" in str(sharpness(looks(*[2] * 10)))


PASSING = [0.9 + 0.02 * i for i in range(10)]


@pytest.mark.parametrize(
    "ratios", [[1] * 9, [*[1] * 9, 0.5], [0.3, 0.4] * 5, [2, 0.5] * 5, [0.9] * 10, PASSING, PASSING[::-1]]
)
def test_sharpness_elsewhere_or_seldom_seen_is_not_told(ratios: list[float]) -> None:
    assert sharpness(looks(*ratios)) is None


def test_a_loss_that_rises_by_five_sigma_is_told() -> None:
    draw = random.Random(0)
    noise = [1.0 + draw.gauss(0, 0.1) for _ in range(80)]
    assert str(diverging(losses(*noise, *[2.0] * 30))).startswith("Diverging: the loss rose ")
    assert str(diverging(losses(*[1.0] * 80, *[2.0] * 30))).startswith(
        "Diverging: the loss rose far more than its noise"
    )
    assert str(diverging(losses(1.0, math.nan, 3.0))).startswith("Diverged: the loss is not finite since step 2")


def test_noise_is_not_taken_for_divergence() -> None:
    draw = random.Random(1)
    for _ in range(300):
        assert diverging(losses(*(1.0 + draw.gauss(0, 0.3) for _ in range(100)))) is None
    assert diverging(losses(*[1.0] * 80, *[1.001] * 30)) is None  # a thousandth is no divergence
    assert diverging(losses(*[1.0] * 90, *[9.0] * 20)) is None  # nor are a few steps


def test_the_fewer_blocks_say_what_is_usual_the_more_the_loss_has_to_rise() -> None:
    for before, sigmas in SIGMAS.items():
        usual = [1.0 + 0.1 * (-1) ** block for block in range(before) for _ in range(10)]
        spread = 0.1 * math.sqrt(before / (before - 1))
        assert diverging(losses(*usual, *[1.0 + 0.99 * sigmas * spread] * 30)) is None
        said = str(diverging(losses(*usual, *[1.0 + 1.01 * sigmas * spread] * 30)))
        assert f"rose {sigmas:.0f} σ and stays there for 30 steps" in said


def test_a_slow_rise_does_not_hide_itself() -> None:
    draw = random.Random(2)
    noise = [2.0 + draw.gauss(0, 0.3) for _ in range(600)]
    slow = [value + (0.05 * math.exp((step - 400) / 40) if step > 400 else 0) for step, value in enumerate(noise)]
    assert any(diverging(losses(*slow[:end])) for end in range(400, 600, 10))


def test_a_loss_that_rises_with_its_learning_rate_is_told_with_it() -> None:
    records = losses(*[1.0, 1.1] * 40, *[3.0] * 30)
    restart = [{**record, "lr": 0.001 if record["step"] <= 80 else 0.1} for record in records]
    said = "With the learning rate, which rose from 0.001 to 0.1, the loss rose"
    assert str(diverging(restart)).startswith(said)


def test_the_next_network_of_an_ensemble_starts_anew_and_does_not_diverge() -> None:
    records = [{**r, "member": int(r["step"] > 200)} for r in losses(*[0.1, 0.11] * 100, *[2.3] * 30)]
    assert diverging(records) is None


def test_a_gap_that_chance_makes_one_time_in_a_thousand_is_told_where_rows_are_many() -> None:
    limit = gap_by_chance(quality(0))
    assert limit == pytest.approx(0.0295, abs=5e-4)
    assert confidence(gaps(0.029, error=0.001)) is None  # clear by its standard error, which few errors make too small
    assert confidence(gaps(0.030, error=0.001)) is not None
    for odd in ({}, {"bins": 3}, {"bins": {"count": [1]}}, {"bins": {"count": [0], "confidence": [None]}}):
        assert gap_by_chance(odd) is None


def steered(*values: float, error: float = 0.01) -> list[Record]:
    signal = {"steering/log_temperature": 0.05, "steering/error": error}
    return [{"tracker": "keep_calibrated", "steering/rho": value, **signal} for value in values]


def test_what_the_controller_turned_is_told() -> None:
    assert controller(steered(0.05, 0.1)) == (
        "The controller turned ρ from 0.05 to 0.1; log T is +0.050 ± 0.020 now, clear of 0."
    )
    assert "not clear of 0" in str(controller(steered(0.05, 0.1, error=0.1)))
    assert controller(steered(0.05, 0.05)) is None
    assert controller([]) is None


def test_trackers_that_fail_are_named() -> None:
    records = [{"tracker": "tce", "failed": "Expected two splits."}]
    assert failures(records) == "Tracker tce measures nothing: Expected two splits."
    assert failures(gaps(0.0)) is None


def test_the_most_urgent_comes_first_and_nothing_is_said_of_nothing() -> None:
    assert findings([]) == []
    said = findings([*gaps(0.0, 0.06), *losses(math.inf)])
    assert [text.split()[0] for text in said] == ["Diverged:", "Over-confidence"]


@pytest.mark.parametrize("odd", [None, "high", [], {}, True, 1e308])
def test_whatever_a_file_holds_is_no_error(odd: Any) -> None:
    everything = {f"{split}/{key}": odd for split in ("calibration", "test") for key in ("gap", "gap_error", "ece")}
    sharp = {"tracker": "gn_sharpness", "gn_sharpness/value": odd, "gn_sharpness/threshold": odd}
    turned = {"tracker": "keep_calibrated", "steering/rho": odd}
    records = [{"tracker": "quality", "epoch": odd, "step": odd, **everything}, sharp, turned, {"loss": odd}]
    assert isinstance(findings(records * 10), list)
