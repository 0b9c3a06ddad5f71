"""Coverage and sizes against counts by hand, flags for classes and groups, and the exact law of coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from surefoot.errors import InputError, SplitError
from surefoot.prediction_sets import PredictionSets, SetSums, coverage_range, fit_sets, measure_sets
from surefoot.prediction_sets._law import chance_of_so_few, chance_of_so_few_at
from surefoot.prediction_sets._quantile import rank_of
from surefoot.schema import Predictions
from tests.prediction_sets.made import drawn


def test_counts_are_those_by_hand() -> None:
    rows = drawn(500)
    sets = fit_sets(rows, "aps")
    new = drawn(300, seed=1)
    test = Predictions(new.logits, new.labels, "test")
    site = np.where(np.arange(300) % 3, "north", "south")
    found = measure_sets(sets, test, groups={"site": site})
    inside = sets.sets(logits=new.logits)
    hit, size = inside[np.arange(300), new.labels], inside.sum(1)
    assert found.n == 300
    assert found.coverage.estimate == pytest.approx(hit.mean())
    exact = stats.binomtest(int(hit.sum()), 300).proportion_ci(0.95, "exact")
    assert (found.coverage.low, found.coverage.high) == pytest.approx((exact.low, exact.high))
    assert found.mean_size.estimate == pytest.approx(size.mean())
    assert found.mean_size.high - found.mean_size.low == pytest.approx(2 * 1.959964 * size.std(ddof=1) / math.sqrt(300))
    assert (found.singletons, found.empty) == pytest.approx(((size == 1).mean(), (size == 0).mean()))
    assert dict(found.sizes) == pytest.approx({k: (size == k).mean() for k in np.unique(size).tolist()})
    for each in found.classes:
        part = new.labels == int(each.value)
        assert (each.n, each.coverage.estimate, each.mean_size) == pytest.approx((
            part.sum(),
            hit[part].mean(),
            size[part].mean(),
        ))
    for each in found.groups:
        part = site == each.value
        assert (each.column, each.n, each.coverage.estimate) == ("site", part.sum(), pytest.approx(hit[part].mean()))
    for each in found.by_size:
        low, _, high = each.value.partition("–")
        part = (size >= int(low)) & (size <= int(high or low))
        assert (each.n, each.coverage.estimate) == (part.sum(), pytest.approx(hit[part].mean()))
    assert sum(each.n for each in found.by_size) == 300
    assert found.p_value == pytest.approx(stats.betabinom(300, 451, 50).cdf(hit.sum()))  # k = ⌈501 · 0.9⌉ of 500
    assert found.holds


def test_rows_added_some_at_a_time_are_the_same() -> None:
    sets, new = fit_sets(drawn(100)), drawn(90, seed=2)
    whole, parts = SetSums(5), SetSums(5)
    inside, column = sets.sets(logits=new.logits), np.arange(90) % 4
    whole.add(inside, new.labels, groups={"g": column})
    for start in range(0, 90, 31):
        some = slice(start, start + 31)
        parts.add(inside[some], new.labels[some], groups={"g": column[some]})
    assert whole.measures(sets) == parts.measures(sets)


def test_weights_count_as_repeated_rows() -> None:
    sets, new = fit_sets(drawn(100)), drawn(80, seed=3)
    counts = np.random.default_rng(0).integers(0, 4, 80)
    site = np.arange(80) % 2
    weighted = Predictions(new.logits, new.labels, "test", weights=counts.astype(float))
    repeated = Predictions(np.repeat(new.logits, counts, 0), np.repeat(new.labels, counts), "test")
    a = measure_sets(sets, weighted, groups={"s": site}, weights_are="counts")
    b = measure_sets(sets, repeated, groups={"s": np.repeat(site, counts)})
    for one, other in zip((a, *a.classes, *a.groups), (b, *b.classes, *b.groups), strict=True):
        assert (one.coverage.estimate, one.coverage.low, one.coverage.high) == pytest.approx((
            other.coverage.estimate,
            other.coverage.low,
            other.coverage.high,
        ))
    assert a.mean_size.estimate == pytest.approx(b.mean_size.estimate)
    assert a.mean_size.low == pytest.approx(b.mean_size.low)
    assert dict(a.sizes) == pytest.approx(dict(b.sizes))
    as_shares = measure_sets(sets, weighted)
    assert as_shares.coverage.estimate == pytest.approx(a.coverage.estimate)
    assert as_shares.coverage.low < a.coverage.low  # Kish: fewer rows than the weights' sum
    assert as_shares.p_value is None


def test_a_group_that_is_covered_too_seldom_is_flagged_and_chance_is_not() -> None:
    sets = fit_sets(drawn(2000))
    new = drawn(2000, seed=4)
    labels = new.labels.copy()
    labels[:100] = np.random.default_rng(0).integers(0, 5, 100)  # one site has its labels drawn by lot
    groups = {"site": np.where(np.arange(2000) < 100, "broken", (np.arange(2000) % 19).astype(str))}
    found = measure_sets(sets, Predictions(new.logits, labels, "test"), groups=groups)
    assert [each.value for each in found.under if each.column] == ["broken"]
    by_value = {each.value: each for each in found.groups}
    raw = stats.binom(100, 0.9).cdf(round(100 * by_value["broken"].coverage.estimate))
    assert by_value["broken"].p_value == pytest.approx(20 * raw)  # Holm: the smallest of twenty
    flagged = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        inside = np.zeros((400, 5), bool)
        labels = rng.integers(0, 5, 400)
        inside[np.arange(400), labels] = rng.random(400) < 0.9
        sums = SetSums(5)
        sums.add(inside, labels, groups={"g": np.arange(400) % 20})
        flagged += any(each.under for each in sums.measures(sets).groups)
    assert flagged <= 18  # 5 % of 200 and three standard errors


def test_thresholds_per_class_cover_every_class() -> None:
    """One class is much harder: it pays for the others unless it has a threshold of its own."""
    rng = np.random.default_rng(0)

    def rows(n: int, split: str) -> Predictions:
        labels = rng.integers(0, 4, n)
        logits = np.where(labels == 0, 0.5, 4.0)[:, None] * np.eye(4)[labels] + rng.standard_normal((n, 4))
        return Predictions(logits, labels, split)  # type: ignore[arg-type]

    fit, test = rows(4000, "calibration"), rows(4000, "test")
    together = measure_sets(fit_sets(fit), test)
    assert together.holds
    assert together.under[0].value == "0"
    assert together.under[0].coverage.estimate < 0.75
    apart = measure_sets(fit_sets(fit, per_class=True), test)
    assert not apart.under
    assert min(each.coverage.estimate for each in apart.classes) > 0.87
    assert apart.p_value is None


@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("method", ["lac", "aps", "raps:k_reg=1,lam=0.05"])
def test_coverage_follows_the_exact_law(n: int, method: str) -> None:
    """Over sets of rows to fit on, the coverage is Beta(k, n + 1 − k); of 50 new rows, the hits are beta-binomial."""
    repeats, new_rows = 400, 50
    pool = drawn(100_000, 4, seed=n)
    rng = np.random.default_rng(n)
    true_scores = None
    coverages, hits = [], []
    for _ in range(repeats):
        chosen = rng.integers(0, 100_000, n + new_rows)
        sets = fit_sets(pool.rows(chosen[:n]), method)
        if true_scores is None:  # the same seed each time, so one pass through the pool serves all
            true_scores = np.sort(_true_scores(sets, pool))
        coverages.append(np.searchsorted(true_scores, sets.thresholds[0], side="right") / len(true_scores))
        test = pool.rows(chosen[n:])
        hits.append(int(sets.sets(logits=test.logits)[np.arange(new_rows), test.labels].sum()))
    k = rank_of(n, 0.9)
    law = stats.beta(k, n + 1 - k)
    assert stats.kstest(coverages, law.cdf).pvalue > 0.001
    assert np.mean(coverages) == pytest.approx(law.mean(), abs=4 * law.std() / math.sqrt(repeats))
    counts = stats.betabinom(new_rows, k, n + 1 - k)
    assert np.mean(hits) == pytest.approx(counts.mean(), abs=4 * counts.std() / math.sqrt(repeats))
    assert np.var(hits) == pytest.approx(counts.var(), rel=0.3)
    low, high = coverage_range(n, 0.9)
    assert np.mean([low <= each <= high for each in coverages]) == pytest.approx(0.95, abs=0.03)
    p_values = [chance_of_so_few(each, new_rows, n, 0.9) for each in hits]
    assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)


def _true_scores(sets: PredictionSets, rows: Predictions) -> np.ndarray:
    from surefoot.prediction_sets.sets import score
    from tests.prediction_sets.made import softmax

    return score(sets.method, softmax(rows.logits), sets.seed)[np.arange(len(rows.labels)), rows.labels]


def test_the_law_is_scipys() -> None:
    for hits, rows, n, coverage in ((40, 50, 30, 0.9), (0, 3, 19, 0.95), (899, 1000, 100, 0.9), (50, 50, 30, 0.9)):
        k = rank_of(n, coverage)
        assert chance_of_so_few(hits, rows, n, coverage) == pytest.approx(stats.betabinom(rows, k, n + 1 - k).cdf(hits))
        assert chance_of_so_few_at(hits, rows, coverage) == pytest.approx(stats.binom(rows, coverage).cdf(hits))
    assert chance_of_so_few(1, 10, 5, 0.9) == 1.0
    assert coverage_range(5, 0.9) == (1.0, 1.0)
    exact = chance_of_so_few(898_000, 1_000_000, 1000, 0.9)
    assert chance_of_so_few(898_001, 1_000_001, 1000, 0.9) == pytest.approx(exact, abs=0.02)


def test_sets_are_never_measured_on_the_rows_they_were_fitted_on() -> None:
    rows = drawn(50)
    sets = fit_sets(rows)
    with pytest.raises(SplitError, match="these are of the calibration split too: coverage would flatter"):
        measure_sets(sets, rows)
    test = Predictions(rows.logits, rows.labels, "test")
    with pytest.raises(InputError, match="Expected one value of 'g' per row, but got another number"):
        measure_sets(sets, test, groups={"g": np.zeros(3)})
    with pytest.raises(InputError, match="Expected at most 50 groups, but 'g' has more values"):
        measure_sets(sets, Predictions(drawn(60).logits, drawn(60).labels, "test"), groups={"g": np.arange(60)})
    with pytest.raises(InputError, match="Expected rows to measure sets on, but there are none that count"):
        measure_sets(sets, test.rows(slice(0)))
    one = measure_sets(sets, test.rows(slice(1)))
    assert (one.n, one.mean_size.known) == (1, False)
