"""Rows read in parts, whatever the parts: what they merge to is the audit of all rows at once."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot as sf
from surefoot.auditing import Audit, _reading, _walking, audit, audit_part, compare_audits
from surefoot.auditing._asked import Asked
from surefoot.auditing._confidence_counts import Cells
from surefoot.auditing._counted import ValueSums
from surefoot.auditing._engine import HERE, M, Step
from surefoot.auditing._labels_read import collect_labels
from surefoot.auditing._repair import rescore
from surefoot.auditing._sampling import Sample, digest
from surefoot.auditing._slicing import slicing_of
from surefoot.errors import InputError
from surefoot.sources import open_predictions
from surefoot.sources.plan import count_rows
from surefoot.sources.source import Raw, Source
from tests.auditing.made import made, softmax, write
from tests.auditing.same import differences, test_differences_are_seen

__all__ = ["test_differences_are_seen"]
N = 240


class Cut:
    """Cuts the rows at some places, walks through each part, and merges in an order of its own."""

    def __init__(self, cuts: Sequence[int], order: Sequence[int] = ()) -> None:
        self.cuts, self.order = sorted(set(cuts)), order
        self.walks = 0

    def walk(self, source: Source, step: Step[M], on_rows: Any = None) -> M:
        self.walks += 1
        parts = [rows_of(source, a or 0, b) for a, b in pairwise([0, *self.cuts, None])]
        if source.weights_are == "counts":  # numbered as the rows that they stand for
            before = [0, *accumulate(map(count_rows, parts))]
            parts = [replace(part, first_row=start) for part, start in zip(parts, before, strict=False)]
        found = [step(part, None) for part in parts]
        for place in self.order:  # neighbours or not
            if len(found) > 1:
                other = found.pop(place % len(found))
                found[place % len(found)].merge(other)
        first, *rest = found
        for other in rest:
            first.merge(other)
        return first


def rows_of(source: Source, first: int, last: int | None) -> Source:
    """Consecutive rows of any source, numbered as they are among all."""

    def start() -> Generator[Raw]:
        done = 0
        for raw in source.start():
            rows = raw.numbered(done)
            done = int(rows[-1]) + 1
            kept = (rows >= first) & (rows < (done if last is None else last))
            if kept.any():
                yield raw.chosen(kept, rows - first)

    return replace(source, start=start, start_groups=None, first_row=first, is_part=True)


def _several(rng: np.random.Generator) -> dict[str, Any]:
    probs = rng.random((N, 3))
    return {"probs": probs, "labels": (rng.random((N, 3)) < probs**1.3).astype(int)}


def _tokens(rng: np.random.Generator) -> dict[str, Any]:
    logits, labels = made(N, temperature=0.5)
    labels[rng.random(N) < 0.2] = -100
    return {"logits": logits.reshape(8, N // 8, 3), "labels": labels.reshape(8, N // 8)}


@functools.cache
def predictions(form: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows in memory, and what is said about them."""
    rng = np.random.default_rng(3)
    logits, labels = made(N, temperature=0.5)
    rows: dict[str, Any] = {"logits": logits, "labels": labels}
    sites = np.array(["oslo", "lima", "bonn"])[rng.integers(3, size=N)]
    ages = rng.integers(20, 90, N)
    two = softmax(made(N, 2, temperature=0.7)[0])
    return {
        "classes": ({**rows, "site": sites}, {"groups": ("site",), "risk": 0.3}),
        "numbers": ({**rows, "age": ages, "site": sites}, {"groups": ("age:3", "site*age:2", "age")}),
        "two": ({"probs": two[:, 1], "labels": (rng.random(N) < two[:, 1]).astype(int)}, {}),
        "weights": ({**rows, "weight": rng.random(N) * 3, "site": sites}, {"groups": ("site",), "risk": 0.3}),
        "counts": ({**rows, "weight": rng.integers(0, 4, N)}, {"weights_are": "counts", "risk": 0.3}),
        "choices": (
            {"logits": [rng.normal(size=2 + k % 3).tolist() for k in range(N)], "labels": rng.integers(0, 2, N)},
            {"form": "choices"},
        ),
        "confidence": ({"confidence": rng.random(N), "correct": rng.random(N) < 0.6}, {}),
        "tokens": (_tokens(rng), {}),
        "several": (_several(rng), {"form": "multilabel"}),
        "gaps": (
            {"logits": np.where(rng.random((N, 3)) < 0.02, np.nan, logits), "labels": labels},
            {"skip_missing": True},
        ),
    }[form]


