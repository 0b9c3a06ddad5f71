"""Sets against loops, exact quantiles, ties, weights, files, and everything that is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.calibrators import Temperature, fit_temperature
from surefoot.errors import InputError, OptionError, SplitError, UnknownNameError
from surefoot.prediction_sets import PredictionSets, compare_sets, fit_sets, load_sets, load_sets_about
from surefoot.prediction_sets._draws import draws_of
from surefoot.prediction_sets._quantile import rank_of, threshold
from surefoot.schema import Predictions
from surefoot.seeding import generator
from tests.prediction_sets.made import drawn, slow_sets, softmax

NEW = drawn(200, seed=9)
METHODS = {
    "lac": {},
    "aps": {},
    "aps:randomised=false": {"randomised": False},
    "raps:k_reg=2,lam=0.05": {"k_reg": 2, "lam": 0.05},
    "raps:k_reg=1,lam=0.2,randomised=false": {"k_reg": 1, "lam": 0.2, "randomised": False},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(("n", "coverage"), [(300, 0.9), (57, 0.8), (99, 0.07)])
def test_sets_are_those_of_a_loop(method: str, per_class: bool, n: int, coverage: float) -> None:
    rows = drawn(n)
    sets = fit_sets(rows, method, coverage=coverage, per_class=per_class)
    name = method.partition(":")[0]
    slow = slow_sets(name, rows, NEW.logits, coverage, seed=sets.seed, per_class=per_class, **METHODS[method])
    np.testing.assert_array_equal(sets.sets(logits=NEW.logits), slow)
    np.testing.assert_array_equal(sets.sets(softmax(NEW.logits)), slow)
    assert sets.name == name


@pytest.mark.parametrize("coverage", [0.07, 0.29, 0.5, 0.57, 0.9, 0.95, 0.99])
def test_the_rank_is_exact_and_too_few_rows_leave_all_classes_in(coverage: float) -> None:
    percent = round(100 * coverage)
    for n in (1, 2, 8, 9, 18, 19, 98, 99, 100, 199, 999):
        assert rank_of(n, coverage) == -(-(n + 1) * percent // 100)  # whole numbers only
        limit = threshold(np.arange(1.0, n + 1), coverage)
        assert limit == (math.inf if rank_of(n, coverage) > n else rank_of(n, coverage))


def test_too_few_rows_are_said() -> None:
    few = fit_sets(drawn(8))
    assert few.thresholds == (math.inf,)
    assert few.sets(logits=NEW.logits).all()
    assert few.notes == ("8 rows are too few for sets of 90 %: at least 9 are needed. Every set holds all classes.",)
    assert fit_sets(drawn(9)).notes == ()
    by_class = fit_sets(drawn(40), per_class=True, coverage=0.9)
    assert any(math.isinf(limit) for limit in by_class.thresholds)
    assert "classes have too few rows for 90 %, at least 9 are needed, and are in every set: " in by_class.notes[0]
    for k, limit in enumerate(by_class.thresholds):
        assert math.isinf(limit) == (by_class.rows[k] < 9)
        assert by_class.sets(logits=NEW.logits)[:, k].all() == math.isinf(limit)


def test_ties_are_kept_in() -> None:
    """All rows alike: the threshold is their score, and every class as likely is in the set."""
    rows = Predictions(np.log(np.full((20, 4), 0.25)), np.arange(20) % 4, "calibration")
    assert fit_sets(rows, "lac").sets([[0.25] * 4, [0.1, 0.3, 0.3, 0.3]]).tolist() == [
        [True] * 4,
        [False, True, True, True],
    ]


def test_weights_that_are_counts_are_repeated_rows() -> None:
    rows = drawn(80)
    counts = np.random.default_rng(1).integers(0, 4, 80)
    weighted = Predictions(rows.logits, rows.labels, "calibration", weights=counts.astype(float))
    repeated = Predictions(np.repeat(rows.logits, counts, 0), np.repeat(rows.labels, counts), "calibration")
    for method in ("lac", "aps", "raps:k_reg=1,lam=0.1"):
        for per_class in (False, True):
            options = {"per_class": per_class, "coverage": 0.8}
            found = fit_sets(weighted, method, weights_are="counts", **options)
            assert found.thresholds == fit_sets(repeated, method, **options).thresholds
            slow = slow_sets(
                found.name,
                rows,
                NEW.logits,
                0.8,
                seed=found.seed,
                per_class=per_class,
                repeat=counts.tolist(),
                **({"k_reg": 1, "lam": 0.1} if found.name == "raps" else {}),
            )
            np.testing.assert_array_equal(found.sets(logits=NEW.logits), slow)


def test_importance_weights_do_not_depend_on_their_scale_and_equal_ones_change_nothing() -> None:
    rows = drawn(200)
    weights = np.random.default_rng(2).gamma(2.0, size=200)
    fits = [
        fit_sets(Predictions(rows.logits, rows.labels, "calibration", weights=each))
        for each in (weights, 7 * weights, np.full(200, 0.1))
    ]
    assert fits[0].thresholds == fits[1].thresholds
    assert fits[2].thresholds == fit_sets(rows).thresholds
    assert "Rows were weighted" in fits[0].notes[0]
    # by hand: the first score at which the weights reach 0.9 of all of them and of the largest once more
    scores = -softmax(rows.logits)[np.arange(200), rows.labels]
    order = np.argsort(scores)
    reached = np.cumsum(weights[order]) >= 0.9 * (weights.sum() + weights.max())
    assert fits[0].thresholds == (scores[order][reached.argmax()],)
    heavy = np.where(np.arange(200) == 0, 1000.0, 1.0)
    lost = fit_sets(Predictions(rows.logits, rows.labels, "calibration", weights=heavy))
    assert lost.thresholds == (math.inf,)
    assert "200 rows are too few for sets of 90 %: one of them counts too much" in lost.notes[0]


def test_weighted_sets_cover_the_rows_that_weights_stand_for() -> None:
    """Hard rows are three times as frequent among new rows as among those to fit on."""
    covered = {True: [], False: []}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        sharp = np.where(np.arange(400) < 100, 0.3, 4.0)[:, None]  # 25 % are hard, where 50 % are to come
        logits = sharp * rng.standard_normal((400, 4))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
        weights = np.where(np.arange(400) < 100, 3.0, 1.0)
        sharp = np.where(np.arange(400) < 200, 0.3, 4.0)[:, None]
        new = sharp * rng.standard_normal((400, 4))
        truth = (new + rng.gumbel(size=new.shape)).argmax(1)
        for used in (True, False):
            rows = Predictions(logits, labels, "calibration", weights=weights if used else None)
            covered[used].append(fit_sets(rows).sets(logits=new)[np.arange(400), truth].mean())
    assert np.mean(covered[True]) == pytest.approx(0.9, abs=0.008)
    assert np.mean(covered[False]) < 0.88


def test_draws_belong_to_the_row_and_are_uniform() -> None:
    probs = softmax(drawn(4000).logits)
    draws = draws_of(probs, 3)
    order = np.random.default_rng(0).permutation(4000)
    np.testing.assert_array_equal(draws_of(probs[order], 3), draws[order])
    assert not np.intersect1d(draws, draws_of(probs, 4)).size
    counts, _ = np.histogram(draws, 20, (0, 1))
    assert ((counts - 200) ** 2 / 200).sum() < 43.8  # χ² with 19 degrees of freedom, 0.999
    assert abs(np.corrcoef(draws, probs.max(1))[0, 1]) < 0.05
    swapped = probs[:, [1, 0, 2, 3, 4]]
    assert not np.intersect1d(draws, draws_of(swapped, 3)).size


@pytest.mark.parametrize("method", ["aps:randomised=false", "raps:k_reg=1,lam=0.1,randomised=false"])
@pytest.mark.parametrize("sharp", [0.5, 2.0, 8.0])
def test_without_chance_no_set_is_empty_and_coverage_is_kept(method: str, sharp: float) -> None:
    sets, new = fit_sets(drawn(2000, sharp=sharp), method), drawn(4000, sharp=sharp, seed=1)
    inside = sets.sets(logits=new.logits)
    assert inside[np.arange(4000), new.logits.argmax(1)].all()
    assert inside[np.arange(4000), new.labels].mean() > 0.88


def test_options_of_raps_are_chosen_on_rows_that_no_threshold_is_taken_from() -> None:
    rows = drawn(500, 10)
    sets = fit_sets(rows, "raps")
    assert sets.n == 400
    options = dict(piece.split("=") for piece in sets.method.partition(":")[2].split(","))
    order = torch.randperm(500, generator=_after_seed()).numpy()
    chosen = np.sort(order[:100])
    probs = softmax(rows.logits[chosen])
    ranks = sorted(1 + int((row > row[y]).sum()) for row, y in zip(probs, rows.labels[chosen], strict=True))
    assert int(options["k_reg"]) == ranks[rank_of(100, 0.9) - 1]
    part = Predictions(rows.logits[chosen], rows.labels[chosen], "calibration")
    sizes = {}
    for lam in ("0.001", "0.01", "0.1", "0.2", "0.5"):
        slow = slow_sets("raps", part, part.logits, 0.9, seed=sets.seed, k_reg=int(options["k_reg"]), lam=float(lam))
        sizes[lam] = np.sum(slow)
    assert sizes[options["lam"]] == min(sizes.values())
    again = fit_sets(rows, "raps:k_reg=3")
    assert "k_reg=3" in again.method
    assert again.n == 400
    assert fit_sets(rows, "raps:k_reg=3,lam=0.01").n == 500
    with pytest.raises(
        InputError, match="Expected at least 45 rows, to choose options of raps on a fifth of them, but"
    ):
        fit_sets(drawn(40), "raps")


def _after_seed() -> torch.Generator:
    source = generator(0, "prediction sets")
    torch.randint(2**62, (1,), generator=source)
    return source


def test_a_set_behind_a_calibrator_takes_the_same_way_when_it_is_used(tmp_path: Path) -> None:
    rows, other = drawn(400, off=0.3), drawn(400, seed=5, off=0.3)
    temperature = fit_temperature(other)
    sets = fit_sets(rows, "aps", calibrator=temperature)
    by_hand = fit_sets(Predictions(temperature.logits(rows.logits), rows.labels, "calibration"), "aps")
    new = drawn(50, seed=7, off=0.3).logits
    np.testing.assert_array_equal(sets.sets(logits=new), by_hand.sets(logits=temperature.logits(new)))
    sets.save(tmp_path / "sets.json")
    assert load_sets(tmp_path / "sets.json").calibrator == temperature
    with pytest.raises(SplitError, match="fitted on 'calibration', the one to be scored"):
        temperature(rows)  # what was calibrated on a split is no prediction for it


def test_sets_are_saved_and_read_back_without_pickle(tmp_path: Path) -> None:
    rows = Predictions(drawn(60).logits, drawn(60).labels, "calibration", class_names=("a", "b", "c", "d", "é"))
    for method, per_class in (("lac", False), ("aps", True), ("raps", False)):
        sets = fit_sets(rows, method, per_class=per_class, calibrator=Temperature(2.0, "train"))
        sets.save(tmp_path / "new" / "sets.json", about={"x": 1})
        assert load_sets(tmp_path / "new" / "sets.json") == sets
        assert load_sets_about(tmp_path / "new" / "sets.json") == {"x": 1}
        assert hash(sets) == hash(load_sets(tmp_path / "new" / "sets.json"))
    text = json.loads((tmp_path / "new" / "sets.json").read_text())
    (tmp_path / "half.json").write_text(json.dumps({**text, "thresholds": [0.1, 0.2], "rows": [3, 4]}))
    (tmp_path / "other.json").write_text(json.dumps(Temperature(2.0, "train").to_json()))
    (tmp_path / "list.json").write_text("[]")
    for name, says in {
        "half.json": "Expected one threshold, or one for each of 5 classes, but got 2",
        "other.json": "Expected saved prediction sets, but got calibrator, temperature, fitted_on. Fit them again",
        "list.json": "Expected saved prediction sets, but list.json holds none",
        "none.json": "Expected saved prediction sets, but none.json holds none",
    }.items():
        with pytest.raises(InputError, match=says):
            load_sets(tmp_path / name)
    with pytest.raises(InputError, match=r"Expected a file name in \.json, but got 'sets.pkl'"):
        sets.save(tmp_path / "sets.pkl")


def test_names_are_in_order_and_rows_come_as_anything() -> None:
    sets = PredictionSets("lac", 0.9, (-0.2,), (99,), 3, "calibration", ("cat", "dog", "bird"))
    rows = [[0.25, 0.7, 0.05], [0.1, 0.1, 0.8]]
    assert sets.names(rows) == [["dog", "cat"], ["bird"]]
    for given in (np.array(rows), torch.tensor(rows), torch.tensor(rows).half()):
        assert sets.sets(given).shape == (2, 3)
    assert sets.sets(rows[:1]).tolist() == [[True, True, False]]
    assert sets.sets(np.empty((0, 3))).shape == (0, 3)


def test_choices_that_a_row_does_not_have_are_never_in_its_set() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((60, 4))
    logits[::2, 3:] = -np.inf
    rows = Predictions(logits, rng.integers(0, 3, 60), "calibration", form="choices")
    for method in ("lac", "aps", "raps"):
        inside = fit_sets(rows, method).sets(logits=logits)
        assert not inside[::2, 3].any()
        assert fit_sets(rows.rows(slice(5)), "lac").sets(logits=logits)[1].all()
    with pytest.raises(InputError, match=r"but these are choices\. Leave it out"):
        fit_sets(rows, per_class=True)
    with pytest.raises(InputError, match="Expected the true choice among those of its row, but row 0 does not have it"):
        fit_sets(Predictions(logits, np.full(60, 3), "calibration", form="choices"))


BAD = {
    "split": (SplitError, "Expected the calibration split to fit sets on, but got 'test'"),
    "multilabel": (InputError, "Expected one true class per row for prediction sets, but in multilabel rows several"),
    "confidence": (InputError, "a confidence and whether it was right name no classes"),
    "nan": (InputError, "Expected finite logits, but row 3 has nan"),
    "labels": (InputError, r"Expected labels in 0…4, but got 0 to 7\. Number the classes from 0"),
    "empty": (InputError, "Expected predictions of at least two classes to fit sets on, but got 0 of 5"),
    "one class": (InputError, "Expected predictions of at least two classes to fit sets on, but got 20 of 1"),
    "negative weight": (InputError, "Expected weights that are not negative, but row 2 has -1.0"),
    "no weight": (InputError, "Expected a weight above 0, but all are 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fitted_on_is_refused(case: str) -> None:
    rows = drawn(20)
    logits, labels, weights = rows.logits.copy(), rows.labels.copy(), np.ones(20)
    more = {"form": case} if case in ("multilabel", "confidence") else {}
    labels = np.zeros((20, 5)) if case == "multilabel" else labels
    if case == "nan":
        logits[3, 0] = np.nan
    if case == "labels":
        labels[:2] = 0, 7
    if case == "empty":
        logits, labels, weights = logits[:0], labels[:0], weights[:0]
    if case == "one class":
        logits, labels = logits[:, :1], np.zeros(20, int)
    weights = {"negative weight": np.where(np.arange(20) == 2, -1.0, 1.0), "no weight": 0 * weights}.get(case, weights)
    error, says = BAD[case]
    with pytest.raises(error, match=says):
        fit_sets(Predictions(logits, labels, "test" if case == "split" else "calibration", weights=weights, **more))


def test_wrong_options_are_refused() -> None:
    rows = drawn(60)
    with pytest.raises(OptionError, match=r"Expected a coverage between 0 and 1, but got 90\. 0\.9 is usual"):
        fit_sets(rows, coverage=90)
    with pytest.raises(UnknownNameError, match=r"Unknown conformal score 'lacc'. Did you mean 'lac'"):
        fit_sets(rows, "lacc")
    with pytest.raises(OptionError, match="Unknown option 'k' for 'raps', which takes k_reg, lam, randomised"):
        fit_sets(rows, "raps:k=2")
    with pytest.raises(OptionError, match=r"Expected k_reg ≥ 0 and lam ≥ 0 for raps, but got -1 and 0\.1"):
        fit_sets(rows, "raps:k_reg=-1,lam=0.1")
    with pytest.raises(InputError, match="Expected weights to be importance or counts, but got 'frequency'"):
        fit_sets(rows, weights_are="frequency")  # type: ignore[arg-type]


def test_what_no_set_can_be_made_of_is_refused() -> None:
    sets = fit_sets(drawn(60))
    for given, says in (
        (
            {"probs": [[0.5, 0.5]]},
            r"Expected probs \(n, 5\), one column for each class that the sets were fitted on, but",
        ),
        ({"logits": [0.1] * 5}, r"Expected logits \(n, 5\), one column for each class .* but got \(5,\)"),
        (
            {"probs": [[0.2] * 5, [np.nan] * 5]},
            "Expected probabilities that are not negative and sum to 1, but row 1 has",
        ),
        ({"probs": NEW.logits}, "Correct it, or leave it out. Pass logits as logits="),
        ({"logits": [[0, 1, 2, 3, np.inf]]}, "Expected finite logits, but row 0 has 0, 1, 2, 3"),
        ({}, "Expected probs or logits, but got both or none"),
        ({"probs": [["a"] * 5]}, r"Expected probs \(n, 5\)"),
    ):
        with pytest.raises(InputError, match=says):
            sets.sets(**given)


def test_the_smallest_sets_are_chosen() -> None:
    found = compare_sets(drawn(600, 8))
    assert found.best == found.candidates[0].method == "lac"
    assert {each.method for each in found.candidates} == {"lac", "aps", "raps"}
    sizes = [each.mean_size.estimate for each in found.candidates]
    assert sizes == sorted(sizes)
    assert found.reason.startswith(f"the smallest sets on rows it was not fitted on: {sizes[0]:.2f} classes on average")
    for each in found.candidates:
        assert each.coverage.estimate == pytest.approx(0.9, abs=0.03)
    few = compare_sets(drawn(30))
    assert few.left_out == ("raps",)
    with pytest.raises(InputError, match=r"Expected at least 12 rows to compare scores in 5 parts, but got 11\. Say"):
        compare_sets(drawn(11))


def test_cross_fitted_sizes_are_those_of_a_loop() -> None:
    rows = drawn(100)
    order = torch.randperm(100, generator=generator(0, "set folds")).numpy()
    size = hits = 0
    for fold in np.array_split(order, 5):
        fold = np.sort(fold)
        rest = rows.rows(np.delete(np.arange(100), fold))
        inside = np.array(slow_sets("lac", rest, rows.logits[fold], 0.9, seed=0))
        size += inside.sum()
        hits += inside[np.arange(20), rows.labels[fold]].sum()
    (found,) = compare_sets(rows, ["lac"]).candidates
    assert (found.mean_size.estimate, found.coverage.estimate) == (size / 100, hits / 100)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", [{}]),
        ("seed", None),
        ("n_classes", 3.5),
        ("thresholds", ["a"]),
        ("coverage", 2.0),
        ("class_names", [1]),
    ],
)
def test_saved_sets_whose_values_cannot_be_are_refused(key: str, value: object) -> None:
    values = PredictionSets("lac", 0.9, (-0.25,), (99,), 3, "calibration").to_json()
    with pytest.raises(InputError, match=f"Expected saved prediction sets, but {key} cannot be right"):
        PredictionSets.from_json({**values, key: value})
