"""The live page over changed run folders, and runs at addresses whose archives are changed or whose reading fails.

A stream of events survives whatever a folder holds, and stays bounded. An archive of a run is brought home whole, or
refused by name; nothing is written outside of the folder.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import tarfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
from _torture_cases import prepare
from _torture_made import FORMATS, Draws, mutated, rows
from fsspec.implementations.memory import MemoryFileSystem
from tests.crashes import nursery

LOUDEST = 1 << 20  # bytes of one event about one run of a few steps
LOOKS = 4
TOGETHER = 20  # attacks in one child
TROUBLES: tuple[Callable[[], Exception], ...] = (
    lambda: OSError(errno.EIO, "Input/output error"),
    lambda: PermissionError("403 Forbidden"),
    lambda: ConnectionResetError("Connection reset by peer"),
    lambda: TimeoutError("timed out"),
    lambda: FileNotFoundError("memory://gone"),
    lambda: RuntimeError("the session is closed"),
    lambda: ValueError("bad checksum of part 3"),
)


class Failing(MemoryFileSystem):  # type: ignore[misc]
    """A file system in memory whose files fail after some bytes."""

    protocol = ("failing",)
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    after, trouble = 0, staticmethod(TROUBLES[0])

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(path.replace("failing://", "memory://")))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super()._open(path, mode, **options)
        read, left = file.read, [self.after]

        def short(size: int = -1) -> bytes:
            left[0] -= size if size is not None and size >= 0 else 1 << 20
            if left[0] < 0:
                raise type(self).trouble()
            found: bytes = read(size)
            return found

        file.read = short
        return file


def served(home: Path, draws: Draws) -> str:
    """Follow a run whose files change between looks; say what went wrong, nothing if all is well."""
    from surefoot.serve.stream import events

    place = home / f"served-{os.getpid()}"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(home / "finished" / "run", place)
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and path.suffix in (".json", ".jsonl")]
    looks = 0

    def wait(seconds: float) -> bool:
        nonlocal looks
        looks += 1
        file = files[int(draws.integers(len(files)))]
        kind = int(draws.integers(8))
        if kind == 0 and file.is_file():
            file.unlink()
        elif kind == 1 and file.is_file():
            file.unlink()
            file.mkdir() if draws.random() < 0.5 else os.mkfifo(file)
        elif kind == 2 and file.is_file():
            file.write_bytes(file.read_bytes() * 20)
        elif file.is_file():
            file.write_bytes(mutated(file.read_bytes(), draws))
        return looks >= LOOKS

    wait(0.0)
    try:
        for event in events([place], [], wait):
            if len(event) > LOUDEST:
                return f"an event of {len(event):,} bytes"
            data = event.partition(b"data: ")[2].strip()
            json.loads(data or b"null", parse_constant=lambda constant: 1 / 0)
    except Exception:
        return traceback.format_exc()[-600:]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return "" if looks >= LOOKS else f"the stream ended after {looks} looks"


def fetched(home: Path, draws: Draws) -> str:
    """Bring a run home from a changed archive; say what went wrong."""
    from surefoot.errors import SurefootError
    from surefoot.records.remote import download

    place, name = home / f"fetched-{os.getpid()}", f"{draws.integers(1 << 30)}"
    shutil.rmtree(place, ignore_errors=True)
    content = _archive(home / "finished" / "run", draws)
    failing = draws.random() < 0.3
    system: MemoryFileSystem = Failing() if failing else MemoryFileSystem()
    Failing.after = int(draws.integers(0, 1 << 17))
    Failing.trouble = staticmethod(TROUBLES[int(draws.integers(len(TROUBLES)))])
    system.pipe_file(f"/runs/{name}.tar", content)
    outside = _outside(home)
    try:
        download(f"{'failing' if failing else 'memory'}://runs/{name}", place / "run")
    except SurefootError as error:
        said = str(error)
        return "" if said.startswith("Expected") and "\n" not in said else f"unclear: {said}"
    except Exception:
        return traceback.format_exc()[-600:]
    finally:
        links = [path for path in place.rglob("*") if path.is_symlink()] if place.exists() else []
        shutil.rmtree(place, ignore_errors=True)
        system.rm_file(f"/runs/{name}.tar")
    if links:
        return f"a link was made: {links[0].name}"
    return "" if _outside(home) == outside else "something was written outside of the folder"


def _outside(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir() if not path.name.startswith(("fetched-", "served-")))


def _archive(run: Path, draws: Draws) -> bytes:
    file, odd = io.BytesIO(), int(draws.integers(8))
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in sorted(run.rglob("*")):
            if path.is_file() and path.name != ".lock":
                archive.add(path, str(path.relative_to(run)))
        for member in _odd_members()[odd : odd + 1]:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return mutated(file.getvalue(), draws) if odd > 3 else file.getvalue()


def _odd_members() -> list[tarfile.TarInfo]:
    above, absolute, link, device = (tarfile.TarInfo(name) for name in ("../evil", "/tmp/evil", "spec.json", "pipe"))
    above.size = absolute.size = 3
    link.type, link.linkname, device.type = tarfile.SYMTYPE, "/etc/passwd", tarfile.FIFOTYPE
    return [above, absolute, link, device]


def read_there(home: Path, draws: Draws) -> str:
    """Audit a file at an address that fails in the midst; say what went wrong."""
    import surefoot as sf
    from surefoot.errors import SurefootError

    names = sorted(path.name for path in (home / "good").iterdir())
    name = names[int(draws.integers(len(names)))]
    content = (home / "good" / name).read_bytes()
    Failing.after = int(draws.integers(0, 2 * len(content)))
    Failing.trouble = staticmethod(TROUBLES[int(draws.integers(len(TROUBLES)))])
    Failing().pipe_file(f"/{name}", content)
    try:
        sf.audit(f"failing://{name}")
    except SurefootError as error:
        said = str(error)
        return "" if said.startswith("Expected") and "\n" not in said else f"unclear: {said}"
    except OSError as error:  # told by name on the command line
        from surefoot.troubles import told

        return "" if told(error) else f"{type(error).__name__}: {error}"
    except Exception:
        return traceback.format_exc()[-600:]
    return ""


ATTACKS = {"live page, changed folder": served, "run at an address": fetched, "file at an address": read_there}


def torture(home: Path, small: Path, n: int, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """Attack until there are enough attacks, or no time is left.

    Args:
        home: An empty folder.
        small: Data to train on.
        n: How many attacks.
        seconds: How long.
        seed: Of the attacks.

    Returns:
        How many of each kind, and what went wrong, its kind in front.
    """
    prepare(home, small)
    (home / "good").mkdir()
    for name, made in FORMATS.items():
        (home / "good" / name).write_bytes(made(*rows(np.random.default_rng(0))))
    until, counts, faults = time.monotonic() + seconds, Counter[str](), list[str]()
    while counts.total() < n and time.monotonic() < until:
        for number, kind in enumerate(ATTACKS):
            tried = (seed, number, counts[kind])
            ended = nursery.call(lambda kind=kind, tried=tried: _attack(home, kind, tried), home, slowest=60)
            told = [json.loads(line) for line in ended.out.splitlines() if line.startswith('"')]
            counts[kind] += TOGETHER
            faults += [f"{kind}: {each}" for each in told if each]
            if len(told) < TOGETHER:
                faults.append(f"{kind}: ended with {ended.code} after {len(told)} attacks: {ended.err[-300:]}")
    return counts, faults


def _attack(home: Path, kind: str, seed: tuple[int, ...]) -> None:
    """Make some attacks of a kind in this process, and tell what went wrong with each."""
    fsspec.register_implementation("failing", Failing, clobber=True)
    draws = np.random.default_rng(seed)
    for _ in range(TOGETHER):
        print(json.dumps(ATTACKS[kind](home, draws)), flush=True)
