from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.atomic import remove_left, replacing
from surefoot.errors import BusyError, InputError
from surefoot.records import RunFolder, find_runs
from surefoot.records.environment import environment
from surefoot.schema import Predictions, Rows
from surefoot.studies.compare import make_spec
from tests.runs import fake_run

SPEC = make_spec("csam", seed=4)
ECE: dict[str, object] = {"split": "test", "calibrator": None, "metric": "ece", "value": 0.1}


def started(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.begin(SPEC, "abc", {"fingerprint": "f"}, environment(1, "cpu"))
    return folder


def test_a_folder_gives_back_what_was_written(tmp_path: Path) -> None:
    folder = started(tmp_path / "run")
    folder.append_steps([{"step": 1, "loss": 0.5}])
    folder.add_seconds(1, 0.25)
    folder.add_seconds(2, 0.5)
    folder.write_measures([ECE])
    logits, names = np.array([[0.5, 1.5]], np.float32), ("cat", "dog")
    folder.write_predictions(Predictions(logits, np.array([1]), "test", class_names=names))
    again = RunFolder(tmp_path / "run")
    assert (again.run_id, again.spec, again.data) == ("abc", SPEC, {"fingerprint": "f"})
    assert again.steps() == [{"step": 1, "loss": 0.5}]
    assert again.seconds() == 0.75
    assert again.measures() == [ECE]
    assert again.predictions("test").logits.tolist() == [[0.5, 1.5]]
    assert again.predictions("test").class_names == names
    assert again.done() is None
    again.finish({"passes": 3, "seconds": 1.0})
    assert again.done() == {"passes": 3, "seconds": 1.0}


VALUES = st.floats(allow_nan=False) | st.text() | st.none() | st.integers()
NAMES = st.text().filter(lambda name: "/" not in name)  # those with a slash are of numbers


@given(
    st.lists(st.builds(lambda record, step: {**record, "step": step}, st.dictionaries(NAMES, VALUES), st.integers(0)))
)
def test_records_survive_the_disk(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]) -> None:
    folder = started(tmp_path_factory.mktemp("run"))
    folder.append_steps(records)
    assert folder.steps() == records


