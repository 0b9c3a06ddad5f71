"""What a page weighs: curves are thinned without losing a peak, and many runs still make one page."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.report.curves import Curve
from surefoot.report.marks import N_MARKS
from surefoot.report.page import write_page
from surefoot.report.pairing import PairedSeries
from surefoot.report.summary import summarise
from surefoot.report.thinning import MOMENTS, extremes, spaced, thin
from tests.report.browser import drawn_page, repack, unpacked
from tests.report.test_page import figures
from tests.runs import MEASURES, fake_run

MOST = 2_000_000  # bytes
finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=1, max_size=300), st.integers(1, 20))
def test_every_column_keeps_its_extremes(values: list[float], columns: int) -> None:
    at = [0.1 * step for step in range(len(values))]
    kept = extremes(at, values, columns=columns)
    assert kept == sorted(set(kept))
    assert {0, len(values) - 1} <= set(kept)
    assert len(kept) <= 2 * columns + 2
    shown = [values[i] for i in kept]
    assert (min(shown), max(shown)) == (min(values), max(values))
    if len(kept) < len(values):
        width = at[-1] / columns
        for column in range(columns):
            ends = column * width, (column + 1) * width + (column == columns - 1)
            inside = [i for i in range(1, len(values)) if ends[0] <= at[i] < ends[1]]
            near = [values[i] for i in kept if any(abs(at[i] - at[j]) < 1e-9 for j in inside)]
            assert not inside or min(near) <= min(values[i] for i in inside) + 1e-9
            assert not inside or max(near) >= max(values[i] for i in inside) - 1e-9


def test_a_band_keeps_its_own_extremes_and_the_first_moment_hides_none() -> None:
    n = 10_000
    mean = [math.sin(step / 50) for step in range(n)]
    low, high = [value - 0.1 for value in mean], [value + 0.1 for value in mean]
    low[4321], high[8765], mean[0], mean[1] = -9.0, 9.0, 100.0, 50.0
    whole = Curve(tuple(map(float, range(n))), tuple(mean), tuple(low), tuple(high), 3)
    thinned = thin(whole, 100)
    assert len(thinned.epochs) <= 602
    assert (min(thinned.low), max(thinned.high)) == (-9.0, 9.0)
    assert thinned.mean[:2] == (100.0, 50.0)  # the second is the highest of a network that was trained
    assert (thinned.epochs[0], thinned.epochs[-1]) == (0.0, n - 1.0)
    assert thin(thinned, 1000) is thinned


def test_a_cloud_of_points_keeps_its_width() -> None:
    steps = tuple(range(10_000))
    noise = tuple(math.sin(12.9898 * step * step) for step in steps)
    found = spaced(PairedSeries(steps, noise, noise, exact=True))
    assert (len(found.steps), found.steps[0], found.steps[-1]) == (MOMENTS, 0, 9_999)
    assert sum(abs(value) for value in found.x) / MOMENTS == pytest.approx(2 / math.pi, abs=0.15)
    assert spaced(found) is found


def test_long_runs_are_thinned_and_the_page_says_so(tmp_path: Path) -> None:
    run = fake_run(tmp_path, quality=False, epochs=20)
    looks = ({"step": s, "epoch": s // 500, "tracker": "quality", "test/ece": abs(math.sin(s))} for s in range(10_001))
    run.append_steps([*looks, {"step": 10_001, "epoch": 20, "loss": 0.1}])
    page = write_page(summarise([run]), tmp_path / "report.html")
    line = figures(page)["curve-ece"][""]["data"][0]
    assert len(line["x"]) <= 602
    assert max(line["y"]) == pytest.approx(1.0, abs=1e-5)
    assert "in each of 300 columns" in page.read_text(encoding="utf-8")
    short = write_page(summarise([fake_run(tmp_path / "short")]), tmp_path / "short.html")
    assert "columns" not in short.read_text(encoding="utf-8").partition("<main>")[2].partition("<script")[0]


def test_many_methods_make_one_page_that_draws_those_it_can_mark(tmp_path: Path) -> None:
    """Of 300, the first and those with the lowest ECE on the calibration split; the table has all."""
    bins = {name: {"count": [9] * 15, "confidence": [0.5] * 15, "accuracy": [0.41] * 15} for name in (None, "t")}
    runs = [
        fake_run(tmp_path / "runs", f"method-{n}", measures={**MEASURES, "ece": 0.5 - n / 1000}, bins=bins)
        for n in range(300)
    ]
    page = write_page(summarise(runs), tmp_path / "report.html")
    assert page.stat().st_size < MOST
    drawn = figures(page)
    names = {trace["name"].split(",")[0] for trace in drawn["curve-ece"][""]["data"] if "name" in trace}
    assert names == {"method-0", *(f"method-{n}" for n in range(300 - N_MARKS + 1, 300))}
    assert len([name for name in drawn if name.startswith("reliability")]) == N_MARKS
    text = page.read_text(encoding="utf-8")
    assert f"show {N_MARKS} of 300 methods" in " ".join(text.split())
    assert text.count('<th scope="row">') >= 300


def test_a_packed_script_that_is_not_the_pages_own_does_not_run(tmp_path: Path) -> None:
    page = write_page(summarise([fake_run(tmp_path)]), tmp_path / "report.html")
    repack(page, "plotly", f"document.title = 'it ran'; {unpacked(page, 'plotly')}")
    document = drawn_page(page, tmp_path / "profile")
    assert "<title>it ran</title>" not in document
    assert "data-trouble=" in document.partition("<head>")[0]
