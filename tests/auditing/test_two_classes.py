"""Two classes are read as risks: mean risk beside event rate, and a repair only where it repairs that."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from surefoot.auditing import audit, compare_audits
from surefoot.errors import InputError
from surefoot.metrics.risk import judge_risk, ranking
from surefoot.report.audit_page import write_audit_page
from surefoot.sources.positive import choose_positive
from tests.conftest import RunCommand
from tests.report.browser import drawn_page
from tests.report.test_page import figures


def risks(
    n: int = 8000, *, mean: float = -4.85, spread: float = 1.6, shift: float = 0.0, scale: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Risks said and what happened: drawn from 1 / (1 + e⁻ᶻ), while the model says that of scale · z + shift."""
    rng = np.random.default_rng(seed)
    z = mean + spread * rng.standard_normal(n)
    happened = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    return 1 / (1 + np.exp(-(scale * z + shift))), happened


RARE = {"shift": 2.08}  # 2.4 % happen, 12 % said


def saved(path: Path, risk: np.ndarray, happened: np.ndarray, **more: np.ndarray) -> Path:
    """Write two columns of probabilities."""
    np.savez(path, probs=np.stack([1 - risk, risk], 1), labels=happened, **more)
    return path


def test_a_rare_class_whose_risk_is_overstated_fivefold(tmp_path: Path, run_command: RunCommand) -> None:
    risk, happened = risks(**RARE)
    (found,) = audit(saved(tmp_path / "a.npz", risk, happened))
    assert happened.mean() == pytest.approx(0.024, abs=0.004)
    says = r"risk is overstated fivefold: mean P\(class 1\) 1[12]\.\d % where 2\.\d % happen, 95 % interval \d\.\d–\d"
    assert re.match(says, found.sentence()), found.sentence()
    assert "a temperature does not (mean " in found.sentence()
    assert found.verdict.finding == "overstated"
    assert not found.helps
    assert found.repair is None
    done = run_command("audit", "a.npz")
    for words in (
        "mean risk, P(class 1)",
        "event rate",
        "AUROC of class 1",
        "average precision",
        "always saying class 0",
    ):
        assert words in done.stdout
    assert "under-confident" not in done.stdout
    assert f"Positive: class 1, {happened.sum()} of 8,000 (the second class; --positive chooses)" in done.stdout
    (values,) = json.loads(run_command("audit", "a.npz", "--json", "--no-page").stdout)["audits"]
    assert values["verdict"]["finding"] == values["two_classes"]["finding"] == "overstated"
    assert values["temperature_helps"] is False
    assert set(values["two_classes"]["advised"]) == {"platt", "beta", "isotonic"}
    assert values["measures"]["mean_risk"]["estimate"] == pytest.approx(risk.mean(), abs=1e-6)


def test_the_numbers_are_those_of_others(tmp_path: Path) -> None:
    risk, happened = risks(3000, **RARE)
    (found,) = audit(saved(tmp_path / "a.npz", risk, happened))
    two = found.two_classes
    assert two.risk.mean == pytest.approx(risk.mean(), abs=1e-6)
    assert two.risk.rate.estimate == pytest.approx(happened.mean())
    assert two.auroc.estimate == pytest.approx(roc_auc_score(happened, risk), abs=1e-6)
    assert two.average_precision.estimate == pytest.approx(average_precision_score(happened, risk), abs=1e-6)
    assert two.common_accuracy.estimate == pytest.approx(1 - happened.mean())
    assert (
        found.measures["accuracy"].estimate < two.common_accuracy.estimate
    )  # and so the model decides worse than none


def test_repairs_are_scored_on_rows_they_were_not_fitted_on(tmp_path: Path) -> None:
    """The calibration set of the same file has another fault, so what was fitted there must not fit here."""
    risk, happened = risks(4000, **RARE)
    other, truth = risks(4000, shift=-1.0, seed=1)
    pairs = {"test_labels": happened, "val_labels": truth}
    probs = {"test_probs": np.stack([1 - risk, risk], 1), "val_probs": np.stack([1 - other, other], 1)}
    np.savez(tmp_path / "a.npz", **probs, **pairs)
    (found,) = audit(tmp_path / "a.npz")
    assert found.two_classes.fitted_on == "the calibration set of the same file"
    assert not found.two_classes.advised
    assert "no calibrator repairs it" in found.sentence()


