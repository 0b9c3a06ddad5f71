"""Choices of their own in every row: lists of different lengths, and sample files of lm-evaluation-harness."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.auditing import audit, compare_audits
from surefoot.errors import InputError
from tests.conftest import RunCommand

SAMPLES = next((Path(__file__).parent / "samples").glob("samples_sightings_*.jsonl"))


def ragged(n: int = 400, *, temperature: float = 0.5, seed: int = 0) -> tuple[list[list[float]], list[int]]:
    """Draw labels from the softmax of 2 to 5 logits, which are then divided by a temperature."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(n):
        z = 1.5 * rng.standard_normal(rng.integers(2, 6))
        labels.append(int((z + rng.gumbel(size=len(z))).argmax()))
        rows.append((z / temperature).tolist())
    return rows, labels


def shares(z: list[float]) -> np.ndarray:
    e = np.exp(np.array(z) - max(z))
    return e / e.sum()


def by_hand(rows: list[list[float]], labels: list[int], n_bins: int = 15) -> dict[str, float]:
    """Compute accuracy, NLL, Brier score and ECE row by row, without any padding."""
    p = [shares(z) for z in rows]
    top, hit = np.array([x.max() for x in p]), np.array([x.argmax() == y for x, y in zip(p, labels, strict=True)])
    bins = np.clip(np.ceil(top * n_bins) - 1, 0, None)
    ece = sum(abs((top - hit)[bins == b].sum()) for b in range(n_bins)) / len(p)
    brier = [(np.square(x).sum() - 2 * x[y] + 1) for x, y in zip(p, labels, strict=True)]
    nll = [-np.log(x[y]) for x, y in zip(p, labels, strict=True)]
    return {"accuracy": hit.mean(), "nll": np.mean(nll), "brier": np.mean(brier), "ece": ece}


def write(path: Path, rows: list[list[float]], labels: list[int], key: str = "logits") -> Path:
    if path.suffix == ".jsonl":
        lines = [json.dumps({key: z, "label": y}) for z, y in zip(rows, labels, strict=True)]
        path.write_text("\n".join(lines))
    elif path.suffix == ".json":
        path.write_text(json.dumps({key: rows, "labels": labels}))
    else:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        from pyarrow import parquet

        parquet.write_table(pa.table({key: rows, "label": labels}), path)
    return path


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "memory", "probs.jsonl", "percent.jsonl"])
def test_values_are_those_of_each_row_by_itself(ending: str, tmp_path: Path) -> None:
    rows, labels = ragged()
    if ending == "memory":
        found = sf.audit(logits=rows, labels=labels).audit
    elif ending == "probs.jsonl":
        found = sf.audit(write(tmp_path / ending, [shares(z).tolist() for z in rows], labels, "probs")).audit
    elif ending == "percent.jsonl":
        path = write(tmp_path / ending, [(100 * shares(z)).tolist() for z in rows], labels, "scores")
        found = sf.audit(path, percent=True).audit
    else:
        found = sf.audit(write(tmp_path / f"a.{ending}", rows, labels)).audit
    assert found.form == "choices"
    for key, value in by_hand(rows, labels).items():
        assert found.measures[key].estimate == pytest.approx(value, abs=1e-9), key
    assert found.repair is not None
    assert 1.7 < found.repair.temperature < 2.4  # 2 in truth
    assert found.verdict.finding == "over-confident"
    assert found.verdict.classes == ()
    assert "classwise_ece" not in found.measures


def test_absent_choices_stay_absent_at_any_temperature(tmp_path: Path) -> None:
    rows, labels = ragged(300, temperature=4.0)
    one = sf.audit(write(tmp_path / "a.jsonl", rows, labels)).audit
    padded = np.full((300, 5), -np.inf)
    for row, z in zip(padded, rows, strict=True):
        row[: len(z)] = z
    np.savez(tmp_path / "a.npz", logits=padded, labels=labels)
    two = sf.audit(tmp_path / "a.npz", form="choices").audit
    probs = write(tmp_path / "p.jsonl", [shares(z).tolist() for z in rows], labels, "probs")
    three = sf.audit(probs).audit
    for other in (two, three):
        assert one.repair is not None
        assert other.repair is not None
        assert other.repair.temperature == pytest.approx(one.repair.temperature, rel=1e-4)
        assert other.repair.nll == pytest.approx(one.repair.nll, rel=1e-6)
        assert other.verdict.ece.estimate == pytest.approx(one.verdict.ece.estimate, abs=1e-6)


