"""Growing files are read on, cut ones anew; runs are found and their state told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.records import RunFolder
from surefoot.serve.runs import Clock, Glance, find, key_of, read_header, state_of
from surefoot.serve.series import Curves, clean_bins, thin
from surefoot.serve.stream import MOST_DRAWN, Listing, choose, events
from surefoot.serve.tail import Tail, newest_of_each
from tests.runs import fake_run


def lines(*steps: int) -> bytes:
    return b"".join(json.dumps({"step": step, "loss": 1.0}).encode() + b"\n" for step in steps)


def test_a_growing_file_is_read_on_and_a_torn_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    tail = Tail(path)
    assert tail.read() == (False, [])
    path.write_bytes(lines(1, 2) + b'{"step": 3')
    assert [record["step"] for record in tail.read()[1]] == [1, 2]
    with path.open("ab") as file:
        file.write(b', "loss": 2}\n')
    assert tail.read() == (False, [{"step": 3, "loss": 2}])
    assert tail.read() == (False, [])


def test_a_file_that_was_cut_replaced_or_removed_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    tail = Tail(path)
    path.write_bytes(lines(1, 2, 3))
    tail.read()
    os.truncate(path, len(lines(1)))
    assert tail.read() == (True, [{"step": 1, "loss": 1.0}])
    with path.open("r+b") as file:  # cut and written on between two looks: as long as before, but something else
        file.truncate(0)
        file.write(lines(7, 8))
    assert [record["step"] for record in tail.read()[1]] == [7, 8]
    (tmp_path / "other").write_bytes(lines(4))
    os.replace(tmp_path / "other", path)
    assert tail.read() == (True, [{"step": 4, "loss": 1.0}])
    path.unlink()
    assert tail.read() == (True, [])
    assert tail.read() == (False, [])


def test_lines_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"nonsense\n[1]\n\xff\xfe\n" + b"[" * 100_000 + b"\n" + lines(5))
    assert Tail(path).read()[1] == [{"step": 5, "loss": 1.0}]
    assert newest_of_each(path) == ({"step": 5, "loss": 1.0}, {})


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "steps.jsonl")
    assert Tail(tmp_path / "steps.jsonl").read() == (False, [])
    assert newest_of_each(tmp_path / "steps.jsonl") == ({}, {})


def test_seconds_are_added_up_as_they_are_written_and_anew_where_they_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "timing.jsonl"
    clock = Clock(path)
    clock.read()
    assert (clock.trained, clock.left(10)) == (None, None)
    path.write_text('{"step": 10, "seconds": 5.0, "tracking": 1.0}\n{"step": 20, "seconds": 5.0}\n')
    clock.read()
    assert (clock.trained, clock.left(30)) == (9.0, 15.0)
    with path.open("a") as file:
        file.write('{"step": 30, "seconds": 2.0}\n')
    clock.read()
    assert (clock.trained, clock.left(30)) == (11.0, 12.0)
    path.write_text('{"step": 10, "seconds": 5.0, "tracking": 1.0}\n')
    clock.read()
    assert (clock.trained, clock.left(30)) == (4.0, 15.0)


def test_a_look_that_costs_much_is_followed_by_a_long_pause_but_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_run(tmp_path)
    clock, pauses = iter([0.0, 100.0, 100.02, 100.02, 100.02]), []
    monkeypatch.setattr("surefoot.serve.stream.time.thread_time", lambda: next(clock))

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 3

    list(events([tmp_path], [], wait))
    assert pauses == [1.0, pytest.approx(4.0), 1.0]


def test_runs_are_found_below_folders_and_named_without_their_path(tmp_path: Path) -> None:
    one = fake_run(tmp_path / "a").path
    two = fake_run(tmp_path / "b" / "studies", seed=1).path
    found = find([tmp_path, one, tmp_path / "nothing"])
    assert sorted(found.values()) == sorted([one, two])
    assert all(len(key) == 16 and "/" not in key for key in found)


def test_a_run_is_running_while_its_lock_is_held_however_its_process_ends(tmp_path: Path) -> None:
    path = fake_run(tmp_path).path
    assert state_of(path) == "finished"
    (path / "done.json").unlink()
    assert state_of(path) == "interrupted"
    script = (
        "import sys\nfrom surefoot.records import RunFolder\n"
        f"with RunFolder({str(path)!r}).locked():\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], text=True, **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert state_of(path) == "running"
        holder.kill()
        holder.wait()
    assert state_of(path) == "interrupted"
    with RunFolder(path).locked():  # who asks does not keep the lock
        assert state_of(path) == "running"


def test_a_run_whose_lock_cannot_be_seen_is_running_while_its_records_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fake_run(tmp_path)
    (run.path / "done.json").unlink()
    header = read_header(run.path)
    assert header is not None
    glance = Glance(header)
    assert glance.look()["state"] == "interrupted"
    run.append_steps([{"step": 21, "loss": 1.0}])  # as another machine does, through a path without locks
    assert glance.look()["state"] == "running"
    monkeypatch.setattr("surefoot.serve.runs.QUIET", 0.0)
    assert glance.look()["state"] == "interrupted"
    monkeypatch.undo()
    with run.locked():
        assert glance.look()["state"] == "running"
    run.append_steps([{"step": 22, "loss": 1.0}])
    assert glance.look()["state"] == "interrupted"  # locks are seen here, so they have the last word


def test_a_glance_tells_progress_cost_and_the_newest_numbers(tmp_path: Path) -> None:
    run = fake_run(tmp_path, "csam", epochs=2)
    header = read_header(run.path)
    assert header is not None
    told = Glance(header).look()
    assert (told["method"], told["state"], told["step"], told["n_steps"], told["per_epoch"]) == (
        *("csam", "finished", 20, 20, 10),
    )
    assert (told["accuracy"], told["split"], told["seconds"], told["passes"]) == (0.7, "test", 1.5, 20)


def test_a_finished_run_is_read_once_and_again_when_it_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fake_run(tmp_path)
    header = read_header(run.path)
    assert header is not None
    glance = Glance(header)
    first = glance.look()
    with monkeypatch.context() as patched:
        patched.setattr("surefoot.serve.runs.read_object", lambda path: pytest.fail("it was read again"))
        assert glance.look() == first
    (run.path / "done.json").unlink()
    assert glance.look()["state"] == "interrupted"
    run.finish({"passes": 99, "seconds": 2.5})
    assert (glance.look()["passes"], glance.look()["seconds"]) == (99, 2.5)


def test_a_header_of_nonsense_is_shown_as_text(tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    (run.path / "spec.json").write_text('{"id": 3, "spec": {"method": "x", "data": [], "epochs": "many"}, "data": 7}')
    header = read_header(run.path)
    assert header is not None
    assert (header.method, header.about, header.n_steps) == ("?", "? on ?, seed ?", 0)
    (run.path / "spec.json").write_text("no JSON")
    assert read_header(run.path) is None
    assert Listing([tmp_path]).look() == ({}, [])


def test_the_run_that_was_asked_for_is_shown_else_one_that_runs() -> None:
    listed = [{"key": "a", "state": "finished"}, {"key": "b", "state": "running"}]
    assert choose(listed, ["a"]) == ["a"]
    assert choose(listed, ["b", "a", "b"]) == ["b", "a"]
    assert choose(listed, ["../../etc/passwd"]) == choose(listed, []) == ["b"]
    assert choose(listed, ["gone"], before=["a"]) == ["a"]
    assert choose([], ["a"]) == []
    many = [{"key": str(number), "state": "finished"} for number in range(100)]
    assert len(choose(many, [line["key"] for line in many])) == MOST_DRAWN


def test_a_stream_sends_what_is_new_and_starts_anew_where_a_run_was_cut_back(tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    stop: list[bool] = []
    stream = events([tmp_path], [key_of(run.path)], lambda seconds: bool(stop))

    def following() -> dict[str, object]:
        name, data = next(stream).decode().split("\n")[:2]
        return {"name": name, **json.loads(data.removeprefix("data: "))}

    assert following()["name"] == "event: runs"
    first = following()
    assert first["anew"] is True
    assert first["curves"]["loss"] == [[10, 20], [1.0, 0.5]]
    run.append_steps([{"step": 30, "loss": float("nan"), "epoch": 2}])
    assert following()["name"] == "event: runs"
    second = following()
    assert (second["anew"], second["curves"]) == (False, {"loss": [[30], [None]]})
    assert second["findings"][0].startswith("Diverged")
    run.cut_back(0, 0)
    assert following()["name"] == "event: runs"
    assert (third := following())["anew"] is True
    assert third["curves"] == {}
    stop.append(True)
    assert list(stream) == []


def test_curves_of_many_steps_are_thinned_and_bins_checked() -> None:
    x, y = thin([(step, 1.0) for step in range(1, 10_001)], 2000)
    assert (len(x), x[-1], set(y)) == (2000, 10_000, {1.0})
    assert thin([(1, None), (2, 1.0)], 1) == ([2], [None])
    assert clean_bins({"count": [1], "confidence": ["<b>"], "accuracy": [0.5]}) == {
        **{"split": "None", "count": [1], "confidence": [None], "accuracy": [0.5]},
    }
    for odd in ({}, {"count": 3}, {"count": [1, 2], "confidence": [1], "accuracy": [1]}):
        assert clean_bins(odd) is None
    assert Curves().add([{"tracker": ["x"]}, {"tracker": "quality", "bins": [1]}]) == {"curves": {}, "bins": None}
