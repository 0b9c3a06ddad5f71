"""Probabilities that single precision cannot hold: their logarithms are exact where the file holds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing.audit import audit
from surefoot.auditing.calibrate import calibrate
from surefoot.logs import LEAST, finite_logs


def tiny_rows(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Make rows of which every tenth gives its true class 10⁻⁴⁰ to 10⁻³⁰⁰."""
    draws = np.random.default_rng(0)
    labels, power = draws.integers(0, 3, n), draws.uniform(40, 300, n)
    true = np.where(np.arange(n) % 10 == 0, 10.0**-power, 0.8)
    probs = np.empty((n, 3))
    rows = np.arange(n)
    probs[rows, labels] = true
    turn = rows % 2 + 1
    probs[rows, (labels + turn) % 3] = 0.7 * (1 - true)
    probs[rows, (labels + 3 - turn) % 3] = 0.3 * (1 - true)
    return probs, labels


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_calibrate_starts_from_the_exact_nll(tmp_path: Path, ending: str) -> None:
    probs, labels = tiny_rows()
    path = tmp_path / f"tiny.{ending}"
    if ending == "npz":
        np.savez(path, probs=probs, labels=labels)
    else:
        table = "\n".join(f"{a!r},{b!r},{c!r},{label}" for (a, b, c), label in zip(probs.tolist(), labels, strict=True))
        path.write_text(f"p0,p1,p2,label\n{table}\n")
    exact = -np.log(probs[np.arange(60), labels]).mean()
    found = calibrate(path, method="temperature", labels_are="from-0")
    unchanged = next(each for each in found.comparison.candidates if each.name == "none")
    assert exact > 30
    assert unchanged.nll == pytest.approx(exact, rel=1e-9)


def test_the_nll_of_a_risk_is_exact(tmp_path: Path) -> None:
    labels = np.arange(60) % 2
    risk = np.where(labels == 1, 0.8, 0.2)
    risk[1::20] = 1e-120
    np.savez(tmp_path / "two.npz", probs=risk, labels=labels)
    (found,) = audit(tmp_path / "two.npz")
    assert found.two_classes is not None
    assert found.two_classes.nll == pytest.approx(-np.log(np.where(labels == 1, risk, 1 - risk)).mean(), rel=1e-9)


def test_zero_is_never_above_what_was_given() -> None:
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([[1.0, 0.0, 1e-300], [1.0, 0.0, 1e-3]]))
    assert finite_logs(logs).tolist() == [[0, logs[0, 2], logs[0, 2]], [0, LEAST, logs[1, 2]]]
    assert finite_logs(logs, single=True).tolist() == [[0, LEAST, LEAST], [0, LEAST, logs[1, 2]]]