FORMS = ("classes", "numbers", "two", "weights", "counts", "choices", "confidence", "tokens", "several", "gaps")


def left_behind(form: str, engine: Any) -> dict[str, Any]:
    """Walk through the rows as an audit does; return all sums, counts and samples that are the basis of its numbers."""
    rows, told = predictions(form)
    risk = told.get("risk")
    (source,) = open_predictions(rows, **{name: value for name, value in told.items() if name != "risk"})
    if form == "several":
        read = engine.walk(source, partial(collect_labels, n_bins=15)).finish(source)
        sums = {"bins": read.stream.bins, "products": read.stream.products, **read.losses}
        return {"sums": plain(sums), "exact": plain([read.stream.n, read.logits, read.labels, read.folds])}
    slicing = slicing_of(source, engine)
    found = engine.walk(source, Asked(risk=risk).step(source, "rows", slicing)).finish(source)
    pair = engine.walk(source, partial(rescore, pair=(0.7, 1.6), n_bins=15, where="rows", wide=False))
    sums = {
        **{"bins": found.bins, "classes": found.class_bins if found.by_class else None, "scored": pair.bins},
        **{"values": found.values, "wrong": found.of_wrong, "slices": found.slices, "losses": pair.losses},
        **{"class_slices": found.class_slices, "weights": [found.weighing.total, found.weighing.squares]},
    }
    exact = [found.n, found.n_classes, found.impossible, found.labels_digest, found.weighing.digest]
    samples = [found.logits, found.labels, found.folds, found.confidence, found.correct, found.weights]
    cells = None if found.counts is None else found.counts.total.counts.nonzero()
    return {"sums": plain(sums), "exact": plain([*exact, *samples, cells, slicing.notes])}


