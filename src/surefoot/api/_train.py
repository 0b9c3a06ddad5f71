"""One run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from surefoot.api._runs import Run
from surefoot.errors import InputError
from surefoot.schema import CHECKPOINT_EVERY, RunSpec
from surefoot.settings import Settings, Watching, spread

if TYPE_CHECKING:
    from surefoot.studies.engine import Job, Listener, Logging

    Progress = Callable[[Sequence[Job]], Listener]

LOG = "Where to watch it live: tensorboard, mlflow, wandb or csv; several with commas."
KEEP = "Keep one every so many epochs for `surefoot measure`; 0: the newest only."


@spread
def train(
    spec: RunSpec | None = None,
    *,
    out: Annotated[Path | str, "The run folder."],
    method: Annotated[str, "Method, with options as csam:gamma=2, csam:tune=auto or focal + deep + sam."] = "sgd",
    settings: Settings,
    watching: Watching,
    seed: Annotated[int, "Determines weights at the start, order of examples, dropout."] = RunSpec.seed,
    threads: Annotated[int, "Threads of torch; the last bits depend on it."] = 1,
    checkpoint_every: Annotated[float, "Seconds between checkpoints; 0: every step."] = CHECKPOINT_EVERY,
    keep_checkpoints: Annotated[int, KEEP] = 0,
    log: Annotated[str | Sequence[str] | None, LOG] = None,
    fresh: Annotated[bool, "Train again, even what is finished."] = False,
    shard: Annotated[str, "On processes of torchrun: none keeps the network in each, fsdp2 a part of it."] = "none",
    load_workers: Annotated[int, "Processes that read pictures ahead, of data with in_memory=false."] = 2,
    progress: Progress | None = None,
) -> Run:
    """Train one run. Started again, an interrupted one goes on to the very same bits.

    The keywords are the options of ``surefoot train``; ``help(surefoot.train)`` lists all.

    Args:
        spec: All that determines the run, instead of ``method``, ``seed``, ``data`` and so on.
        out: The run folder.
        method: For example ``"csam:gamma=2"`` or ``"focal + deep + sam"``.
        settings: Data, model, epochs and all else that determines a run.
        watching: What to measure on the way.
        seed: Determines weights at the start, order of examples, dropout.
        threads: Threads of torch; the last bits depend on it.
        checkpoint_every: Seconds between checkpoints; 0 for every step.
        keep_checkpoints: Epochs between checkpoints that stay; 0 keeps the newest only.
        log: Where to write every record as it is made, see :mod:`surefoot.integrations.logging`; the run is the same.
        fresh: Train again, even what is finished.
        shard: Of several processes that ``torchrun`` has started, whether each holds the whole network (``none``) or a
            part of it (``fsdp2``).
        load_workers: Processes that read data ahead which are not in memory; the run is the same.
        progress: Called with the run to be made; gives a function that is called with news of it.

    Returns:
        The finished run.

    Raises:
        InputError: If the options cannot be used, or the folder holds another run.
    """
    from surefoot.experiment import run
    from surefoot.studies.engine import Job, News

    out = check_out(out)
    if spec is None:
        spec = settings.spec(method, seed=seed)
    elif (method, seed, asdict(settings)) != ("sgd", RunSpec.seed, asdict(Settings())):
        raise InputError("Expected a spec or settings such as method=, but got both. Leave one of them out.")
    logs = read_logs(log)
    job = Job(spec, out, fresh)
    listen = (progress or _silently)([job])
    folder = run(
        spec,
        out,
        fresh=fresh,
        threads=threads,
        checkpoint_every=checkpoint_every,
        keep_every=keep_checkpoints,
        tracking=watching.tracking(),
        on_progress=lambda step, n_steps, loss: listen(News(job, step, n_steps, loss)),
        listener=logs() if logs is not None else None,
        shard=shard,
        load_workers=load_workers,
    )
    return Run(folder)


def _silently(jobs: Sequence[Job]) -> Listener:
    return lambda news: None


def read_logs(log: str | Sequence[str] | None) -> Logging | None:
    """Find out before a training starts whether it can be logged as asked for."""
    if log is None:
        return None
    from surefoot.integrations.logging import Logs

    return Logs.of(log)


def check_out(out: Path | str) -> Path:
    """Refuse a file where a folder is to be."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"Expected --out to be a folder, but {out} is a file. Choose another name.")
    return out
