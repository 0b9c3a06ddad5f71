"""The commands that train: ``compare`` and ``train``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.app import RUNS, AsJson, Threads, app
from surefoot.cli.settings import Settings, Watching, spread
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.schema import MethodSpec

Fresh = Annotated[bool, typer.Option("--fresh", help="Train again, even what is finished.")]
KeepCheckpoints = Annotated[
    int, typer.Option(help="Keep one every so many epochs for `surefoot measure`; 0: the newest only.")
]


@app.command()
@spread
def compare(
    settings: Settings,
    watching: Watching,
    methods: Annotated[
        str,
        typer.Option(help="Methods, separated by commas; options as csam:gamma=2,rho=0.1. The first is the baseline."),
    ] = "sgd,sam,csam",
    seeds: Annotated[str, typer.Option(help="How many seeds, or which: 3, or 0,1,5.")] = "3",
    jobs: Annotated[int | None, typer.Option(help="Runs at once; else one per core.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs and report.html.")] = RUNS,
    keep_checkpoints: KeepCheckpoints = 0,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> int:
    """Train several methods with several seeds and say which one's confidence to trust.

    Runs that are finished already are not trained again; interrupted ones go on.

    Example: [bold]surefoot compare --methods sgd,sam,csam:gamma=2 --seeds 5[/bold]
    """
    from surefoot.cli.progress import showing
    from surefoot.cli.show import show_summary
    from surefoot.method import split_methods
    from surefoot.report.document import check_page
    from surefoot.report.summary import summarise
    from surefoot.studies.compare import compare as run_comparison
    from surefoot.studies.compare import plan

    check_out(out)
    check_page(out / "report.html")  # before hours of training, not after them
    specs = [settings.spec(method) for method in split_methods(methods)]
    planned = plan(
        specs, read_seeds(seeds), out, fresh=fresh, tracking=watching.tracking(), keep_every=keep_checkpoints
    )
    with showing({job.path: _weight(job.spec.method) for job in planned}) as listen:
        comparison = run_comparison(planned, workers=jobs, listen=listen)
    for path, error in comparison.failed.items():
        print(f"Error: {path.name}: {error}", file=sys.stderr)
    if not comparison.runs:
        return 1
    show_summary(summarise(comparison.runs), out / "report.html", as_json)
    return 1 if comparison.failed else 0


@app.command()
@spread
def train(
    out: Annotated[Path, typer.Option(help="The run folder.")],
    settings: Settings,
    watching: Watching,
    method: Annotated[str, typer.Option(help="Method, with options as csam:gamma=2 or focal + deep + sam.")] = "sgd",
    seed: Annotated[int, typer.Option(help="Determines weights at the start, order of examples, dropout.")] = 0,
    threads: Threads = 1,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints; 0: every step.")] = 5.0,
    keep_checkpoints: KeepCheckpoints = 0,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Train one run. Started again, an interrupted one goes on to the very same bits.

    Example: [bold]surefoot train --method csam --seed 7 --out runs/csam-7[/bold]
    """
    from surefoot.cli.progress import showing
    from surefoot.cli.show import show_run
    from surefoot.experiment import run
    from surefoot.studies.engine import Job, News

    check_out(out)
    spec = settings.spec(method, seed=seed)
    job = Job(spec, out, fresh)
    with showing({out: 1.0}) as listen:
        folder = run(
            spec,
            out,
            fresh=fresh,
            threads=threads,
            checkpoint_every=checkpoint_every,
            keep_every=keep_checkpoints,
            tracking=watching.tracking(),
            on_progress=lambda step, n_steps, loss: listen(News(job, step, n_steps, loss)),
        )
    show_run(folder, as_json)


def _weight(method: MethodSpec) -> float:
    """Guess how long a run takes beside others."""
    members = method.ensemble.options.get("members", 1) if method.ensemble else 1
    return (1.0 if method.base is None else 2.0) * float(members or 1)


def read_seeds(text: str) -> list[int]:
    """Read seeds as people type them: how many, or which."""
    try:
        numbers = [int(piece) for piece in text.split(",") if piece.strip()]
    except ValueError as error:
        raise InputError(f"Expected seeds as a number or a list, but got {text!r}. Write 3, or 0,1,5.") from error
    seeds = list(range(numbers[0])) if len(numbers) == 1 and "," not in text else list(dict.fromkeys(numbers))
    if not seeds or min(seeds) < 0:
        raise InputError(f"Expected at least one seed ≥ 0, but got {text!r}. Write 3, or 0,1,5.")
    return seeds


def check_out(out: Path) -> None:
    """Refuse a file where a folder is to be."""
    if out.exists() and not out.is_dir():
        raise InputError(f"Expected --out to be a folder, but {out} is a file. Choose another name.")
