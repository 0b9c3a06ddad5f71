"""The page's part about curvature, margins and certificates."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from surefoot.experiment import run as run_spec
from surefoot.records import RunFolder
from surefoot.report.curves import Curve, read_curves
from surefoot.report.dynamics import read_path
from surefoot.report.figures import curve_figure
from surefoot.report.marks import mark_of
from surefoot.report.pairing import HELD_OUT, ON_TEST, PHASES, correlations, read_moments, read_pair
from surefoot.report.quantities import QUANTITIES
from surefoot.report.sharpness_figure import sharpness_figure
from surefoot.report.tracks import tracks_of
from surefoot.schema import Tracking
from surefoot.statistics import correlate, effective_size, pearson, spearman
from surefoot.statistics.series import _drawn_ranks
from surefoot.studies.compare import make_spec
from surefoot.trackers import read_track
from tests.report.browser import drawn_page
from tests.report.test_page import figures, make, read
from tests.runs import fake_run


def watched_run(folder: Path, method: str = "sgd", seed: int = 0, shift: int = 0) -> RunFolder:
    """A run whose sharpness rises by one per step and whose ECE is a fixed 0.1."""
    run = fake_run(folder, method, seed, epochs=10)
    records = []
    for step in range(shift, 101, 10):
        sharp = {"gn_sharpness/value": 1.0 + step, "gn_sharpness/held_out": 1.0, "gn_sharpness/two_over_lr": 20.0}
        records.append({"step": step, "epoch": step // 10, "tracker": "gn_sharpness", **sharp})
    path = {f"path/kappa_min@{t}": -t for t in (0, 0.5, 1)}
    records.append({"step": 100, "epoch": 10, "tracker": "path", **path, "path/bound": -3.0})
    bound = {"test/certificate_ece": 0.1, "test/certificate_bound": 0.4, "test/margin_median": -0.5}
    records.append({"step": 100, "epoch": 10, "tracker": "certificate", **bound})
    run.append_steps([{"seed": seed, **record} for record in records])
    return run


def test_all_figures_are_on_the_page(tmp_path: Path) -> None:
    runs = [watched_run(tmp_path, method, seed) for method in ("sgd", "sam") for seed in (0, 1)]
    page = make(tmp_path, runs)
    drawn = figures(page)
    places = {
        "curve-sharpness",
        "curve-margin_median",
        "curve-phase-train",
        "curve-phase-test",
        "curve-path",
        "curve-certificate",
    }
    assert places <= set(drawn)
    assert places <= set(read(page).ids())
    lines = drawn["curve-sharpness"][""]["data"]
    assert [line["name"] for line in lines] == [f"{m}, {k}" for m in ("sgd", "sam") for k in ("Gauss–Newton", "2/η")]
    assert lines[0]["y"][-1] == 101
    assert lines[1]["y"] == [20.0] * 11
    assert len(drawn["curve-phase-train"][""]["data"]) == 4
    assert drawn["curve-phase-train"][""]["data"][0]["marker"]["color"][-1] == 100
    assert drawn["curve-path"][""]["data"][0]["y"] == [0, -0.5, -1]
    ticks = drawn["curve-certificate"][""]["layout"]["yaxis"]["ticktext"]
    assert "10%" in ticks  # in percent, as every other ECE on the page
    assert drawn["curve-path"][""]["data"][1]["y"] == [-3.0] * 3
    assert "Do ECE, sharpness and margins go together?" in page.read_text(encoding="utf-8")


def test_without_trackers_there_is_no_such_part(tmp_path: Path) -> None:
    page = make(tmp_path, [fake_run(tmp_path, "sgd")])
    assert "along training</h2>" not in page.read_text(encoding="utf-8")
    assert not {"curve-phase-train", "curve-sharpness"} & set(figures(page))


def test_runs_measured_at_different_steps_are_averaged_between_their_own(tmp_path: Path) -> None:
    """As a budget makes them."""
    curve = read_curves(tracks_of([watched_run(tmp_path, "sgd", 0), watched_run(tmp_path, "sgd", 1, shift=5)]))[
        "gn_sharpness/value"
    ]
    assert curve.n_runs == 2
    assert curve.epochs[:4] == (0.0, 0.5, 1.0, 1.5)
    assert curve.mean[:4] == pytest.approx([1, 6, 11, 16])
    assert (curve.low[2], curve.high[2]) == pytest.approx((11, 11))


def test_moments_at_which_both_were_measured_are_paired(tmp_path: Path) -> None:
    (found,) = read_moments(tracks_of([watched_run(tmp_path)]), "gn_sharpness/value", "test/ece")
    assert found.exact
    assert found.steps == tuple(range(0, 101, 10))
    assert found.x == tuple(1.0 + step for step in found.steps)
    assert set(found.y) == {0.1}
    assert read_moments(tracks_of([fake_run(tmp_path / "plain", "sgd")]), "gn_sharpness/value", "test/ece") == []
    assert read_path(tracks_of([fake_run(tmp_path / "other", "sgd")])) == []


def test_what_is_read_off_between_measurements_is_said_to_be(tmp_path: Path) -> None:
    run = watched_run(tmp_path, shift=5)
    (found,) = read_moments(tracks_of([run]), "gn_sharpness/value", "test/ece")
    assert not found.exact
    assert found.steps == (10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert found.x == pytest.approx([1.0 + step for step in found.steps])
    text = make(tmp_path, [run]).read_text(encoding="utf-8")
    assert "sharpness read off between its own" in text
    assert "at the same moment" not in text


def test_train_goes_with_train_and_test_with_test(tmp_path: Path) -> None:
    """Sharpness is taken where the error is: up and down on training examples, rising on test examples."""
    run = fake_run(tmp_path, epochs=10, quality=False)
    both = ("train", 0.5), ("test", -1.0)
    records = [
        {
            "step": step,
            "tracker": "made",
            "gn_sharpness/value": 3.0 + (-1) ** (step // 9),
            "gn_sharpness/held_out": 7.0,
            "sharpness_on_test/value": float(step),
            **{f"{split}/ece": 0.2 + slope * step / 1000 for split, slope in both},
            **{f"{split}/margin_median": slope * step for split, slope in both},
        }
        for step in range(1, 101, 9)
    ]
    run.append_steps(records)
    method = ("sgd", mark_of(0), tracks_of([run]))
    found = {(each.split, each.words): each for each in correlations([method])}
    assert [key[0] for key in found] == ["train", "test", "train", "test", "train"]
    assert found["test", "ECE and sharpness on test examples"].pearson.value == pytest.approx(-1)
    assert abs(found["train", "ECE and sharpness on training examples"].pearson.value) < 0.5
    assert ("train", "ECE and median margin") in found
    assert ("test", "ECE and median margin") in found
    assert ("train", "median margin and sharpness on training examples") in found
    assert read_pair(PHASES[1], tracks_of([run]))[0] == ON_TEST
    assert read_pair(PHASES[1], tracks_of([watched_run(tmp_path / "older")]))[0] == HELD_OUT
    text = make(tmp_path, [run]).read_text(encoding="utf-8")
    assert "ECE and sharpness on test examples" in text
    older = make(tmp_path / "older", [watched_run(tmp_path / "older")]).read_text(encoding="utf-8")
    assert "sharpness outside the probe, but not on test examples" in older


@pytest.fixture(scope="module")
def falling(small_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A real run whose learning rate goes to 0, with momentum."""
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=30, batch_size=16, schedule="cosine")
    track = read_track("quality,margins,gn_sharpness:every=2,examples=32,sharpness_on_test:examples=32")
    return run_spec(spec, tmp_path_factory.mktemp("falling") / "run", tracking=Tracking(track))


