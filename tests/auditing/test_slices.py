"""Slices: how rows are divided, and the correction for how many were looked at."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.auditing import _slicing
from surefoot.auditing._slices import judge_slices
from surefoot.errors import InputError
from surefoot.metrics import Stream, top_label
from surefoot.metrics.shares import gap_of_sums
from surefoot.statistics import holm, p_value
from tests.auditing.made import made, softmax, write


def audited(group: object, n: int = 1200, **columns: object) -> object:
    logits, labels = made(n)
    return sf.audit({"logits": logits, "labels": labels, **columns}, group=group, metrics="nll").audit


def values_of(found: object, column: str) -> set[str]:
    return {each.value for each in found.slices if each.column == column}


def test_numbers_are_divided_into_parts_with_as_many_rows() -> None:
    age = np.random.default_rng(0).integers(18, 90, 1200)
    found = audited("age", age=age)
    sizes = [each.verdict.n for each in found.slices]
    assert len(sizes) == 5
    assert sum(sizes) == 1200
    assert max(sizes) - min(sizes) < 60
    edges = np.quantile(age, [0.2, 0.4, 0.6, 0.8], method="inverted_cdf").astype(int)
    inner = {f"{low + 1} to {high}" for low, high in itertools.pairwise(edges)}
    assert values_of(found, "age") == {f"up to {edges[0]}", *inner, f"above {edges[-1]}"}
    for each in found.slices:
        if each.value.startswith("up to"):
            assert each.verdict.n == (age <= edges[0]).sum()
    assert found.notes[-1] == "age holds 72 different numbers: in 5 parts with about as many rows in each."


def test_parts_can_be_asked_for_and_gaps_are_a_slice_of_their_own() -> None:
    weight = np.where(np.arange(1200) % 10 == 0, np.nan, np.linspace(0.5, 1.7, 1200))
    found = audited("weight:3", weight=weight)
    assert values_of(found, "weight:3") == {"up to 0.899", "0.899 to 1.3", "above 1.3", "(missing)"}
    few = audited(["k", "k:2"], k=np.arange(1200) % 8)
    assert values_of(few, "k") == {str(k) for k in range(8)}
    assert values_of(few, "k:2") == {"up to 3", "above 3"}
    same = audited("k:4", k=np.ones(1200))
    assert values_of(same, "k:4") == {"all"}


def test_columns_are_crossed_in_files_and_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sex, age = rng.choice(["f", "m"], 1200), rng.integers(18, 90, 1200)
    found = audited({"sex*age:2": (sex, age), "site": np.repeat(["a", "b"], 600)})
    middle = int(np.quantile(age, 0.5, method="inverted_cdf"))
    assert values_of(found, "sex*age:2") == {f"{s} × {part} {middle}" for s in "fm" for part in ("up to", "above")}
    assert values_of(found, "site") == {"a", "b"}
    women = next(each for each in found.slices if each.value == f"f × above {middle}")
    assert women.verdict.n == ((sex == "f") & (age > middle)).sum()
    logits, labels = made(1200)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels, sex=sex, age=age)
    read = sf.audit(tmp_path / "a.npz", group=["sex*age:2", "sex"], metrics="nll").audit
    assert values_of(read, "sex*age:2") == values_of(found, "sex*age:2")
    path = write(tmp_path / "a.csv", logits, labels, sites=["n*s"] * 1200)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0].replace("site", "a*b"), *lines[1:]]))
    assert values_of(sf.audit(path, group="a*b", metrics="nll").audit, "a*b") == {"n*s"}  # the name of a column wins


def test_rare_values_are_together_and_a_column_of_names_is_refused() -> None:
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, 201) ** 1.5
    city = rng.choice([f"c{i}" for i in range(200)], 1200, p=share / share.sum())
    found = audited("city", city=city)
    names, counts = np.unique(city, return_counts=True)
    kept = set(names[np.argsort(-counts, kind="stable")][:40])  # the 49th may be one of several as frequent
    assert len(found.slices) == 50
    assert kept <= values_of(found, "city")
    assert "(other)" in values_of(found, "city")
    assert sum(each.verdict.n for each in found.slices) == 1200
    assert f"Of {len(names):,} values of city the 49 most frequent have slices of their own" in found.notes[-1]
    ids = np.array([f"patient {i}" for i in range(1200)])
    with pytest.raises(
        InputError, match=r"at most 50 slices, but 'id' has 1,200 values .* hold 4 % of the rows\. Group"
    ):
        audited("id", id=ids)
    with pytest.raises(InputError, match=r"Expected numbers to divide into 4 parts, but 'city' holds others"):
        audited("city:4", city=city)
    with pytest.raises(InputError, match=r"Expected 2 to 20 parts, but got 1 in --group k:1"):
        audited("k:1", k=np.ones(1200))
    with pytest.raises(InputError, match="Expected a column 'town', but"):
        audited("city*town", city=city)


def test_many_combinations_are_put_together() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 12, 1200), rng.choice(list("vwxyz"), 1200, p=[0.6, 0.2, 0.1, 0.05, 0.05])
    found = audited("a*b", a=a, b=b)
    assert len(found.slices) == 50
    assert sum(each.verdict.n for each in found.slices) == 1200
    assert "combinations of a*b the 49 most frequent" in found.notes[-1]


def test_many_different_values_are_not_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_slicing, "TRACKED", 100)
    x = np.random.default_rng(0).standard_normal(1200)
    assert "x holds more than 100 different numbers: in 5 parts" in audited("x", x=x).notes[-1]
    with pytest.raises(InputError, match=r"'id' has more than 100 values in arrays\. Group by"):
        audited("id", id=np.array([f"p{i}" for i in range(1200)]))


def test_arrays_of_groups_need_predictions_in_memory(tmp_path: Path) -> None:
    logits, labels = made(40)
    path = write(tmp_path / "a.npz", logits, labels)
    with pytest.raises(InputError, match="Expected names of columns as group= beside a file, but got arrays"):
        sf.audit(path, group={"site": ["a"] * 40})
    with pytest.raises(InputError, match=r"Expected 2 arrays for the group 'a\*b', but got 3"):
        sf.audit(logits=logits, labels=labels, group={"a*b": (labels, labels, labels)})
    with pytest.raises(InputError, match="Expected columns of one length"):
        sf.audit(logits=logits, labels=labels, group={"a": labels[:3]})


class Read:
    """What judging slices asks of a reading."""

    def __init__(self, streams: dict[str, Stream]) -> None:
        self.slices = {"k": streams}


def judged(logits: np.ndarray, labels: np.ndarray, k: np.ndarray) -> list[object]:
    streams = {}
    for value in np.unique(k):
        stream = streams[str(value)] = Stream("ece")
        stream.update(torch.from_numpy(softmax(logits[k == value])), torch.from_numpy(labels[k == value]))
    return list(judge_slices(Read(streams), 0.95, None))


def test_p_values_are_holms_of_both_looks() -> None:
    logits, labels = made(3000)
    k = np.arange(3000) % 3
    logits[k == 1] *= 2.5
    slices = {each.value: each for each in judged(logits, labels, k)}
    for value, each in slices.items():
        rows = k == int(value)
        confidence, right = top_label(torch.from_numpy(softmax(logits[rows])), torch.from_numpy(labels[rows]))
        assert each.gap.estimate == pytest.approx((confidence - right.double()).mean().item())
        assert each.gap.level == pytest.approx(1 - 0.05 / 3)
    assert slices["1"].finding == "over-confident"
    assert slices["1"].off
    assert {slices[v].finding for v in "02"} == {"within chance"}
    streams = {v: Stream("ece") for v in "012"}
    for v, stream in streams.items():
        stream.update(torch.from_numpy(softmax(logits[k == int(v)])), torch.from_numpy(labels[k == int(v)]))
    raw = [min(1.0, 2 * p_value(lambda at, v=v: 0.0 not in gap_of_sums(streams[v].sums, at))) for v in "012"]  # type: ignore[misc]
    for v, upper in zip("012", holm(raw), strict=True):
        assert slices[v].p_value <= upper + 1e-9  # a second look can only find more


def test_calibrated_slices_are_seldom_called_off() -> None:
    """Ten that are all calibrated: one is said to be off in at most about 5 % of audits, uncorrected far more often."""
    off = plain = 0
    for seed in range(25):
        logits, labels = made(1000, seed=seed)
        found = judged(logits, labels, np.arange(1000) % 10)
        off += any(each.off for each in found)
        plain += any(each.verdict.finding != "calibrated" for each in found)
    assert off <= 4  # of 25; more has a probability of 1 % at exactly 5 %
    assert plain >= 6


def test_small_slices_are_not_called_fine() -> None:
    logits, labels = made(3000)
    k = np.where(np.arange(3000) < 40, "small", "large")
    slices = {each.value: each.finding for each in judged(logits, labels, k)}
    assert slices == {"large": "within chance", "small": "too few to tell"}
    report = sf.audit(logits=logits, labels=labels, group={"k": k}, metrics="nll")
    assert report.audit.slices_sentence() == (
        "of 2 slices looked at, none is off after Holm's correction; 1 has too few examples to tell"
    )
    one = sf.audit(logits=logits[:5], labels=labels[:5], group={"k": k[:5]}, metrics="nll").audit
    assert one.slices_sentence() == "the only slice is not shown to be off; 1 has too few examples to tell"


def test_slices_of_a_risk() -> None:
    logits, labels = made(4000, 2)
    site = np.repeat(["a", "b", "c", "d"], [1900, 1900, 190, 10])
    logits[site == "b", 1] += 1
    found = {each.value: each for each in audited_two(logits, labels, site)}
    assert found["b"].finding == "overstated"
    assert found["a"].finding == "within chance"
    assert found["d"].finding == "too few to tell"
    p = softmax(logits)[:, 1]
    for value, each in found.items():
        assert each.gap.estimate == pytest.approx(p[site == value].mean() - labels[site == value].mean())


def audited_two(logits: np.ndarray, labels: np.ndarray, site: np.ndarray) -> list[object]:
    return list(sf.audit(logits=logits, labels=labels, group={"site": site}, metrics="nll").audit.slices)


def test_slices_of_a_folder_know_all_its_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for part in range(2):
        logits, labels = made(300, seed=part)
        write(tmp_path / f"{part}.parquet", logits, labels, sites=[f"{300 * part + i}" for i in range(300)])
    found = sf.audit(str(tmp_path / "*.parquet"), group="site:2", metrics="nll").audit
    assert {each.value: each.verdict.n for each in found.slices} == {"up to 299": 300, "above 299": 300}