def test_a_torn_line_is_not_read_and_a_cut_forgets(tmp_path: Path) -> None:
    folder = started(tmp_path)
    size = folder.append_steps([{"step": 1}])
    folder.append_steps([{"step": 2}])
    with (tmp_path / "steps.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "lo')
    assert folder.steps() == [{"step": 1}, {"step": 2}]
    folder.cut_back(size, 1)
    assert folder.steps() == [{"step": 1}]


def test_a_torn_timing_blocks_nothing_and_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    folder, timing = started(tmp_path), tmp_path / "timing.jsonl"
    folder.add_seconds(1, 0.25)
    for torn in (b'{"step": 2, "sec', b'{"step": 2, "sec{"step": 3}\n{"step": 4, "seconds": 9.0}\n', b"\xff\n"):
        with timing.open("ab") as file:
            file.write(torn)
        folder.cut_back(0, 8)
        assert folder.seconds() == 0.25
    folder.add_seconds(2, 0.5)
    folder.add_seconds(3, 9.0)
    folder.cut_back(0, 2)  # the checkpoint knows of two steps: the third is about to be made again
    assert folder.seconds() == 0.75


def test_what_is_added_begins_a_line_of_its_own(tmp_path: Path) -> None:
    folder = started(tmp_path)
    (tmp_path / "timing.jsonl").write_bytes(b'{"step": 1, "seconds": 1.0}\n{"step": 2, "se')
    folder.add_seconds(2, 2.0)
    assert folder.seconds() == 3.0


def test_damaged_records_are_refused_by_name(tmp_path: Path) -> None:
    folder = started(tmp_path)
    folder.append_steps([{"step": 1}])
    with pytest.raises(InputError, match=r"Expected 99 bytes of records in .*steps\.jsonl.*--fresh"):
        folder.cut_back(99, 1)
    folder.write_measures([ECE])
    with (tmp_path / "measures.jsonl").open("ab") as file:
        file.write(b'{"met\n{}\n')
    with pytest.raises(InputError, match=r"line 2 of .*measures\.jsonl.*--fresh"):
        folder.measures()


def test_records_that_a_checkpoint_vouches_for_are_those_that_were_written(tmp_path: Path) -> None:
    folder, path = started(tmp_path), tmp_path / "steps.jsonl"
    size = folder.append_steps([{"step": 1, "loss": 0.5}])
    written = folder.hash_of_steps(size)
    folder.append_steps([{"step": 2, "loss": 0.25}])
    path.write_bytes(path.read_bytes().replace(b"0.25", b"0.35"))  # behind the checkpoint: about to be made again
    folder.cut_back(size, 1, written)
    assert folder.steps() == [{"step": 1, "loss": 0.5}]
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.6"))
    with pytest.raises(InputError, match=r"bytes of .*steps\.jsonl as they were written.*damaged.*--fresh"):
        folder.cut_back(size, 1, written)


BINNED = {**ECE, "metric": "reliability", "bins": {"count": [1, 2], "confidence": [0.1, 0.9], "accuracy": [0, 1]}}
SHIFTED = {"n": 5, "corruption": "fog", "severity": 1, "ood": None, "published": None, "accuracy": 0.5}
SHIFTED |= {"ece": 0.1, "nll": 1.0, "detection": {"energy": {"auroc": 0.5, "fpr95": None}}}
KINDS = {
    "steps": [{"step": 1, "loss": 0.5}, {"step": 1, "tracker": "quality", "test/ece": None, "test/nll": float("inf")}],
    "tracked": [{"step": 1, "tracker": "quality", "test/ece": 0.1}],
    "measures": [ECE, BINNED, {**ECE, "metric": "constant_accuracy", "lead": 0.1, "lead_error": 0.01}],
    "shift": [SHIFTED, {**SHIFTED, "detection": None, "ece": None}],
}
DAMAGES: dict[str, list[dict[str, object]]] = {
    "steps": [{"loss": 0.5}, {"step": "1"}, {"step": True}, {"step": 1, "tracker": "quality", "test/ece": "0.1"}],
    "tracked": [{"step": 1}, {"tracker": "quality"}, {"step": 1, "tracker": 3}],
    "measures": [
        *({key: value for key, value in ECE.items() if key != left_out} for left_out in ECE),
        {**ECE, "value": "0.1"},
        {**ECE, "calibrator": 3},
        {**ECE, "label": 3},
        {**ECE, "digits": {}},
        {**ECE, "digits": 10**6},
        {**ECE, "lower_is_better": "yes"},
        {**ECE, "range": [0.0]},
        {**ECE, "metric": "constant_accuracy"},
        {**BINNED, "bins": [1, 2]},
        {**BINNED, "bins": {"count": [1], "confidence": [0.5]}},
        {**BINNED, "bins": {"count": [1, 2], "confidence": [0.5], "accuracy": [0.5]}},
        {**BINNED, "bins": {"count": [1], "confidence": ["a"], "accuracy": [0.5]}},
    ],
    "shift": [
        *({key: value for key, value in SHIFTED.items() if key != left_out} for left_out in SHIFTED),
        {**SHIFTED, "detection": {"energy": {"fpr95": 0.1}}},
        {**SHIFTED, "detection": {"energy": 3}},
        {**SHIFTED, "n": None},
    ],
}


@pytest.mark.parametrize(("kind", "damage"), [(kind, damage) for kind, each in DAMAGES.items() for damage in each])
def test_a_line_that_lacks_something_is_refused_by_name(kind: str, damage: dict[str, object], tmp_path: Path) -> None:
    folder, path = started(tmp_path), tmp_path / f"{kind}.jsonl"
    read = {"steps": folder.steps, "tracked": folder.tracked_later, "measures": folder.measures, "shift": folder.shift}
    path.write_text("".join(json.dumps(record) + "\n" for record in KINDS[kind]))
    assert read[kind]() == KINDS[kind]
    with path.open("a") as file:
        file.write(json.dumps(damage) + "\n")
    with pytest.raises(InputError, match=rf"line {len(KINDS[kind]) + 1} of .*{kind}\.jsonl lacks something.*--fresh"):
        read[kind]()


def test_only_one_process_writes(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom surefoot.records import RunFolder\n"
        "with RunFolder(sys.argv[1]).locked():\n    print('locked', flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(BusyError, match="another process is at it"), RunFolder(tmp_path).locked():
            pass
        other.kill()
    with RunFolder(tmp_path).locked():
        pass  # the lock died with its process


def test_clear_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    folder = started(tmp_path)
    folder.append_steps([{"step": 1}])
    for name in ("predictions", "checkpoint"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "predictions" / "mine.npz").write_text("mine")
    (tmp_path / ".steps.jsonl.17.tmp").write_text("of a process that was killed")
    (tmp_path / "notes.txt").write_text("mine")
    folder.clear()
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["notes.txt", "predictions/mine.npz"]


def test_find_runs_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        find_runs([tmp_path / "no"])
    started(tmp_path / "a")
    with pytest.raises(InputError, match="Expected finished runs"):
        find_runs([tmp_path])
    started(tmp_path / "b").finish({"passes": 20, "seconds": 1.0})
    started(tmp_path / "c").finish({"passes": 10, "seconds": 1.0})
    assert [run.path.name for run in find_runs([tmp_path, tmp_path / "b"])] == ["c", "b"]
    with pytest.raises(InputError, match=r"has no spec\.json"):
        _ = RunFolder(tmp_path).spec


@pytest.mark.parametrize("name", ["predictions/test.npz", "splits.npz"])
def test_damaged_arrays_are_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = started(tmp_path)
    folder.write_predictions(Predictions(np.ones((4, 2), np.float32), np.array([0, 1, 0, 1]), "test"))
    folder.write_rows({"test": Rows("all", np.arange(4))})
    folder.finish({"passes": 1, "seconds": 1.0})
    assert len(folder.predictions("test").labels) == len(folder.rows()["test"].numbers) == 4
    content = (tmp_path / name).read_bytes()
    for at in (10, 60, 150, len(content) - 30, len(content) - 3):  # also where an archive's own sums do not look
        damaged = bytearray(content)
        damaged[at] ^= 4
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{name} as it was written, but it is damaged.*--fresh"):
            folder.predictions("test") if "predictions" in name else folder.rows()
    (tmp_path / name).write_bytes(content)
    (tmp_path / "checksums.json").unlink()  # as older versions left it
    assert len(folder.predictions("test").labels) == len(folder.rows()["test"].numbers) == 4
    (tmp_path / name).write_bytes(content[:100])
    with pytest.raises(InputError, match=rf"{name} is damaged.*--fresh"):
        folder.predictions("test") if "predictions" in name else folder.rows()


@pytest.mark.parametrize("name", ["done.json", "environment.json"])
@pytest.mark.parametrize("text", [b'{"passes": 3', b"[1]", b'{"passes": "\xff"}'])
def test_damaged_objects_are_refused_by_name(name: str, text: bytes, tmp_path: Path) -> None:
    folder = started(tmp_path)
    (tmp_path / name).write_bytes(text)
    with pytest.raises(InputError, match=rf"Expected what surefoot wrote, but .*{name} is damaged\. Make the run anew"):
        _ = folder.done() if name == "done.json" else folder.environment


@pytest.mark.parametrize("number", ["NaN", "1e999", "9" * 400, "null"])
def test_a_summary_without_numbers_is_refused(number: str, tmp_path: Path) -> None:
    folder = started(tmp_path)
    (tmp_path / "done.json").write_text(f'{{"passes": {number}, "seconds": 1.0}}')
    with pytest.raises(InputError, match=r"done\.json is damaged"):
        folder.done()


def test_what_a_killed_process_left_aside_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    for name in (".a.json.1.tmp", ".a.json.2.tmp.csv", ".a.json.mine.tmp", ".b.json.1.tmp"):
        (tmp_path / name).write_text("half")
    with replacing(tmp_path / "a.json") as aside:
        remove_left(tmp_path / "a.json")
        assert aside.exists()
        aside.write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", ".a.json.mine.tmp", ".b.json.1.tmp"}
    assert (tmp_path / "a.json").read_text() == "whole"
    with pytest.raises(NotADirectoryError), replacing(tmp_path / "a.json") as aside:
        (aside / "there is no such folder").touch()
    assert (tmp_path / "a.json").read_text() == "whole"
    assert not aside.exists()


@pytest.mark.parametrize("line", [b'{"step": 2},{"step": 3}', b'{"step": 2}]', b"[2]", b"", b"nonsense"])
def test_a_line_that_is_no_record_is_named_however_lines_are_read(tmp_path: Path, line: bytes) -> None:
    run = RunFolder(tmp_path)
    (tmp_path / "steps.jsonl").write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 4}\n')
    with pytest.raises(InputError, match=r"line 2 of .*steps\.jsonl is none: the file is damaged"):
        run.steps()


def test_what_trackers_saw_is_found_among_steps_that_were_read_already(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.append_steps([{"step": 1, "loss": 2.0}, {"step": 1, "tracker": "quality", "test/ece": 0.1}])
    assert run.tracked(run.steps()) == run.tracked() == [{"step": 1, "tracker": "quality", "test/ece": 0.1}]


def test_a_spec_that_lacks_something_is_told_as_damage(tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    spec = json.loads((run.path / "spec.json").read_text())
    del spec["spec"]["augment"]
    (run.path / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match=r"spec\.json is damaged\. Make the run anew with --fresh"):
        _ = run.spec