def test_the_axis_of_sharpness_is_that_of_what_was_measured(falling: RunFolder) -> None:
    """Its limit grows without bound as the learning rate goes to 0, and would press the curves to the ground."""
    curves = read_curves(tracks_of([falling]))
    measured = [v for key in ("gn_sharpness/value", "sharpness_on_test/value") for v in curves[key].mean]
    limit = curves["gn_sharpness/threshold"].mean
    assert max(limit) > 100 * max(measured)
    figure = sharpness_figure([("sgd", mark_of(0), curves)])
    assert figure is not None
    low, high = (10**end for end in figure["layout"]["yaxis"]["range"])
    assert low < min(measured)
    assert max(measured) < high
    assert math.log(high / low) < 1.3 * math.log(max([*measured, min(limit)]) / min(measured))
    ticks = figure["layout"]["yaxis"]["tickvals"]
    assert sum(low <= tick <= high for tick in ticks) >= 2
    assert figure["layout"]["xaxis"]["range"] == pytest.approx([-0.6, 30.6])  # 30 epochs, whatever the words' length
    (said,) = figure["layout"]["annotations"]
    assert said["text"] == f"(2 + 2β)/η leaves ↑ up to {float(f'{max(limit):.2g}'):,.0f}"
    leaves = next(
        epoch for epoch, value in zip(curves["gn_sharpness/threshold"].epochs, limit, strict=True) if value > high
    )
    assert said["x"] == leaves


def test_the_limit_knows_of_momentum(falling: RunFolder, tmp_path: Path) -> None:
    curves = read_curves(tracks_of([falling]))
    lines = {line["name"]: line for line in sharpness_figure([("sgd", mark_of(0), curves)])["data"]}
    assert lines["sgd, (2 + 2β)/η"]["y"][0] == pytest.approx(3.8 / 0.1)  # β = 0.9, η = 0.1
    assert "sgd, 2/η" not in lines
    older = read_curves(tracks_of([watched_run(tmp_path)]))
    assert "sgd, 2/η" in {line["name"] for line in sharpness_figure([("sgd", mark_of(0), older)])["data"]}
    text = make(tmp_path, [falling]).read_text(encoding="utf-8")
    assert "Dashed: (2 + 2β)/η" in text