@pytest.mark.parametrize(
    ("options", "finding", "says"),
    [
        ({"shift": -1.2}, "understated", r"^risk is understated (threefold|2\.\d-fold): mean P\(class 1\) 0\.\d+ %"),
        ({"mean": 0.0, "shift": 0.5}, "overstated", r"^risk is overstated by \d\.\d points: mean P"),
        ({"mean": 0.0, "scale": 2.0}, "over-confident", r"^risk is too extreme.*; temperature (1\.9|2\.\d)\d brings"),
        ({"mean": 0.0, "scale": 0.5}, "under-confident", r"^risk is too moderate.*; temperature 0\.(4|5)\d brings"),
        ({}, "calibrated", r"^risk is calibrated as far as 8,000 examples with \d+ events.*; nothing to repair$"),
    ],
)  # fmt: skip
def test_what_is_said(options: dict[str, float], finding: str, says: str, tmp_path: Path) -> None:
    (found,) = audit(saved(tmp_path / "a.npz", *risks(**options)))
    assert found.verdict.finding == finding, found.sentence()
    assert re.search(says, found.sentence()), found.sentence()
    if finding != "understated":  # there 192 events cannot tell a temperature from a shift
        assert found.helps == (finding in ("over-confident", "under-confident"))


@pytest.mark.parametrize("form", ["flat probs", "flat logits", "csv"])
def test_a_single_column_is_read_in_the_same_way(form: str, tmp_path: Path) -> None:
    risk, happened = risks(4000, **RARE)
    path = tmp_path / ("a.csv" if form == "csv" else "a.npz")
    if form == "flat probs":
        np.savez(path, probs=risk, labels=happened)
    elif form == "flat logits":
        np.savez(path, logits=np.log(risk / (1 - risk)), labels=happened)
    else:
        path.write_text("label,prob\n" + "".join(f"{y},{p:.9f}\n" for y, p in zip(happened, risk, strict=True)))
    (found,) = audit(path)
    assert found.verdict.finding == "overstated"
    assert found.two_classes.risk.mean == pytest.approx(risk.mean(), abs=1e-5)


def test_few_or_no_events_are_said_to_be_so(tmp_path: Path) -> None:
    risk = np.full(300, 0.12)
    (none,) = audit(saved(tmp_path / "none.npz", risk, np.zeros(300, int)))
    assert none.sentence().startswith("risk is overstated by 12.0 points: mean P(class 1) 12.0 % where 0.0 % happen")
    assert none.sentence().endswith("0 examples of a class are too few to fit a repair")
    assert none.two_classes.auroc is None
    few = np.zeros(300, int)
    few[:3] = 1
    (some,) = audit(saved(tmp_path / "few.npz", risk, few))
    assert some.two_classes.risk.rate.high > 0.025  # 3 of 300 may well be 2.9 %
    assert some.two_classes.average_precision.low >= 0


def test_which_class_is_positive(tmp_path: Path, run_command: RunCommand) -> None:
    assert choose_positive(("cat", "dog"), None, "a").index == 1
    assert choose_positive(("sick", "healthy"), None, "a").index == 0
    assert choose_positive(("no", "yes"), None, "a").index == 1
    assert choose_positive(("malignant", "benign"), None, "a").index == 0
    assert choose_positive(("1", "0"), None, "a").index == 0
    assert choose_positive(("cat", "dog"), "CAT", "a").index == 0
    assert choose_positive((), "0", "a").name == "class 0"
    with pytest.raises(InputError, match=r"Expected --positive to be cat or dog or 0 or 1, but got 'bird'"):
        choose_positive(("cat", "dog"), "bird", "a.npz")
    risk, happened = risks(1000, **RARE)
    saved(tmp_path / "a.npz", risk, happened, class_names=np.array(["well", "ill"]))
    done = run_command("audit", "a.npz", "--positive", "well", "--no-page")
    assert "risk is understated by" in done.stdout
    assert "mean P(well) 8" in done.stdout
    np.savez(tmp_path / "three.npz", probs=np.eye(3), labels=np.arange(3))
    refused = run_command("audit", "three.npz", "--positive", "1")
    assert refused.returncode == 2
    assert "Expected two classes with --positive, but three.npz has 3" in refused.stderr


