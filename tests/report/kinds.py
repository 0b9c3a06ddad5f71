"""A page of every kind, small and quick to make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.auditing import conformal
from surefoot.report.audit_page import write_audit_page
from surefoot.report.page import write_page
from surefoot.report.sets_page import write_sets_page
from surefoot.report.shift import COLUMNS, ShiftRow, ShiftSummary
from surefoot.report.shift_page import write_shift_page
from surefoot.report.summary import summarise
from surefoot.statistics import Spread
from tests.auditing.made import made
from tests.report.test_dynamics import watched_run
from tests.runs import fake_run


def _comparison(folder: Path) -> Path:
    runs = [watched_run(folder / "runs", method, seed) for method in ("sgd", "sam", "csam") for seed in (0, 1)]
    return write_page(summarise(runs), folder / "comparison.html", command="surefoot compare")


def _audit(folder: Path) -> Path:
    logits, labels = made(600, temperature=0.5)
    report = sf.audit({"logits": logits, "labels": labels}, metrics="accuracy,ece,nll")
    commands = ["surefoot calibrate a.npz"]
    return write_audit_page(report.to_json()["audits"], folder / "audit.html", repair_commands=commands)


def _groups(folder: Path) -> Path:
    logits, labels = made(600, temperature=0.5)
    site = np.array(["north", "south"] * 300)
    report = sf.audit({"logits": logits, "labels": labels, "site": site}, group="site", risk=[0.1], metrics="ece,nll")
    return write_audit_page(report.to_json()["audits"], folder / "groups.html")


def _ranking(folder: Path) -> Path:
    logits, labels = made(400)
    sources = [{"logits": by * logits, "labels": labels} for by in (1, 3, 0.2)]
    found = json.loads(json.dumps(sf.audit(*sources, names=["a", "b", "c"], metrics="accuracy,ece,nll").to_json()))
    return write_audit_page(found["audits"], folder / "ranking.html", ranking=found["ranking"])


def _sets(folder: Path) -> Path:
    for name, seed in (("val", 0), ("test", 1)):
        logits, labels = made(400, seed=seed)
        np.savez(folder / f"{name}.npz", logits=logits, labels=labels, site=np.array(["north", "south"] * 200))
    found = conformal(folder / "val.npz", folder / "test.npz", groups=["site"])
    return write_sets_page(found.to_json(), folder / "sets.html")


def _shift(folder: Path) -> Path:
    summary = summarise([fake_run(folder / "runs", "sgd")])
    places = [("", 0), *((name, level) for name in ("fog", "contrast") for level in (1, 3, 5))]
    cells = {place: {column.key: Spread(0.05 + 0.1 * place[1], None, 1) for column in COLUMNS} for place in places}
    mean = {column.key: Spread(0.2, None, 1) for column in COLUMNS}
    row = ShiftRow(summary.rows[0], (0,), cells, mean, {}, None, {})
    return write_shift_page(
        summary, ShiftSummary((row,), ("fog", "contrast"), (1, 3, 5), 10, None), folder / "shift.html"
    )


KINDS: dict[str, Callable[[Path], Path]] = {
    "comparison": _comparison,
    "audit": _audit,
    "groups": _groups,
    "ranking": _ranking,
    "sets": _sets,
    "shift": _shift,
}