def test_a_limit_far_above_all_curves_stays_outside() -> None:
    flat = Curve((0.0, 1.0), (1.0, 2.0), (1.0, 2.0), (1.0, 2.0), 1)
    for height, inside in ((6.0, True), (500.0, False)):
        line = Curve((0.0, 1.0), (height, height), (height, height), (height, height), 1)
        curves = {"gn_sharpness/value": flat, "gn_sharpness/two_over_lr": line}
        layout = sharpness_figure([("a", mark_of(0), curves), ("b", mark_of(1), curves)])["layout"]
        assert (10 ** layout["yaxis"]["range"][1] > height) == inside
        assert len(layout["annotations"]) == (0 if inside else 1)  # both methods share it


@pytest.mark.parametrize("ties", [False, True])
def test_coefficients_are_scipys(ties: bool) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, 30))
    if ties:
        x, y = x.round(), y.round()
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])


def test_the_interval_of_independent_walks_is_wider_with_blocks_than_without() -> None:
    """Two unrelated slow series look correlated; drawing single points would make that look sure."""
    draw = np.random.default_rng(1)
    noise = draw.normal(size=(2, 200))
    walks = noise.copy()
    for t in range(1, 200):
        walks[:, t] = 0.95 * walks[:, t - 1] + noise[:, t]
    slow, quick = (correlate([(list(pair[0]), list(pair[1]))], pearson) for pair in (walks, noise))
    assert slow.high is not None
    assert slow.low is not None
    assert quick.high is not None
    assert quick.low is not None
    assert slow.high - slow.low > 1.5 * (quick.high - quick.low)
    assert quick.low < quick.value < quick.high


@pytest.mark.parametrize(("phi", "rho"), [(0.5, 0.0), (0.95, 0.0), (0.95, 0.6)])
def test_intervals_of_slow_series_hold_the_truth_as_often_as_they_say(phi: float, rho: float) -> None:
    """Of 60 true 95 % intervals fewer than 52 hold in less than 1 of 200 cases; blocks alone hold 78 % at φ = .95."""
    draw = np.random.default_rng(0)
    held = 0
    for _ in range(60):
        walks = draw.normal(size=(2, 320))
        walks[1] = rho * walks[0] + math.sqrt(1 - rho**2) * walks[1]
        for t in range(1, 320):
            walks[:, t] += phi * walks[:, t - 1]
        x, y = walks[:, 200:].tolist()
        found = correlate([(x, y)], pearson)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= rho <= found.high
    assert held >= 52


def test_runs_that_differ_in_level_count_for_little() -> None:
    """Points of a run share its level, so two runs far apart are not hundreds of independent points."""
    noise = np.random.default_rng(0).normal(size=(2, 2, 100))
    together = effective_size(list(noise))
    apart = effective_size([noise[0], noise[1] + 50])
    assert together > 150
    assert apart < 6


def test_effective_size_of_slow_series() -> None:
    """For AR(1) it is about n (1 − φ²) / (1 + φ²)."""
    noise = np.random.default_rng(0).normal(size=(2, 20_000))
    for t in range(1, 20_000):
        noise[:, t] += 0.8 * noise[:, t - 1]
    assert effective_size([noise]) == pytest.approx(20_000 * 0.36 / 1.64, rel=0.15)


def test_ranks_share_ties() -> None:
    x = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    assert spearman(x, np.array([4.0, 1.0, 4.0, 2.0, 4.0])) == pytest.approx(1)
    assert spearman(x, np.arange(5.0)) == pytest.approx(pearson(np.array([4.0, 1.0, 4.0, 2.0, 4.0]), np.arange(5.0)))


def test_ranks_of_what_was_drawn_are_those_of_sorting_it() -> None:
    draw = np.random.default_rng(0)
    values, places = draw.integers(0, 9, 50).astype(float), draw.integers(0, 50, (20, 50))
    assert (_drawn_ranks(values, places) == stats.rankdata(values[places], axis=1)).all()


def test_too_little_to_correlate() -> None:
    assert math.isnan(correlate([], pearson).value)
    few = correlate([([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])], spearman)
    assert (few.value, few.low) == (1.0, None)
    assert math.isnan(correlate([([1.0] * 9, [float(i) for i in range(9)])], pearson).value)


def test_a_browser_draws_it_all(tmp_path: Path) -> None:
    page = make(tmp_path, [watched_run(tmp_path, method) for method in ("sgd", "sam")])
    text = drawn_page(page, tmp_path / "profile")
    assert "data-trouble=" not in text
    assert f'data-drawn="{len(figures(page))}"' in text


def test_axes_leave_out_the_untrained_network_and_nothing_else() -> None:
    """Under a budget the first look may come late, and belongs to the picture."""
    values = (0.1, 0.8, 0.9)
    quantity = QUANTITIES["accuracy"]
    for epochs, lowest in ((0.0, 1.0, 2.0), 0.8), ((17.0, 28.0, 40.0), 0.1):
        curve = Curve(epochs, values, values, values, n_runs=1)
        figure = curve_figure(quantity, [("sgd", mark_of(0), {"test/accuracy": curve})])
        assert figure is not None
        low, high = figure["layout"]["yaxis"]["range"]
        assert lowest - 0.1 < low < lowest
        assert high > 0.9
