"""Attack surefoot as machines and files do, and count what breaks.

    python benchmarks/torture.py                             # all parts, for at most 60 minutes
    python benchmarks/torture.py --quick                     # a taste of each, minutes
    python benchmarks/torture.py --only files --minutes 30   # one part
    python benchmarks/torture.py --only kills --seed 7

``kills``: commands are killed at random moments (SIGKILL) and run again. ``crashes``: every write, fsync and rename of
a command fails, is torn or is dropped, and it is run again. ``files``: changed and made-up files of all formats meet
all commands that read them; an independent reader says what the right answer is. ``places``: the live page follows
changed folders, and what lies at an address is changed or fails in the midst. ``disk``: the disk is full at random
places, and surroundings lack something. ``ranks``: ranks are killed, stopped and slowed, machines of a cluster lost.
``soak``: hundreds of runs in one comparison. Every figure is a count of faults, with the number of attempts beside it;
faults are told in words below. Runs on Linux.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

PARTS = ("crashes", "files", "places", "disk", "kills", "ranks", "soak")
SHARE = {
    "crashes": 0.35,
    "files": 0.25,
    "places": 0.05,
    "disk": 0.1,
    "kills": 0.25,
    "ranks": 0.0,  # takes as long as it takes, and so does the next
    "soak": 0.0,
}  # of the time


def main() -> None:
    """Do the parts that are asked for, each in a process of its own, which forks."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", choices=PARTS, action="append", help="a part; can be given again")
    asked.add_argument("--minutes", type=float, default=60.0, help="at most, but for what a part has begun")
    asked.add_argument("--quick", action="store_true", help="a taste of each")
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    parts = given.only or PARTS
    whole = sum(SHARE[part] for part in parts) or 1.0
    share = {part: SHARE[part] / whole for part in parts}
    for part in parts:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            with tempfile.TemporaryDirectory(dir=_fast()) as home:
                _do(part, Path(home), 60 * given.minutes * share[part], given.quick, given.seed)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


def _fast() -> str | None:
    """Prefer a disk in memory: what is tested is the order of writes, and a sync takes long on others."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _do(part: str, home: Path, seconds: float, quick: bool, seed: int) -> None:
    from tests.conftest import small_arrays

    small, began = home / "small.npz", time.monotonic()
    np.savez(small, **small_arrays())
    do = {"crashes": _crashes, "files": _files, "places": _places, "disk": _disk, "kills": _kills, "ranks": _ranks}
    {**do, "soak": _soak}[part](home / "work", small, seconds, quick, seed)
    print(f"{part}: {time.monotonic() - began:.0f} s\n")


def _crashes(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    from tests.crashes.commands import COMMANDS
    from tests.crashes.nursery import raise_children
    from tests.crashes.points import torture

    raise_children()
    until = time.monotonic() + seconds
    print(f"{'crash points of':<24}{'points':>8}{'crashes':>9}{'faults':>8}{'around the doors':>18}")
    for name in COMMANDS:
        if time.monotonic() > until:
            print(f"{name:<24}{'not reached in time':>24}")
            continue
        found = torture(name, home / "one", small, every=23 if quick else 1, first=seed if quick else 0)
        print(f"{name:<24}{found.points:>8}{found.tried:>9}{len(found.faults):>8}{len(found.around):>18}", flush=True)
        _tell([*found.faults, *(f"{name}: {file} was written around the doors" for file in found.around)])


def _files(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    import _torture_files as files
    import pandas as pd  # noqa: F401 — imported before the children are
    from tests.crashes.nursery import raise_children

    raise_children()
    found = files.torture(home, small, 300 if quick else 10_000, seconds, seed)
    print(f"{'files':<36}{'cases':>9}{'answered':>10}{'judged':>8}")
    for kind, n in sorted(found.cases.items()):
        print(f"{kind:<36}{n:>9}{found.answered[kind]:>10}{found.judged[kind]:>8}")
    print(f"{'all':<36}{found.cases.total():>9}{found.answered.total():>10}{found.judged.total():>8}")
    print("  ".join(f"{fault}: {found.faults[fault]}" for fault in files.FAULTS))
    _tell(found.said)


def _places(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    import _torture_places as places
    from tests.crashes.nursery import raise_children

    raise_children()
    counts, faults = places.torture(home, small, 180 if quick else 3_000, seconds, seed)
    for name, n in counts.items():
        print(f"{name:<36}{n:>6} tried, faults: {sum(fault.startswith(name) for fault in faults)}")
    _tell(faults)


def _disk(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    import _torture_disk as disk
    from tests.crashes.nursery import raise_children

    raise_children()
    counts, faults = disk.torture(home, small, 5 if quick else 20, seed)
    for name, n in counts.items():
        print(f"{name:<36}{n:>4} tried, faults: {sum(fault.startswith(name) for fault in faults)}")
    _tell(faults)


def _kills(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    import _torture_kills as kills
    from tests.crashes.nursery import raise_children

    raise_children(inline=False)
    counts, faults = kills.torture(home, small, 15 if quick else 200, seconds, seed)
    print(f"SIGKILLs: {counts['kills']} (and {counts['too late']} that came too late)")
    kinds = ("differing files", "orphans", "left-over files", "refused")
    print("  ".join(f"{kind}: {counts[kind]}" for kind in kinds))
    _tell(faults)


def _ranks(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    import _torture_long as long

    for how, shard in (("stopped", "none"), ("slowed", "none"), ("stopped", "fsdp2"), ("slowed", "fsdp2")):
        print(
            f"rank {how}, {'DDP' if shard == 'none' else 'FSDP2'}: {long.ranks(home / how / shard, how, shard)}",
            flush=True,
        )
    for name, how in ({} if quick else long.tests()).items():
        print(f"{name}: {how}", flush=True)


def _soak(home: Path, small: Path, seconds: float, quick: bool, seed: int) -> None:
    import _torture_long as long

    for name, value in long.soak(home, small, 30 if quick else 300).items():
        print(f"soak, {name}: {value}")


def _tell(faults: list[str]) -> None:
    for fault in faults:
        print(f"  FAULT {fault}", flush=True)


if __name__ == "__main__":
    main()
