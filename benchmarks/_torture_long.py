"""What takes long, for ``torture.py``: ranks and machines that are lost or slow, hundreds of runs in one command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load
from tests.crashes.commands import SETTINGS
from tests.runs import content

ROOT = Path(__file__).parents[1]
TESTS = {
    "DDP rank killed": "tests/training/test_ranks.py::test_a_killed_rank_loses_nothing",
    "FSDP2, one process goes on": "tests/training/test_ranks.py::test_one_process_ends_what_two_began_in_shards",
    "Ray worker and node killed": "tests/studies/test_ray.py::test_a_comparison_loses_a_worker_and_a_machine",
    "Ray head killed": "tests/studies/test_ray_head.py::test_a_comparison_loses_the_head_and_goes_on_with_another",
}
RANKS = ["--data", "digits", "--model", "mlp:width=16", "--epochs", "4", "--method", "csam:perturbation=synchronised"]
PATIENCE = 600  # seconds, for one of them
GROWTH = 1.15  # of memory, from the first third of a long comparison to the last


def _env() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def tests() -> dict[str, str]:
    """Run the tests of what is lost on several processes and machines; say how each ended."""
    found = {}
    for name, test in TESTS.items():
        words = [sys.executable, "-m", "pytest", test, "-p", "no:randomly"]
        try:
            done = subprocess.run(
                words, cwd=ROOT, env=_env(), capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            found[name] = "as documented" if not done.returncode else done.stdout[-600:]
        except subprocess.TimeoutExpired:
            found[name] = f"not over after {PATIENCE} s"
    return found


def ranks(home: Path, how: str, shard: str) -> str:
    """Stop a rank for seconds, or slow it down, and compare the run with an undisturbed one.

    Args:
        home: An empty folder.
        how: ``stopped`` or ``slowed``.
        shard: ``none`` for DDP, or ``fsdp2``.

    Returns:
        How it ended.
    """
    home.mkdir(parents=True)
    for name in ("whole", "disturbed"):
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "surefoot"]
        words += ["train", "--out", name, "--shard", shard, "--load-workers", "0", *RANKS]
        with subprocess.Popen(
            words, cwd=home, env=_env(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as running:
            if name == "disturbed":
                _disturb(running, home / name, how)
            _, err = running.communicate()
        if running.returncode:
            return f"ended with {running.returncode}: {err.decode()[-300:]}"
    whole, disturbed = content(home / "whole"), content(home / "disturbed")
    differ = [
        name
        for name in whole
        if name != "run.toml" and not _is_same(name, whole[name], disturbed.get(name), is_sharded=shard != "none")
    ]
    shutil.rmtree(home)
    return f"other bytes in {', '.join(differ)}" if differ else "the same bits"


def _is_same(name: str, one: bytes, other: bytes | None, *, is_sharded: bool) -> bool:
    """Compare files by their bytes; shards by their tensors, for safetensors writes its notes in any order."""
    if other is None or not is_sharded:
        return one == other
    if "/shard-" in name:
        first, second = load(one), load(other)
        return first.keys() == second.keys() and all(np.array_equal(first[key], second[key]) for key in first)
    return one == other or name.endswith("checksums.json")  # of these files


def _disturb(running: subprocess.Popen[bytes], out: Path, how: str) -> None:
    while not (out / "steps.jsonl").exists() and running.poll() is None:
        time.sleep(0.05)
    children = _children(running.pid)
    if not children:
        return
    for _ in range(1 if how == "stopped" else 20):
        try:
            os.kill(children[-1], signal.SIGSTOP)
            time.sleep(8.0 if how == "stopped" else 0.2)
            os.kill(children[-1], signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            found.append(int(path.parent.name))
    return sorted(found)


def soak(home: Path, small: Path, n: int) -> dict[str, float | str]:
    """Make many runs in one comparison with two workers, and look at memory and page.

    Args:
        home: An empty folder.
        small: Data to train on.
        n: How many runs.

    Returns:
        Runs, seconds, megabytes of each process in the first and the last third, and of the page.
    """
    home.mkdir(parents=True)
    shutil.copyfile(small, home / "small.npz")
    words = [sys.executable, "-m", "surefoot", "compare", "--out", "runs", "--methods", "sgd,sam", "--jobs", "2"]
    words += ["--seeds", str(n // 2), *SETTINGS.split()]
    seen: dict[int, list[float]] = {}
    began = time.monotonic()
    with subprocess.Popen(words, cwd=home, env=_env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            for pid in [running.pid, *_children(running.pid)]:
                if held := _megabytes(pid):
                    seen.setdefault(pid, []).append(held)
            time.sleep(0.5)
    found: dict[str, float | str] = {"exit code": running.returncode, "seconds": round(time.monotonic() - began, 1)}
    found["runs finished"] = len(list((home / "runs").glob("*/done.json")))
    for number, held in enumerate(each for each in seen.values() if len(each) > 8):
        third = len(held) // 3
        first, last = sum(held[third : 2 * third]) / third, sum(held[-third:]) / third
        flat = "flat" if last <= GROWTH * first else "GROWS"
        found[f"process {number}, MB in the second and last third"] = f"{first:.0f} to {last:.0f}: {flat}"
    page = (home / "runs" / "report.html").stat().st_size / 1e6
    found["page, MB"] = f"{page:.3f}"
    return found


def _megabytes(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0