def test_positives_per_slice(tmp_path: Path, run_command: RunCommand) -> None:
    good, bad = risks(4000), risks(4000, seed=1, **RARE)
    sites = np.array(["north"] * 4000 + ["south"] * 4000)
    risk, happened = (np.concatenate(pair) for pair in zip(good, bad, strict=True))
    saved(tmp_path / "a.npz", risk, happened, site=sites)
    (found,) = audit(tmp_path / "a.npz", groups=["site"])
    assert [(each.value, each.risk.events, each.verdict.finding) for each in found.slices] == [
        ("south", int(bad[1].sum()), "overstated"),
        ("north", int(good[1].sum()), "calibrated"),
    ]
    done = run_command("audit", "a.npz", "--group", "site")
    assert re.search(rf"site = south +4,000 +{bad[1].sum()} +1[12]\.\d +[23]\.\d ", done.stdout)
    assert "positives" in (tmp_path / "a-audit.html").read_text(encoding="utf-8")


def test_two_files_are_told_apart_by_the_risk(tmp_path: Path) -> None:
    risk, happened = risks(**RARE)
    right, _ = risks()
    a, b = saved(tmp_path / "a.npz", risk, happened), saved(tmp_path / "b.npz", right, happened)
    assert re.match(r"B has the better mean risk: 2\.\d % against 1[12]\.\d % of A", compare_audits(a, b).sentence())
    same = compare_audits(a, a)
    assert same.sentence().startswith("A and B cannot be told apart by their mean risk: ")


def test_the_page_draws_the_risk(tmp_path: Path) -> None:
    risk, happened = risks(3000, **RARE)
    (found,) = audit(saved(tmp_path / "a.npz", risk, happened))
    page = write_audit_page([found.to_json()], tmp_path / "a.html")
    first = figures(page)["reliability-0-0"][""]
    assert first["layout"]["xaxis"]["title"]["text"] == "mean risk"
    points = first["data"][-1]
    assert np.average(points["x"], weights=[n for (n,) in points["customdata"]]) == pytest.approx(risk.mean(), abs=1e-6)
    assert first["layout"]["xaxis"]["range"][1] >= max(points["x"])
    text = page.read_text(encoding="utf-8")
    assert "What repairs would bring" in text
    assert "A temperature does not repair the risk" in text
    root = re.search(r"<html[^>]*>", drawn_page(page, tmp_path / "profile"))[0]
    assert 'data-drawn="4"' in root
    assert "data-trouble" not in root


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_intervals_cover(n: int, rate: float) -> None:
    """Also with two events, where an interval by the spread of the differences covers 85 %."""
    rng = np.random.default_rng(0)
    held = {"rate": 0, "gap": 0, "auroc": 0}
    middle, draws = np.log(rate / (1 - rate)), 150
    z = middle + 1.5 * rng.standard_normal((draws, n))
    true = 1 / (1 + np.exp(-z))
    area = _auroc_of(middle, rng)
    counted = 0
    for said, truth in zip(1 / (1 + np.exp(-(z + 0.7))), true, strict=True):
        happened = torch.from_numpy(rng.random(n) < truth)
        found = judge_risk(torch.from_numpy(said), happened)
        held["rate"] += truth.mean() in found.rate
        held["gap"] += said.mean() - truth.mean() in found.gap
        if (ranks := ranking(torch.from_numpy(said), happened)) is not None:
            counted += 1
            held["auroc"] += area in ranks[0]
    assert min(held["rate"], held["gap"]) / draws > 0.90, held
    assert held["auroc"] / counted > 0.90, held


def _auroc_of(middle: float, rng: np.random.Generator) -> float:
    z = middle + 1.5 * rng.standard_normal(200_000)
    p = 1 / (1 + np.exp(-z))
    return float(roc_auc_score(rng.random(len(p)) < p, p))
