"""Two classes with one score column, whatever their labels are called: the risk beside the events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import surefoot as sf
from surefoot.errors import InputError
from tests.conftest import RunCommand

RNG = np.random.default_rng(0)
RISK = RNG.random(400)
EVENT = RNG.random(400) < RISK


def labelled(no: Any, yes: Any) -> list[Any]:
    return [yes if happened else no for happened in EVENT]


CASES: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "words": ("risk", labelled("healthy", "sick"), {}, "the score is that of 'sick', by their names"),
    "minus one and one": ("score", labelled(-1, 1), {}, "the score is that of '1', the larger label"),
    "one and two": ("p1", labelled(1, 2), {}, "the score is that of '2', the larger label"),
    "the column's name": ("prob_sick", labelled("well", "sick"), {}, "'sick', by the column's name"),
    "as said": ("risk", labelled("A", "B"), {"positive": "B"}, "the score is that of 'B', as you said"),
    "true and false": ("score", labelled(False, True), {}, "labels read as class numbers 0…1"),
    "texts of truth": ("score", labelled("no", "yes"), {}, "the score is that of 'yes', by their names"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["csv", "memory"])
def test_the_risk_is_that_of_the_event(case: str, way: str, tmp_path: Path) -> None:
    column, labels, told, says = CASES[case]
    source: Any = {column: RISK, "label": labels}
    if way == "csv":
        rows = "".join(f"{risk!r},{label}\n" for risk, label in zip(RISK.tolist(), labels, strict=True))
        source = tmp_path / "a.csv"
        source.write_text(f"{column},label\n{rows}")
    found = sf.audit(source, **told).audit
    if not (case == "true and false" and way == "csv"):  # texts there
        assert says in found.took
    assert found.two_classes is not None
    assert found.two_classes.risk.mean == pytest.approx(RISK.mean())
    assert found.two_classes.risk.rate.estimate == pytest.approx(EVENT.mean())
    measures = found.measures
    assert measures["risk_auroc"].estimate == pytest.approx(roc_auc_score(EVENT, RISK))
    assert measures["average_precision"].estimate == pytest.approx(average_precision_score(EVENT, RISK))
    assert measures["nll"].estimate == pytest.approx(log_loss(EVENT, RISK))


def test_the_score_of_the_other_class_is_turned_round() -> None:
    found = sf.audit({"prob_well": 1 - RISK, "label": labelled("well", "sick")}, positive="sick").audit
    assert found.two_classes is not None
    assert found.two_classes.positive.name == "sick"
    assert found.two_classes.risk.mean == pytest.approx(RISK.mean())


def test_names_that_do_not_tell_are_asked_about(tmp_path: Path, run_command: RunCommand) -> None:
    rows = "".join(f"{risk},{label}\n" for risk, label in zip(RISK, labelled("A", "B"), strict=True))
    (tmp_path / "a.csv").write_text(f"risk,label\n{rows}")
    says = "Error: Expected to know whose score 'risk' is, but labels are 'A' and 'B' in a.csv. "
    says += "Say --positive B or --positive A.\n"
    for command in (("audit", "a.csv"), ("calibrate", "a.csv"), ("check", "a.csv", "--max-ece", "0.1")):
        done = run_command(*command)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", says)
    assert "mean P(B)" in run_command("audit", "a.csv", "--positive", "B", "--no-page").stdout
    assert run_command("calibrate", "a.csv", "--positive", "B").returncode == 0
    with pytest.raises(InputError, match="would be if the two classes changed places"):
        sf.audit(tmp_path / "a.csv", positive="A")


def test_weights_beside_tokens_are_refused() -> None:
    logits, labels = RNG.standard_normal((4, 30, 7)), RNG.integers(0, 7, (4, 30))
    with pytest.raises(InputError, match="Expected no weights with scores of more than two axes"):
        sf.audit(logits=logits, labels=labels, weights=np.ones(4))