def plain(value: Any) -> Any:
    """Make lists and numbers of it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if hasattr(value, "sums"):
        return plain(value.sums)
    if isinstance(value, ValueSums):
        return [value.n, value.total, value.squares, value.weight, list(value.powers)]
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


@functools.cache
def all_at_once(form: str) -> dict[str, Any]:
    return left_behind(form, HERE)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=5), order=st.lists(st.integers(0, 5), max_size=3))
def test_any_partition_leaves_the_same_behind(form: str, cuts: list[int], order: list[int]) -> None:
    found, whole = left_behind(form, Cut(cuts, order)), all_at_once(form)
    assert found["exact"] == whole["exact"]
    assert differences(whole["sums"], found["sums"]) == []


@functools.cache
def audited(form: str) -> dict[str, Any]:
    rows, told = predictions(form)
    (found,) = audit(rows, **{name: value for name, value in told.items() if name != "groups"})
    return found.to_json()


@pytest.mark.parametrize("form", ["classes", "two", "weights", "counts", "choices", "confidence", "several", "gaps"])
@settings(max_examples=3, deadline=None, derandomize=True)
@given(cuts=st.sets(st.integers(1, N - 1), min_size=1, max_size=4), shuffle=st.randoms(use_true_random=False))
def test_parts_that_were_read_elsewhere_merge_to_the_same_json(form: str, cuts: set[int], shuffle: Random) -> None:
    rows, told = predictions(form)
    told = {name: value for name, value in told.items() if name != "groups"}
    parts, start = [], 0
    for first, last in pairwise([0, *sorted(cuts), N]):
        here = {name: values[first:last] for name, values in rows.items()}
        parts.append(pickle.loads(pickle.dumps(audit_part(here, start=start, **told))))
        start += int(here["weight"].sum()) if form == "counts" else last - first
    shuffle.shuffle(parts)
    assert differences(audited(form), Audit.merge(parts).to_json()) == []


def test_a_merge_leaves_the_parts_as_they_were() -> None:
    rows, told = predictions("several")
    halves = [{name: values[some] for name, values in rows.items()} for some in (slice(0, 90), slice(90, N))]
    parts = [audit_part(half, start=start, **told) for half, start in zip(halves, (0, 90), strict=True)]
    first, second = (Audit.merge(parts).to_json() for _ in range(2))
    assert first == second
    assert first["n"] == N


def test_tokens_in_parts_give_the_same_json() -> None:
    rows, _ = predictions("tokens")
    some = [{name: values[here] for name, values in rows.items()} for here in (slice(0, 1), slice(1, 5), slice(5, 8))]
    parts = [audit_part(each, start=30 * k) for each, k in zip(some, (0, 1, 5), strict=True)]
    found = Audit.merge(parts)
    assert found.notes == ("58 of 240 rows with the label -100 were left out: such labels do not count.",)
    assert differences(audited("tokens"), found.to_json()) == []


def test_parts_of_files_are_read_again_to_score_a_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walking, "room_for", lambda *_: 60)
    logits, labels = made(N, temperature=0.5)
    one = sf.audit(write(tmp_path / "all.csv", logits, labels)).audit
    paths = [write(tmp_path / f"{k}.csv", logits[k : k + 80], labels[k : k + 80]) for k in (0, 80, 160)]
    parts = [pickle.loads(pickle.dumps(sf.audit_part(path, start=80 * k))) for k, path in enumerate(paths)]
    found = sf.AuditReport.merge(parts, name="all.csv").audit
    assert differences(one.to_json(), found.to_json()) == []
    assert found.repair is not None
    assert "drawn at random" not in found.repair.fitted_on
    paths[1].unlink()
    alone = sf.AuditReport.merge(parts).audit
    assert alone.file == "0.csv and 2 more"
    assert alone.verdict.ece.estimate == pytest.approx(one.verdict.ece.estimate, abs=1e-12)
    assert alone.repair is not None
    assert alone.repair.fitted_on.endswith("both on 60 rows drawn at random")


def test_a_sample_smaller_than_the_rows_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walking, "MOST_RANKED", 50)
    monkeypatch.setattr(_walking, "room_for", lambda *_: 70)
    one, two = left_behind("weights", HERE), left_behind("weights", Cut([3, 90, 91, 200], [2, 1]))
    assert len(one["exact"][5]) == 70
    assert len(one["exact"][8]) == 50
    assert one["exact"] == two["exact"]


def test_a_vocabulary_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 10_001)).astype(np.float32), rng.integers(0, 10_001, 60)
    logits[np.arange(60), labels] += 12
    rows = {"logits": logits, "labels": labels}
    (one,), (two,) = audit(rows), audit(rows, engine=Cut([1, 30]))
    assert differences(one.to_json(), two.to_json()) == []


def test_two_files_are_paired_in_parts(tmp_path: Path) -> None:
    logits, labels = made(N, temperature=0.5)
    a, b = write(tmp_path / "a.npz", logits, labels), write(tmp_path / "b.npz", logits / 2, labels)
    one = compare_audits(a, b)
    two = sf.auditing.audit_several(a, b, engine=Cut([100])).comparison
    assert differences(one.to_json(), two.to_json()) == []


@settings(max_examples=25, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 400), max_size=6), room=st.integers(1, 80))
def test_samples_and_digests_do_not_depend_on_parts(cuts: list[int], room: int) -> None:
    rows = np.arange(400)
    one, parts = Sample("rows"), [Sample("rows") for _ in range(len(cuts) + 1)]
    one.add(room, rows, rows)
    places = np.split(rows, sorted(cuts))
    for part, some in zip(parts, places, strict=True):
        part.add(room, some, some)
    first, *rest = reversed(parts)
    for other in rest:
        first.merge(other)
    assert first.taken()[0].tolist() == one.taken()[0].tolist()
    labels = rows % 7
    assert sum(digest(some, labels[some]) for some in places) % 2**64 == digest(rows, labels)
    swapped = labels.copy()
    swapped[[3, 11]] = swapped[[11, 3]]
    assert digest(rows, swapped) != digest(rows, labels)


def test_weighted_rows_are_kept_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from surefoot.auditing import _confidence_counts

    rng = np.random.default_rng(0)
    cell, wrong, half, rows = (
        rng.integers(0, 900, 3000),
        rng.random(3000) < 0.2,
        rng.integers(0, 2, 3000),
        np.arange(3000),
    )
    weights = rng.random(3000) * np.linspace(0.1, 4, 3000)
    for most in (200_000, 300):  # fewer than are kept
        monkeypatch.setattr(_confidence_counts, "_MOST_KEPT", most)
        one, parts = Cells("all"), [Cells("all") for _ in range(4)]
        one.add(cell, wrong, half, rows, weights, counts=False)
        for part, some in zip(parts, np.array_split(rows, 4), strict=True):
            part.add(cell[some], wrong[some], half[some], some, weights[some], counts=False)
        last, *rest = reversed(parts)
        for other in rest:
            last.merge(other)
        assert (one.counts == last.counts).all()
        assert one.counts.sum() == (
            most if most == 300 else pytest.approx(3000 * weights.mean() / weights.max(), rel=0.1)
        )


def test_labels_in_another_order_are_other_examples(tmp_path: Path) -> None:
    logits, labels = made(40)
    a = write(tmp_path / "a.npz", logits, labels)
    b = write(tmp_path / "b.npz", logits[::-1], labels[::-1])
    with pytest.raises(InputError, match="have other labels"):
        compare_audits(a, b)


def part(start: int = 0, **more: Any) -> Any:
    logits, labels = made(40)
    return audit_part({"logits": logits, "labels": labels}, start=start, **more)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (lambda: [], "Expected parts of an audit, but got none"),
        (lambda: [part(), part()], r"Expected parts of different rows, but row 0 is in two of them\. Say with start="),
        (lambda: [part(), part(39)], "row 39 is in two of them"),
        (lambda: [part(), part(40, n_bins=10)], "Expected the same options for all parts"),
        (
            lambda: [part(), audit_part({"probs": softmax(made(40)[0]), "labels": made(40)[1]}, start=40)],
            "but kind is 'logits' in .* and 'probs' in",
        ),
        (
            lambda: [part(), audit_part(dict(zip(("logits", "labels"), made(40, 4), strict=True)), start=40)],
            "Expected as many classes in all parts, but .* has 3 and .* 4",
        ),
        (lambda: [part(-1)], "Expected start ≥ 0"),
    ],
    ids=["none", "the same rows", "one row in both", "other options", "other kind", "other classes", "below 0"],
)
def test_what_cannot_be_merged(parts: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Audit.merge(parts())


def test_parts_that_only_all_rows_could_divide_are_refused(tmp_path: Path) -> None:
    rows, _ = predictions("numbers")
    for groups in (("age:3",), ("age",)):
        with pytest.raises(InputError, match="Expected groups of at most 50 values in parts of an audit, but age"):
            audit_part(rows, groups=groups)
    few = [{**{k: v[s] for k, v in rows.items()}} for s in (slice(0, 40), slice(40, 80))]
    ages = [{**each, "age": np.arange(40) + 100 * k} for k, each in enumerate(few)]
    parts = [audit_part(each, start=40 * k, groups=("age",)) for k, each in enumerate(ages)]
    with pytest.raises(InputError, match="Expected groups of at most 50 values"):
        Audit.merge(parts)
    logits, labels = made(60)
    both = {"val_logits": logits, "val_labels": labels, "test_logits": logits, "test_labels": labels}
    np.savez(tmp_path / "both.npz", **both)
    with pytest.raises(InputError, match="holds a calibration and a test set"):
        audit_part(tmp_path / "both.npz")
    with pytest.raises(InputError, match="Expected options of an audit of one part, but got engine"):
        sf.audit_part(rows, engine="ray")


def test_spans_that_follow_each_other_are_one() -> None:
    assert _reading.join_spans([(0, 4)], [(5, 9)]) == [(0, 9)]
    assert _reading.join_spans([(6, 9)], [(0, 4)]) == [(0, 4), (6, 9)]
