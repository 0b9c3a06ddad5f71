"""Predictions at addresses: in fsspec's memory, in a folder by file://, and on a real web server on this machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.places import Address, fetched, is_address, place, size_of, written
from surefoot.sources import find_files, open_predictions
from tests.auditing.made import made, write
from tests.conftest import RunCommand
from tests.sources.rows import labels, one, scores

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'surefoot[remote]'")
SUFFIXES = (".npz", ".csv", ".tsv", ".jsonl", ".json", ".parquet")


@pytest.fixture
def bucket() -> Iterator[str]:
    """A folder of fsspec's memory that nobody else uses."""
    name, memory = f"bucket-{uuid.uuid4().hex}", fsspec.filesystem("memory")
    yield f"memory://{name}"
    if memory.exists(f"/{name}"):
        memory.rm(f"/{name}", recursive=True)


def put(path: Path, bucket: str) -> str:
    """Copy a file there."""
    address = f"{bucket}/{path.name}"
    with fsspec.open(address, "wb") as file:
        file.write(path.read_bytes())
    return address


def same_rows(a: Any, b: Any) -> bool:
    one_, other = one(a), one(b)
    return np.array_equal(scores(one_), scores(other)) and np.array_equal(labels(one_), labels(other))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_read_at_an_address(suffix: str, bucket: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a{suffix}", *made(120))
    assert same_rows(path, put(path, bucket))
    assert same_rows(path, Path(put(path, bucket)))  # which loses a slash
    assert same_rows(path, f"file://{path}")


@pytest.mark.parametrize("suffix", [".csv.gz", ".feather", ".npy"])
def test_packed_tables_arrow_and_labels_beside_scores(suffix: str, bucket: str, tmp_path: Path) -> None:
    logits, truth = made(50)
    path = tmp_path / f"a{suffix}"
    if suffix == ".csv.gz":
        import gzip

        path.write_bytes(gzip.compress(write(tmp_path / "a.csv", logits, truth).read_bytes()))
    elif suffix == ".feather":
        from pyarrow import feather, parquet

        feather.write_feather(parquet.read_table(write(tmp_path / "a.parquet", logits, truth)), path)
    else:
        path = tmp_path / "logits.npy"
        np.save(path, logits)
        np.save(tmp_path / "labels.npy", truth)
        put(tmp_path / "labels.npy", bucket)
    assert same_rows(path, put(path, bucket))


def test_patterns_folders_and_lists_at_an_address(bucket: str, tmp_path: Path) -> None:
    logits, truth = made(90)
    for k in range(3):
        put(write(tmp_path / f"part-{k}.csv", logits[30 * k :][:30], truth[30 * k :][:30]), f"{bucket}/preds")
    put(write(tmp_path / "other.csv", logits, truth), bucket)
    for source in (f"{bucket}/preds/*.csv", f"{bucket}/preds", [f"{bucket}/preds/part-{k}.csv" for k in range(3)]):
        assert np.array_equal(labels(one(source)), truth)
    assert find_files(f"{bucket}/preds/*.csv").name == "preds/*.csv (3 files)"
    with pytest.raises(InputError, match=r"no file matches memory://bucket-\w+/none-\*\.csv"):
        open_predictions(f"{bucket}/none-*.csv")
    with pytest.raises(InputError, match=r"memory://bucket-\w+/none\.csv does not exist"):
        open_predictions(f"{bucket}/none.csv")


def test_labels_in_a_file_of_their_own(bucket: str, tmp_path: Path) -> None:
    logits, truth = made(50)
    np.savetxt(tmp_path / "scores.csv", logits, "%.6f", ",")
    np.savetxt(tmp_path / "truth.csv", truth, "%d")
    found = one(put(tmp_path / "scores.csv", bucket), labels=put(tmp_path / "truth.csv", bucket), kind="logits")
    assert np.array_equal(labels(found), truth)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def test_a_web_server(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed, which fsspec reads the web with")
    path = write(tmp_path / "a.npz", *made(60))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/a.npz"
        assert same_rows(path, address)
        assert same_rows(path, f"{address}?token=abc")
        with pytest.raises(InputError, match="does not exist"):
            open_predictions(address.replace("a.npz", "b.npz"))
    finally:
        server.shutdown()
        server.server_close()


def test_audit_calibrate_apply_and_check_at_addresses(bucket: str, tmp_path: Path, run_command: RunCommand) -> None:
    val = put(write(tmp_path / "val.npz", *made(400, temperature=0.5)), bucket)
    test = put(write(tmp_path / "test.npz", *made(400, temperature=0.5, seed=1)), bucket)
    done = run_command("audit", test, "--out", f"{bucket}/pages/audit.html", "--json")
    assert json.loads(done.stdout)["page"] == f"{bucket}/pages/audit.html"
    with fsspec.open(f"{bucket}/pages/audit.html") as file:
        assert b"<html" in file.read()
    saved = f"{bucket}/calibrator.json"
    run_command("calibrate", val, "--method", "temperature", "--out", saved)
    done = run_command("calibrate", test, "--apply", saved, "--out", f"{bucket}/repaired.npz", "--json")
    assert json.loads(done.stdout)["after"]["nll"] < json.loads(done.stdout)["before"]["nll"]
    assert one(f"{bucket}/repaired.npz").n_classes == 3
    done = run_command("check", test, "--save-baseline", f"{bucket}/baseline.json")
    assert done.returncode == 0
    assert run_command("check", test, "--baseline", f"{bucket}/baseline.json").returncode == 0


def test_an_address_is_a_path() -> None:
    found = place("s3://bucket/preds/test.csv.gz")
    assert isinstance(found, Address)
    assert isinstance(found, Path)
    assert (found.name, found.stem, found.suffix) == ("test.csv.gz", "test.csv", ".gz")
    assert str(found.parent) == "s3://bucket/preds"
    assert str(found.with_name("val.csv")) == "s3://bucket/preds/val.csv"
    assert place(Path("s3://bucket/a.csv")) == place("s3://bucket/a.csv")
    assert is_address("gs://b/a.npz")
    assert not is_address("C:/a.npz")
    assert place("file:///tmp/a.csv") == Path("/tmp/a.csv")


def test_what_is_written_is_there_when_all_of_it_is(bucket: str) -> None:
    with contextlib.suppress(RuntimeError), written(f"{bucket}/a.txt") as here:
        here.write_text("half")
        raise RuntimeError("on the way")
    assert not place(f"{bucket}/a.txt").is_file()
    with written(f"{bucket}/a.txt") as here:
        here.write_text("whole")
    assert size_of(place(f"{bucket}/a.txt")) == 5
    with fetched(f"{bucket}/a.txt") as here:
        assert here.read_text() == "whole"


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (
            "fsspec",
            "Expected fsspec to be installed to reach s3://bucket/a.csv, but it is not. Run pip install "
            "'surefoot[remote]'.",
        ),
        (
            "s3fs",
            "Expected an address that fsspec can reach, but got s3://bucket/a.csv: Install s3fs to access S3. Check "
            "it.",
        ),
    ],
)
def test_what_is_not_installed_is_named(hidden: str, said: str) -> None:
    script = (
        f"import sys; sys.modules[{hidden!r}] = None\n"
        "from surefoot.places import place\nfrom surefoot.errors import InputError\n"
        "try: place('s3://bucket/a.csv').is_file()\nexcept InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said


def test_an_audit_at_an_address_is_that_of_the_file(bucket: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", *made(300, temperature=0.5))
    assert sf.audit(put(path, bucket)).to_json() == sf.audit(path).to_json()