def test_equally_many_choices_are_choices_where_it_is_said() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((200, 4)), rng.integers(0, 4, 200)
    classes, choices = (
        sf.audit(logits=logits, labels=labels).audit,
        sf.audit(logits=logits, labels=labels, form="choices").audit,
    )
    assert (classes.form, choices.form) == ("multiclass", "choices")
    assert choices.measures["ece"] == classes.measures["ece"]
    assert choices.measures["nll"] == classes.measures["nll"]
    assert "right one of 4 choices" in choices.took
    assert "classwise_ece" in classes.measures
    assert "classwise_ece" not in choices.measures


def test_two_choices_are_no_risk() -> None:
    rng = np.random.default_rng(0)
    found = sf.audit(logits=rng.standard_normal((100, 2)), labels=rng.integers(0, 2, 100), form="choices").audit
    assert found.two_classes is None


@pytest.mark.parametrize(
    ("rows", "labels", "options", "says"),
    [
        ([[1.0, 2.0], [0.5, 1.0, 2.0]], [0, 3], {}, "place of the right choice, counted from 0, but row 1 has 3 of 3"),
        ([[1.0, 2.0, 3.0], [0.5, 1.0]], [0, 2], {}, "but row 1 has 2 of 2 choices"),
        ([[1.0, 2.0], [0.5]], [0, 0], {}, "two choices or more in each, but row 1 has 1"),
        ([[1.0, 2.0], [0.5, float("nan"), 1.0]], [0, 0], {}, "1 of 2 rows has a gap"),
        ([[1.0, 2.0], [0.5, 2.0, 1.0]], [0, 0], {"form": "multiclass"}, "say --form choices if every row has choices"),
        ([[1.0, 2.0], [0.5, 2.0, 1.0]], [0, 0], {"class_names": ["a", "b", "c"]}, "as there are class names"),
        ([[1.0, 2.0], [0.5, 2.0, 1.0]], [0, 0], {"metrics": "classwise_ece"}, "no classes to compare. Leave it out"),
        ([[1.0, 2.0], [0.5, 2.0, 1.0]], [0, 0], {"positive": 1}, "Expected two classes with --positive"),
        ([[1.0, 2.0], [0.5, 2.0, 1.0]], [0, 0], {"form": "cards"}, "Expected --form to be multiclass, multilabel"),
    ],
)  # fmt: skip
def test_what_is_refused(rows: list[list[float]], labels: list[int], options: dict, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        sf.audit(logits=rows, labels=labels, **options)


def test_later_rows_of_another_length_are_refused_with_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[0.0, 1.0, 2.0]] * 30_000 + [[1.0, 2.0]] * 10  # beyond the first rows, which look like classes
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 1 << 14)
    path = write(tmp_path / "a.jsonl", rows, [0] * len(rows))
    with pytest.raises(InputError, match=r"row 30000 has 2 where others have 3 in a.jsonl.*--form choices"):
        sf.audit(path)
    assert sf.audit(path, form="choices").audit.n == len(rows)


def test_only_what_treats_all_columns_alike_is_fitted(tmp_path: Path) -> None:
    rows, labels = ragged(300)
    fitted = sf.calibrate(write(tmp_path / "a.jsonl", rows, labels))
    assert {each.name for each in fitted.comparison.candidates} == {"none", "temperature", "ets"}
    with pytest.raises(
        InputError, match=r"Expected temperature or ets for choices, but got 'vector': the columns mean"
    ):
        sf.calibrate(tmp_path / "a.jsonl", method="vector")
    fitted.save(tmp_path / "c.json")
    with pytest.raises(InputError, match=r"Expected scores of classes to repair, but b\.jsonl holds choices"):
        sf.repair(write(tmp_path / "b.jsonl", *ragged(50, seed=1)), tmp_path / "c.json", tmp_path / "out.jsonl")


# Sample files of lm-evaluation-harness.


def samples() -> list[dict]:
    return [json.loads(line) for line in SAMPLES.read_text().splitlines()]


