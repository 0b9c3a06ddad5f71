"""The table in terminals of 80 and 120 columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from surefoot.report.summary import Summary, summarise
from surefoot.report.tables import summary_table
from tests.runs import fake_run


def _lines(summary: Summary, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(summary_table(summary, width=width))
    return capture.get().splitlines()


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    better = {"accuracy": 0.842, "ece": 0.0365, "nll": 0.4813, "brier": 0.2}
    runs = [fake_run(tmp_path, "sgd", seed, seconds=1234.5, passes=1280000) for seed in (0, 1, 2)]
    runs += [fake_run(tmp_path, "csam:gamma=2,rho=0.1", seed, measures=better, tce=0.01) for seed in (0, 1, 2)]
    return summarise(runs)


@pytest.mark.parametrize("width", [80, 120])
def test_everything_fits_and_nothing_is_cut(summary: Summary, width: int) -> None:
    lines = _lines(summary, width)
    text = "\n".join(lines)
    assert max(map(cell_len, lines)) <= width
    assert "…" not in text.replace("…−", "").replace("…+", "").replace("…0.0", "")
    for expected in (
        "84.2 ± 0.0 ★",
        "3.6 ± 0.0 ★",
        "0.481 ± 0.000 ★",
        "1234.5",
        "1,280,000",
        "n = 3",
        "−1.4",
    ):
        assert expected in text


def test_a_wide_terminal_has_the_interval_beside_the_difference(summary: Summary) -> None:
    assert any("−1.4 (−1.4…−1.4)" in line for line in _lines(summary, 120))
    assert not any("−1.4 (−1.4…−1.4)" in line for line in _lines(summary, 80))


def test_the_best_is_starred_and_bold(summary: Summary) -> None:
    cells = list(summary_table(summary).columns[2].cells)
    assert "★" not in cells[0].plain
    assert "★" in cells[1].plain
    assert cells[1].style == "bold"


def test_one_seed_one_method_missing_metric(tmp_path: Path) -> None:
    text = "\n".join(_lines(summarise([fake_run(tmp_path, measures={"accuracy": 0.5}, tce=None)]), 80))
    assert "50.0" in text
    assert "±" not in text.partition("Mean")[0]
    assert "–" in text
    assert "★" not in text


def test_markup_in_a_label_is_shown_as_typed(tmp_path: Path) -> None:
    assert any("[red]x" in line for line in _lines(summarise([fake_run(tmp_path, "[red]x")]), 80))
