"""Folders, patterns and lists of files are read as one, in the order of their names; what is no part is refused."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot.auditing import apply, audit, calibrate
from surefoot.errors import InputError
from surefoot.sources import find_files, open_predictions
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand
from tests.sources.rows import labels, one, scores

LOGITS, LABELS = made(300, temperature=0.5)
PROBS = softmax(LOGITS)
ENDS = (0, 120, 130, 300)


def write(path: Path, rows: slice, **more: Any) -> Path:
    table = pd.DataFrame({"label": LABELS[rows], **{f"prob_{k}": PROBS[rows, k] for k in range(3)}, **more})
    if path.suffix == ".npz":
        np.savez(path, probs=PROBS[rows], labels=LABELS[rows], **more)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".feather":
        table.to_feather(path)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False)
    return path


def parts(folder: Path, suffix: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    rows = [slice(*pair) for pair in pairwise(ENDS)]
    found = [write(folder / f"part-{i}.{suffix}", each) for i, each in enumerate(rows)]
    (folder / "_SUCCESS").write_text("")
    (folder / f".part-0.{suffix}.crc").write_text("")
    return found


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "parquet", "feather", "npz"])
def test_a_folder_a_pattern_and_a_list_are_one_source(suffix: str, tmp_path: Path) -> None:
    paths = parts(tmp_path / "preds", suffix)
    for source in (tmp_path / "preds", f"{tmp_path}/preds/*.{suffix}", paths, [str(path) for path in paths]):
        found = one(source)
        np.testing.assert_allclose(scores(found), PROBS, atol=1e-9)
        np.testing.assert_array_equal(labels(found), LABELS)
    assert find_files(tmp_path / "preds").name == "preds (3 files)"
    assert find_files(f"{tmp_path}/preds/*.{suffix}").name == f"preds/*.{suffix} (3 files)"
    assert find_files(paths).name == f"part-0.{suffix} and 2 more"


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_an_audit_of_parts_is_that_of_the_whole_file(suffix: str, tmp_path: Path) -> None:
    parts(tmp_path / "preds", suffix)
    whole = write(tmp_path / f"whole.{suffix}", slice(None))
    shares: list[float] = []
    (a,) = audit(tmp_path / "preds", on_rows=lambda rows, share: shares.append(share or 0.0))
    (b,) = audit(whole)
    found, wanted = a.to_json(), b.to_json()
    assert found["n"] == 300
    for key, each in wanted["measures"].items():
        assert found["measures"][key]["estimate"] == pytest.approx(each["estimate"], rel=1e-9, abs=1e-12)
    assert found["repair"]["temperature"] == pytest.approx(wanted["repair"]["temperature"], rel=1e-6)
    walk = shares[: len(shares) // 2]  # of two walks
    assert walk == sorted(walk)
    assert walk[-1] == pytest.approx(1.0)
    assert len(walk) == 3


def test_a_path_many_times(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", slice(None))
    (found,) = audit([path] * 5)
    (once,) = audit(path)
    assert found.n == 1500
    assert found.verdict.ece.estimate == pytest.approx(once.verdict.ece.estimate, rel=1e-9)


def test_links_and_folders_below(tmp_path: Path) -> None:
    parts(tmp_path / "real", "csv")
    (tmp_path / "links").mkdir()
    for i in range(3):
        os.symlink(tmp_path / "real" / "part-0.csv", tmp_path / "links" / f"{i}.csv")
    assert len(scores(one(tmp_path / "links"))) == 3 * 120
    assert len(scores(one(f"{tmp_path}/**/part-*.csv"))) == 300
    with pytest.raises(InputError, match=r"but the folder .* holds none in \.npz, .*/\*\*/\*\.parquet'"):
        one(tmp_path)


def test_labels_meet_all_files_before_they_are_settled(tmp_path: Path) -> None:
    """Class 0 stands in the second file only: the labels of the first alone could be counted from 1."""
    for i, (y, rows) in enumerate([((1, 2), PROBS[:2]), ((0, 1), PROBS[2:4])]):
        pd.DataFrame({"label": y, **{str(k): rows[:, k] for k in range(3)}}).to_csv(tmp_path / f"{i}.csv", index=False)
    np.testing.assert_array_equal(labels(one(tmp_path)), [1, 2, 0, 1])


def refused(source: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        audit(source)


def test_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    parts(tmp_path, "csv")
    write(tmp_path / "part-9.csv", slice(0, 9), site="a")
    refused(tmp_path, r"columns of part-0\.csv in every file, but part-9\.csv also has 'site' in .* \(4 files\)")
    frame = pd.read_csv(tmp_path / "part-9.csv").drop(columns=["prob_1", "site"])
    frame.to_csv(tmp_path / "part-9.csv", index=False)
    refused(tmp_path, r"but part-9\.csv lacks 'prob_1'")


def test_other_arrays_are_refused_by_name(tmp_path: Path) -> None:
    parts(tmp_path, "npz")
    np.savez(tmp_path / "part-9.npz", logits=LOGITS, labels=LABELS)
    refused(tmp_path, r"arrays and classes of part-0\.npz in every file, but part-9\.npz holds 'logits' as logits")


def test_what_are_no_parts(tmp_path: Path) -> None:
    for name in ("calibration.npz", "test.npz"):
        write(tmp_path / name, slice(None))
    refused(tmp_path, r"Expected parts of one split, but calibration\.npz and test\.npz are called as several in")
    write(tmp_path / "more.csv", slice(None))
    refused(f"{tmp_path}/[mt]*", r"Expected files of one kind, but .* has \.csv and \.npz")
    refused(f"{tmp_path}/*.parquet", "but no file matches")
    for i in range(2):
        np.save(tmp_path / f"x{i}.npy", PROBS)
    refused(f"{tmp_path}/x*.npy", r"are \.npy\. Save \.npz, or name one file")
    refused([tmp_path / "test.npz", tmp_path / "gone.npz"], r"gone\.npz does not exist")


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_two_models_in_a_folder_are_noticed(suffix: str, tmp_path: Path) -> None:
    parts(tmp_path / "parts", suffix)
    assert one(tmp_path / "parts").notes == ()
    for name in ("resnet", "vgg"):
        write(tmp_path / f"{name}.{suffix}", slice(None))
    (note,) = one(f"{tmp_path}/*.{suffix}").notes
    assert note.startswith(
        f"resnet.{suffix} and vgg.{suffix} begin with the same labels. If they are predictions of two"
    )
    path = tmp_path / f"vgg.{suffix}"
    assert one([path, path]).notes == ()


def test_labels_that_are_none_are_refused_in_a_folder_too(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = [f'{{"p0": 0.4, "p1": 0.6, "label": {label}}}\n' for label in [*[0, 1] * 20, "{}"]]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    refused(tmp_path, r"Expected numbers or class names as labels, but got object")


def test_rows_are_numbered_over_all_files(tmp_path: Path) -> None:
    parts(tmp_path, "csv")
    lines = (tmp_path / "part-1.csv").read_text().splitlines()
    lines[3] = "1,," + ",".join(lines[3].split(",")[2:])
    (tmp_path / "part-1.csv").write_text("\n".join(lines))
    refused(tmp_path, r"1 of 300 rows has a gap, NaN or infinity \(row 122; in 'prob_0' 1×\)")


def test_a_file_with_brackets_in_its_name_is_a_file(tmp_path: Path) -> None:
    assert len(scores(one(write(tmp_path / "a[0].csv", slice(None))))) == 300


def test_an_empty_part_adds_nothing(tmp_path: Path) -> None:
    parts(tmp_path, "csv")
    (tmp_path / "part-5.csv").write_text("label,prob_0,prob_1,prob_2\n")
    assert len(scores(one(tmp_path))) == 300


def test_fit_on_parts_and_repair_parts(tmp_path: Path) -> None:
    parts(tmp_path / "preds", "parquet")
    other = softmax(made(50, temperature=0.5, seed=1)[0])
    (tmp_path / "new").mkdir()
    for i in range(2):
        rows = other[25 * i : 25 * i + 25]
        table = pd.DataFrame({"id": np.arange(25) + 25 * i, **{f"prob_{k}": rows[:, k] for k in range(3)}})
        table.to_csv(tmp_path / "new" / f"{i}.csv", index=False)
    fitted = calibrate(tmp_path / "preds", method="temperature")
    assert fitted.n == 300
    fitted.save(tmp_path / "c.json")
    done = apply(tmp_path / "c.json", tmp_path / "new", tmp_path / "out.csv")
    assert done.n == 50
    table = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_array_equal(table["id"], np.arange(50))
    wanted = fitted.calibrator.probs(np.log(other))
    np.testing.assert_allclose(table[[f"prob_{k}" for k in range(3)]], wanted, atol=1e-6)
    parts(tmp_path / "arrays", "npz")
    with pytest.raises(InputError, match=r"tables that are read as one, but got arrays \(3 files\) of \.npz"):
        apply(tmp_path / "c.json", tmp_path / "arrays", tmp_path / "out.csv")


def test_on_the_command_line(tmp_path: Path, run_command: RunCommand) -> None:
    parts(tmp_path / "preds", "parquet")
    done = run_command("audit", "preds/*.parquet")
    assert "Read: preds/*.parquet (3 files), 300 × 3" in done.stdout
    assert "Page: preds-audit.html" in done.stdout
    assert "Next: surefoot calibrate HELD-OUT.parquet" in done.stdout
    done = run_command("audit", "preds", "--out", "preds/part-0.parquet")
    assert "Expected" in done.stderr
    assert done.returncode == 2
    done = run_command("audit", "preds", "preds", "--no-page")
    assert done.returncode == 0, done.stderr
    done = run_command("calibrate", "preds", "--method", "temperature")
    assert "Next: surefoot calibrate OTHER.parquet --apply calibrator.json --out repaired.parquet" in done.stdout


@pytest.mark.parametrize("suffix", ["pt", "pth", "pkl", "pickle", "joblib"])
def test_pickles_are_refused_with_the_way_out(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{suffix}").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match=rf"a\.{suffix} is a pickle, which can run any code .*np\.savez\('a\.npz'"):
        open_predictions(tmp_path / f"a.{suffix}")


def test_the_way_out_of_a_pickle_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"logits": torch.from_numpy(LOGITS).bfloat16(), "labels": torch.from_numpy(LABELS)}, "a.pt")
    pd.DataFrame({"prob": PROBS[:, 1], "label": LABELS == 1}).to_pickle("b.pkl")
    for name in ("a.pt", "b.pkl"):
        with pytest.raises(InputError) as error:
            sf.audit(name)
        exec(str(error.value).partition('python -c "')[2].rstrip('"'), {})
    assert scores(one("a.npz")).shape == (300, 3)
    np.testing.assert_array_equal(labels(one("b.npz")), LABELS == 1)