def save(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(("way", "own"), [("none", "acc"), ("length", "acc_norm")])
def test_a_sample_file_is_recognised_and_agrees_with_its_own_accuracy(way: str, own: str) -> None:
    found = sf.audit(SAMPLES, normalise=way).audit
    rows = sorted(samples(), key=lambda row: row["doc_id"])
    scores = [[float(pair[0]) for pair in row["filtered_resps"]] for row in rows]
    if way == "length":
        sizes = [[len(choice) for choice in row["doc"]["choices"]] for row in rows]
        scores = [[s / k for s, k in zip(a, b, strict=True)] for a, b in zip(scores, sizes, strict=True)]
    for key, value in by_hand(scores, [row["doc"]["answer"] for row in rows]).items():
        assert found.measures[key].estimate == pytest.approx(value, abs=1e-9), key
    assert found.measures["accuracy"].estimate == pytest.approx(np.mean([row[own] for row in rows]))
    assert found.notes == ()
    assert ("not divided by length" if way == "none" else "characters of each choice") in found.took


def test_an_accuracy_beyond_all_numbers_is_left_out(tmp_path: Path) -> None:
    rows = [{**row, "acc": 10**400} for row in samples()]
    assert sf.audit(save(tmp_path / "samples_a.jsonl", rows)).audit.n == len(rows)
    rows[3]["filtered_resps"] = [[10**400, False], *rows[3]["filtered_resps"][1:]]
    with pytest.raises(InputError, match="Expected log-likelihoods, but doc_id"):
        sf.audit(save(tmp_path / "samples_a.jsonl", rows))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (None, "Expected a request per choice, but doc_id 9 has 0 for 4"),
        ([["q", " a"], 3, {}, []], "Expected the texts of every request under 'arguments', but doc_id 9 lacks one"),
        ("four", "Expected a request per choice"),
    ],
)
def test_requests_that_are_none_are_refused(arguments: object, text: str, tmp_path: Path) -> None:
    rows = [{**row, "arguments": arguments} for row in samples()]
    with pytest.raises(InputError, match=text):
        sf.audit(save(tmp_path / "samples_a.jsonl", rows))


def test_half_a_character_is_no_reason_to_fail(tmp_path: Path) -> None:
    rows = json.loads(json.dumps(samples()).replace("adder", "\\ud800dder"))
    path = save(tmp_path / "samples_a.jsonl", [{**row, "task": "\ud800"} for row in rows])
    assert sf.audit(path, normalise="bytes").audit.n == len(rows)


def test_bytes_differ_from_characters_where_choices_are_not_ascii(tmp_path: Path) -> None:
    rows = samples()
    for row in rows:
        for each in row["arguments"].values():
            each["arg_1"] = each["arg_1"].replace("e", "é")
    path = save(tmp_path / "samples_a.jsonl", rows)
    nll = {way: sf.audit(path, normalise=way).measures["nll"].estimate for way in ("none", "length", "bytes")}
    assert len(set(nll.values())) == 3


def test_tasks_of_a_folder_are_slices_and_are_pooled(tmp_path: Path) -> None:
    rows = samples()
    save(tmp_path / "m" / "samples_a_2026-01-01T00-00-00.1.jsonl", rows[:20])
    save(tmp_path / "m" / "samples_b_2026-01-01T00-00-00.1.jsonl", rows[20:])
    written = [{**row, "filtered_resps": ["42"], "resps": [["42"]]} for row in rows]
    save(tmp_path / "m" / "samples_c_2026-01-01T00-00-00.1.jsonl", written)
    found = sf.audit(tmp_path / "m").audit
    assert found.n == len(rows)
    assert {(each.column, each.value, each.verdict.n) for each in found.slices} == {
        ("task", "a", 20),
        ("task", "b", len(rows) - 20),
    }
    assert any("samples_c" in note and "generated texts" in note for note in found.notes)
    some = sf.audit(str(tmp_path / "m" / "samples_[ab]_*.jsonl")).audit
    assert some.verdict == found.verdict


def test_two_models_are_paired_by_doc_id(tmp_path: Path) -> None:
    rows = samples()
    others = [
        {**row, "filtered_resps": [[str(0.5 * float(ll)), greedy] for ll, greedy in row["filtered_resps"]]}
        for row in sorted(rows, key=lambda row: -row["doc_id"])
    ]
    for row in others:
        row.pop("acc_norm")
    both = compare_audits(SAMPLES, save(tmp_path / "samples_sightings.jsonl", others))
    assert both.differences["accuracy"].estimate == 0.0
    assert both.differences["confidence_gap"].estimate > 0
    with pytest.raises(InputError, match="Expected predictions for the same examples"):
        compare_audits(SAMPLES, save(tmp_path / "samples_sightings.jsonl", others[1:]))
    for row in others:
        row["doc_id"] += 1
    with pytest.raises(InputError, match="have other tasks or doc_ids"):
        compare_audits(SAMPLES, save(tmp_path / "samples_sightings.jsonl", others))


