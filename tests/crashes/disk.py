"""A disk that counts what is done to it, and at one chosen point fails, tears or drops it.

It stands in this process between Python and the system: in the place of ``open`` for writing, of ``os.fsync``,
``os.replace`` and their like, and of the one writer that is not Python, safetensors. A write is what reaches the
system, after buffers. What lies outside of the watched folder is let through uncounted.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOW = ("fail", "tear", "drop")
CRASHED = 77  # exit code of a process that ended at its point
_PATHS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "truncate", "link", "symlink")
_SAVERS = ("surefoot.training.checkpoint", "surefoot.calibrators._base")


@dataclass
class Disk:
    """Counts points below a folder, and does what is asked at one of them.

    Attributes:
        root: The folder that is watched.
        at: The number of the point, from 0; None to count only.
        how: ``fail`` raises that the disk is full, there and at the next write too; ``tear`` writes half of it and
            ends the process; ``drop`` ends the process before it.
        seen: What was done, in order: kind, and the path below the folder.
        reached: Paths below the folder that were written, under all names that they came to have.
    """

    root: Path
    at: int | None = None
    how: str = "drop"
    seen: list[tuple[str, str]] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)

    def watch(self) -> None:
        """Stand between this process and the system, until it ends."""
        real_open, disk = io.open, self

        class Raw(io.FileIO):
            def write(self, content: Any) -> int:
                def half() -> None:
                    super(Raw, self).write(memoryview(content).cast("B")[: max(1, memoryview(content).nbytes // 2)])

                disk._point("write", self.name, half)
                return super().write(content)

            def truncate(self, size: int | None = None) -> int:
                disk._point("truncate", self.name)
                return super().truncate(size)

        def opened(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **more: Any) -> Any:
            below = None if isinstance(file, int) or not set(mode) & set("wax+") else disk._below(file)
            if below is None:
                return real_open(file, mode, buffering, *rest, **more)
            disk.reached.add(below)
            if set(mode) & set("wx"):
                disk._point("create", file)
            plain = mode.replace("b", "").replace("t", "")
            raw = Raw(os.fspath(file), plain, opener=more.pop("opener", None))
            buffered: Any = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            if "b" in mode:
                return raw if buffering == 0 else buffered
            text = ("encoding", "errors", "newline")
            words = dict(zip(text, rest, strict=False)) | {key: more[key] for key in text if key in more}
            return io.TextIOWrapper(buffered, **words)

        builtins.open = io.open = opened  # type: ignore[assignment]
        for name in _PATHS:
            setattr(os, name, self._counted(name, getattr(os, name)))
        os.fsync = self._counted("fsync", os.fsync)
        for module in _SAVERS:
            self._save(module)

    def _counted(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def done(target: Any, *rest: Any, **more: Any) -> Any:
            self._point(kind, target)
            if kind in ("replace", "rename") and (new := self._below(rest[0])) and (old := self._below(target)):
                self.reached |= {new + name[len(old) :] for name in self.reached if f"{name}/".startswith(f"{old}/")}
            return real(target, *rest, **more)

        return done

    def _save(self, name: str) -> None:
        """Stand before the writer of tensors, which does its writing in one call."""
        module = __import__(name, fromlist=["save_file"])
        if (real := getattr(module, "save_file", None)) is None:
            return

        def save(tensors: Any, path: Any, *rest: Any, **more: Any) -> None:
            def half() -> None:
                real(tensors, path, *rest, **more)
                with open(os.open(path, os.O_RDWR), "r+b") as file:
                    file.truncate(os.path.getsize(path) // 2)

            self._point("write", path, half)
            real(tensors, path, *rest, **more)

        module.save_file = save  # type: ignore[attr-defined]

    def _below(self, target: Any) -> str | None:
        if isinstance(target, int):
            try:
                target = os.readlink(f"/proc/self/fd/{target}")
            except OSError:
                return None
        path = os.path.abspath(os.fsdecode(target))
        return os.path.relpath(path, self.root) if path.startswith(f"{self.root}{os.sep}") else None

    def _point(self, kind: str, target: Any, half: Callable[[], None] | None = None) -> None:
        name = self._below(target)
        if name is None:
            return
        self.seen.append((kind, name))
        if kind == "write":
            self.reached.add(name)
        number = len(self.seen) - 1
        if self.at is None or number < self.at:
            return
        if self.how == "fail":
            if number == self.at or kind in ("write", "create", "mkdir"):  # a full disk stays full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
            return
        if self.how == "tear" and half is not None:
            half()
        os._exit(CRASHED)
