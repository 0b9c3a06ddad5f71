"""Runs at an address: what comes home is whole, and what is damaged, hostile or out of reach is told in one line."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from surefoot.errors import InputError
from surefoot.records.remote import download, fetch_file, finished_at, upload
from tests.runs import content, fake_run

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'surefoot[remote]'")


@pytest.fixture
def there(tmp_path: Path) -> str:
    """The address of a folder with one finished run, called ``a``."""
    upload(fake_run(tmp_path / "made").path, f"file://{tmp_path}/there/a")
    return f"file://{tmp_path}/there"


def test_a_run_comes_home_as_it_was(there: str, tmp_path: Path) -> None:
    assert finished_at(there) == {"a"}
    assert download(f"{there}/a", tmp_path / "home")
    (made,) = (tmp_path / "made").iterdir()
    assert content(tmp_path / "home") == content(made)
    assert not download(f"{there}/b", tmp_path / "other")


def member(name: str, **facts: Any) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(found, key, value)
    return found


@pytest.mark.parametrize(
    "odd",
    [
        member("../evil", size=3),
        member("spec.json", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("spec.json", type=tarfile.SYMTYPE, linkname="done.json"),
        member("spec.json", type=tarfile.LNKTYPE, linkname="done.json"),
        member("pipe", type=tarfile.FIFOTYPE),
    ],
    ids=lambda odd: f"{odd.name} {odd.linkname}",
)
def test_an_archive_that_means_harm_leaves_nothing(odd: tarfile.TarInfo, there: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "there" / "a.tar", "a") as archive:
        archive.addfile(odd, io.BytesIO(b"x" * odd.size))
    with pytest.raises(InputError, match=r"Expected the archive of a run, but file:.*/a\.tar is damaged or none \("):
        download(f"{there}/a", tmp_path / "home")
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("cut", [0, 100, 512, 1024, -1024])
def test_an_archive_that_is_cut_off_leaves_nothing(cut: int, there: str, tmp_path: Path) -> None:
    path = tmp_path / "there" / "a.tar"
    whole = path.read_bytes()
    path.write_bytes(whole.rstrip(b"\0")[:cut] if cut < 0 else whole[:cut])
    with pytest.raises(InputError, match=r"is damaged or none .*Remove it there, and run the same command again"):
        download(f"{there}/a", tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "trouble", [ConnectionResetError("reset by peer"), RuntimeError("closed"), ValueError("odd\n")]
)
def test_what_a_file_system_raises_is_told_with_the_address(
    trouble: Exception, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.local import LocalFileSystem

    def fail(*_: Any, **__: Any) -> None:
        raise trouble

    monkeypatch.setattr(LocalFileSystem, "get_file", fail)
    monkeypatch.setattr(LocalFileSystem, "ls", fail)
    what = rf"Expected to reach file:.*there.*, but it fails \({type(trouble).__name__}: \w+.*\)\. Check the address"
    for ask in (
        lambda: download(f"{there}/a", tmp_path / "home"),
        lambda: finished_at(there),
        lambda: fetch_file(there, tmp_path / "a.tar"),
    ):
        with pytest.raises(InputError, match=what) as found:
            ask()
        assert "\n" not in str(found.value)


def test_a_full_disk_here_is_not_told_as_trouble_there(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.local import LocalFileSystem

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalFileSystem, "get_file", fail)
    with pytest.raises(OSError, match="No space left"):
        download(f"{there}/a", tmp_path / "home")