def test_targets_as_texts_as_places_and_by_acc(tmp_path: Path) -> None:
    plain = sf.audit(SAMPLES).audit
    rows = samples()
    by_text = [{**row, "target": row["doc"]["choices"][row["doc"]["answer"]]} for row in rows]
    found = sf.audit(save(tmp_path / "samples_a.jsonl", by_text)).audit
    assert found.verdict == plain.verdict
    assert "'target' as its text" in found.took
    two = [{**row, "target": "and so on", **_first_two(row)} for row in rows]
    found = sf.audit(save(tmp_path / "samples_b.jsonl", two)).audit
    assert "the right one of two by 'acc'" in found.took
    assert found.measures["accuracy"].estimate == pytest.approx(np.mean([row["acc"] for row in two]))
    several = [{**row, "target": "[0, 1]"} for row in rows]
    with pytest.raises(InputError, match="place or the text of one choice, but doc_id 0 has"):
        sf.audit(save(tmp_path / "samples_c.jsonl", several))


def _first_two(row: dict) -> dict:
    pairs = row["filtered_resps"][:2]
    arguments = dict(list(row["arguments"].items())[:2])
    return {"filtered_resps": pairs, "arguments": arguments, "acc": float(row["doc_id"] % 2)}


def test_a_place_that_is_also_a_text_is_told_by_acc_or_refused(tmp_path: Path) -> None:
    rows = []
    for number, row in enumerate(samples()):
        names = {f"gen_args_{k}": {"arg_0": "1 + 1 =", "arg_1": f" {k + 1}"} for k in range(3)}
        lls = [["-3", "False"], ["-1" if number % 3 else "-4", "True"], ["-2", "False"]]
        acc = float(number % 3 > 0)  # "2" is the text of the second choice, not the third
        rows.append({**row, "target": "2", "arguments": names, "filtered_resps": lls, "acc": acc})
    found = sf.audit(save(tmp_path / "samples_sums.jsonl", rows)).audit
    assert found.measures["accuracy"].estimate == pytest.approx(np.mean([row["acc"] for row in rows]))
    for row in rows:
        del row["acc"]
    path = save(tmp_path / "samples_sums.jsonl", rows)
    with pytest.raises(InputError, match=r"could be a place or the text of a choice.*--labels-are from-0 or names"):
        sf.audit(path)
    told = sf.audit(path, labels_are="names").audit.measures["accuracy"].estimate
    assert told == pytest.approx(np.mean([number % 3 > 0 for number in range(len(rows))]))


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    rows = samples()
    with pytest.raises(InputError, match="Expected every doc_id once, but "):
        sf.audit(save(tmp_path / "samples_a.jsonl", [*rows, rows[0]]))
    written = [{**row, "filtered_resps": ["forty-two"]} for row in rows]
    with pytest.raises(InputError, match=r"holds generated texts\. Audit a confidence"):
        sf.audit(save(tmp_path / "samples_a.jsonl", written))
    rows[3]["filtered_resps"][0][0] = "nan"
    with pytest.raises(InputError, match=rf"Expected log-likelihoods, but doc_id {rows[3]['doc_id']} has 'nan'"):
        sf.audit(save(tmp_path / "samples_a.jsonl", rows))
    with pytest.raises(InputError, match="Expected --normalise to be none, length, bytes, but got 'words'"):
        sf.audit(SAMPLES, normalise="words")
    with pytest.raises(InputError, match="Expected --normalise with samples of lm-evaluation-harness"):
        sf.audit(logits=[[0.0, 1.0]], labels=[0], normalise="length")
    flipped = [{**row, "acc": 1 - row["acc"]} for row in samples()]
    (found,) = audit(save(tmp_path / "samples_a.jsonl", flipped))
    assert found.notes == (f"In a the file's own acc says otherwise in {len(rows)} of {len(rows)} rows.",)


def test_the_command_line_says_what_was_read(run_command: RunCommand, tmp_path: Path) -> None:
    done = run_command("audit", str(SAMPLES), "--normalise", "length", "--out", str(tmp_path / "a.html"))
    assert done.returncode == 0, done.stderr
    assert "divided by the characters of each choice, as acc_norm has it; 'target' as the place" in done.stdout
    assert "rows of up to 5 choices" in done.stdout
    assert "worst class" not in done.stdout
    page = (tmp_path / "a.html").read_text()
    assert "Classes as a table" not in page
    assert "the choice it finds most likely" in page
