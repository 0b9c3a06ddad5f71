"""Runs that are kept at an address: brought here, made, and sent back on the way and at the end.

Whoever makes a run sends its folder every half a minute, so that another machine can go on with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from surefoot.records import RunFolder
from surefoot.records.remote import download, finished_at, upload
from surefoot.studies.engine import Job, OnStep, make

SEND_EVERY = 30.0  # seconds between copies of a running run


def make_stored(job: Job, home: Path, on_step: OnStep) -> None:
    """Make a run whose folder is kept at an address, or go on with it.

    Args:
        job: What to make; its ``store`` is the address.
        home: The run folder where this worker is. What it holds already is newer than what is at the address.
        on_step: Called after every step.
    """
    address = str(job.store)
    if not job.fresh and RunFolder(home).run_id is None:
        download(address, home)
        if replace(job, path=home).is_done:
            return
    sent = time.monotonic()

    def tell(step: int, n_steps: int, loss: float) -> None:
        nonlocal sent
        on_step(step, n_steps, loss)
        if time.monotonic() - sent > max(SEND_EVERY, job.checkpoint_every):
            upload(home, address)
            sent = time.monotonic()

    make(job, home, tell)
    upload(home, address)


def not_sent(jobs: Sequence[Job]) -> set[Path]:
    """Return which of the finished runs did not reach their address, because whoever made them was stopped before.

    Args:
        jobs: Runs, of which those without an address are left out.

    Returns:
        Their folders.
    """
    addresses = {job.path: job.store.rpartition("/") for job in jobs if job.store}
    there = {folder: finished_at(folder) for folder, _, _ in addresses.values()}
    return {path for path, (folder, _, name) in addresses.items() if name not in there[folder]}
