"""Downloads from a server of our own: whole, broken off, wrong, and dangerous."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from surefoot.data import load_splits, store
from surefoot.data._download import download
from surefoot.data._places import DataFile
from surefoot.data._published import PUBLISHED, Published, Remote
from surefoot.data._unpack import unpack
from surefoot.errors import BusyError, InputError, RunError, UnknownNameError
from surefoot.records import RunFolder
from surefoot.registry import DATA
from surefoot.schema import SPLITS
from tests.conftest import RunCommand
from tests.data import made

CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Serves one content; breaks off after so many bytes, as often as told; may not know Range."""

    content = CONTENT
    breaks: list[int]
    knows_range = True
    status = 200
    asked: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        content, start = self.server.content, 0
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        if wanted and self.server.knows_range:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + self.server.breaks.pop(0) if self.server.breaks else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.breaks, server.asked = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def remote(server: Server, file: str = "a.bin", content: bytes | None = None) -> Remote:
    server.content = CONTENT if content is None else content
    return Remote(f"http://127.0.0.1:{server.server_port}/{file}", "md5", hashlib.md5(server.content).hexdigest(), 1)


def test_a_file_comes_whole_and_once(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    wanted = remote(server)
    path = download(wanted, tmp_path / "new", on_progress=lambda *news: seen.append(news))
    assert path.read_bytes() == CONTENT
    assert [each.name for each in path.parent.iterdir()] == ["a.bin"]
    assert seen[-1] == ("a.bin", len(CONTENT), len(CONTENT))
    assert download(wanted, tmp_path / "new") == path
    assert len(server.asked) == 1
    path.write_bytes(b"spoilt")
    assert download(wanted, tmp_path / "new").read_bytes() == CONTENT


def test_a_broken_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.breaks = [300_000, 200_000]
    path = download(remote(server), tmp_path, pause=0.01)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=500000-"]


def test_the_next_command_goes_on(server: Server, tmp_path: Path) -> None:
    server.breaks = [300_000]
    with pytest.raises(RunError, match=r"broke 1 times .*300000 bytes are kept; run the same command to go on"):
        download(remote(server), tmp_path, attempts=1)
    assert [each.name for each in tmp_path.iterdir()] == ["a.bin.part"]
    assert download(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=300000-"


def test_a_server_without_range_starts_anew(server: Server, tmp_path: Path) -> None:
    server.breaks, server.knows_range = [300_000], False
    assert download(remote(server), tmp_path, pause=0.01).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]


def test_a_part_that_is_whole_is_taken(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    assert download(remote(server), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_is_thrown_away(server: Server, tmp_path: Path) -> None:
    wanted = remote(server)
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(InputError, match=f"Expected md5 {wanted.checksum} .* but got [0-9a-f]{{32}}"):
        download(wanted, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("status", "error"), [(404, InputError), (403, InputError), (503, RunError)])
def test_what_the_server_says_is_passed_on(status: int, error: type[Exception], server: Server, tmp_path: Path) -> None:
    server.status = status
    with pytest.raises(error, match=f"the server says {status}"):
        download(remote(server), tmp_path, attempts=2, pause=0.01)
    assert len(server.asked) == (2 if status == 503 else 1)


def test_offline_is_said_clearly(server: Server, tmp_path: Path) -> None:
    wanted = remote(server)
    server.server_close()
    with pytest.raises(RunError, match="Check the connection"):
        download(wanted, tmp_path)


def test_two_do_not_fetch_the_same_file(server: Server, tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "a.bin.part").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process"):
            download(remote(server), tmp_path)


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "bad",
    [
        member("../outside"),
        member("good/../../outside"),
        member("/tmp/outside"),
        member("good/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("good/link", tarfile.SYMTYPE, "inside"),
        member("good/link", tarfile.LNKTYPE, "../outside"),
        member("good/device", tarfile.CHRTYPE),
        member("good/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: f"{info.name} {info.type!r}",
)
def test_a_dangerous_tar_is_refused(bad: tarfile.TarInfo, tmp_path: Path) -> None:
    archive, folder = tmp_path / "a.tar.gz", tmp_path / "to" / "folder"
    archive.write_bytes(tar_of((member("good/file"), b"fine"), (bad, b"")))
    with pytest.raises(InputError, match=r"stay in its folder|link or a device"):
        unpack(archive, folder)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar.gz", "folder", "to"]


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", "..\\outside", "C:/outside", "link"])
def test_a_dangerous_zip_is_refused(name: str, tmp_path: Path) -> None:
    archive, folder = tmp_path / "a.zip", tmp_path / "to" / "folder"
    with zipfile.ZipFile(archive, "w") as unzip:
        info = zipfile.ZipInfo(name)
        if name == "link":
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
        unzip.writestr(info, "/etc/passwd")
    with pytest.raises(InputError, match=r"stay in its folder|is a link"):
        unpack(archive, folder)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.zip", "folder", "to"]


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar", "a.zip"])
def test_a_damaged_archive_leaves_nothing(name: str, tmp_path: Path) -> None:
    content = tar_of((member("good/file"), bytes(range(256)) * 400))
    (tmp_path / name).write_bytes(content[:300] if name == "a.tar.gz" else b"rubbish" * 100)
    with pytest.raises(InputError, match="Get the file again"):
        unpack(tmp_path / name, tmp_path / "to")
    assert not list((tmp_path / "to").iterdir())


def served_cifar(server: Server, root: Path) -> Published:
    made.write_binary(root / "cifar-10-batches-bin", 10)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(root / "cifar-10-batches-bin", "cifar-10-batches-bin")
    file = remote(server, "cifar-10-binary.tar.gz?download=1", buffer.getvalue())
    return Published((file,), (DataFile("data_batch_1.bin", "cifar-10-batches-bin"),), "CIFAR-10")


def test_get_list_and_use(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path / "data"))
    catalogue = {"cifar10": served_cifar(server, tmp_path / "origin")}
    monkeypatch.setattr(store.get, "__kwdefaults__", {**store.get.__kwdefaults__, "published": catalogue})

    def listed() -> dict[str, dict[str, str]]:
        return {row["name"]: row for row in json.loads(run_command("data", "list", "--json").stdout)}

    assert listed()["cifar10"]["status"] == "missing"
    assert listed()["fashion"]["status"] == listed()["digits"]["status"] == "embedded"
    assert listed()["npz"]["status"] == "yours"
    assert "not here: surefoot data get cifar10" in run_command("data", "list").stdout
    done = run_command("data", "get", "cifar10", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"name": "cifar10", "path": str(tmp_path / "data" / "cifar-10-batches-bin")}
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["cifar-10-batches-bin"]
    assert listed()["cifar10"]["path"] == str(tmp_path / "data" / "cifar-10-batches-bin")
    asked = len(server.asked)
    assert run_command("data", "get", "cifar10").returncode == 0
    assert len(server.asked) == asked  # it is there
    words = ["train", "--data", "cifar10:calibration=0.2", "--model", "mlp:width=8", "--epochs", "1", "--out", "run"]
    done = run_command(*words)
    assert done.returncode == 0, done.stderr
    written, splits = RunFolder(tmp_path / "run").rows(), load_splits(DATA.parse("cifar10:calibration=0.2"))
    for name in SPLITS:  # a reader can rebuild the division
        assert written[name].source == splits[name].rows.source
        assert written[name].numbers.tolist() == splits[name].rows.numbers.tolist()


def test_get_says_what_is_wrong(tmp_path: Path, run_command: RunCommand) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        store.get("cifar1O")
    with pytest.raises(InputError, match="comes with the package"):
        store.get("fashion")
    (tmp_path / "file").write_text("")
    done = run_command("data", "get", "cifar10", "--to", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "Expected --to to be a folder" in done.stderr


@pytest.mark.parametrize("command", ["list", "get"])
def test_help_has_an_example(command: str, run_command: RunCommand) -> None:
    assert f"surefoot data {command}" in run_command("data", command, "--help").stdout


def test_an_archive_without_the_data_is_said(server: Server, tmp_path: Path) -> None:
    file = remote(server, "a.tar.gz", tar_of((member("other/file"), b"")))
    catalogue = {"a": Published((file,), (DataFile("mark", "folder"),), "A")}
    with pytest.raises(InputError, match="Expected folder/mark from a"):
        store.get("a", tmp_path, published=catalogue)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_catalogue_is_well_formed(name: str) -> None:
    for file in PUBLISHED[name].files:
        assert re.fullmatch(r"https?://\S+", file.url)
        assert re.fullmatch("[0-9a-f]{32}" if file.algorithm == "md5" else "[0-9a-f]{64}", file.checksum)
        assert file.file.endswith((".gz", ".mat", ".tar", ".zip", ".npy", ".pt"))
