"""The commands. Each imports what it needs when it is called, so that ``--help`` answers at once."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot import __version__
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.records import RunFolder
    from surefoot.registry import Part
    from surefoot.report.summary import Summary
    from surefoot.schema import Tracking

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
RUNS = Path("surefoot-runs")


Data = Annotated[str, typer.Option(help="Data set: fashion, npz:PATH, or your own as module:function.")]
Model = Annotated[str, typer.Option(help="Network: mlp, cnn, with options as mlp:width=100, or module:function.")]
Epochs = Annotated[int, typer.Option(help="Passes over the training split.")]
BatchSize = Annotated[int, typer.Option(help="Examples per step.")]
Lr = Annotated[float | None, typer.Option(help="Learning rate. Default: the optimizer's own, 0.1 for sgd.")]
Momentum = Annotated[float | None, typer.Option(help="Momentum. Default: the optimizer's own, 0.9 for sgd.")]
WeightDecay = Annotated[float | None, typer.Option(help="Weight decay. Default: the optimizer's own, 5e-4 for sgd.")]
Schedule = Annotated[str, typer.Option(help="Learning rate over time: cosine, linear or constant.")]
Threads = Annotated[int, typer.Option(help="Threads of torch; the last bits depend on it.")]
Device = Annotated[str, typer.Option(help="Where to train: cpu, cuda, …")]
Track = Annotated[
    str | None, typer.Option(help="Measure on the way: cheap, standard, full, or trackers as gn_sharpness:every=5.")
]
TrackBudget = Annotated[float | None, typer.Option(help="Share of the training time to spend on it, such as 0.1.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Train again, even what is finished.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; fractions, not percent.")]


def _show_version(value: bool) -> None:
    if value:
        print(f"surefoot {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def surefoot(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")] = False,
) -> None:
    """Classifiers that know how sure to be: train, measure and compare calibrated networks.

    Example: [bold]surefoot compare[/bold] trains SGD, SAM and CSAM on embedded data and says which one to trust.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def compare(
    methods: Annotated[
        str,
        typer.Option(help="Methods, separated by commas; options as csam:gamma=2,rho=0.1. The first is the baseline."),
    ] = "sgd,sam,csam",
    seeds: Annotated[str, typer.Option(help="How many seeds, or which: 3, or 0,1,5.")] = "3",
    data: Data = "fashion",
    model: Model = "mlp",
    epochs: Epochs = 40,
    batch_size: BatchSize = 128,
    lr: Lr = None,
    momentum: Momentum = None,
    weight_decay: WeightDecay = None,
    schedule: Schedule = "cosine",
    device: Device = "cpu",
    jobs: Annotated[int | None, typer.Option(help="Runs at once; else one per core.")] = None,
    track: Track = None,
    track_budget: TrackBudget = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs and report.html.")] = RUNS,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> int:
    """Train several methods with several seeds and say which one's confidence to trust.

    Runs that are finished already are not trained again; interrupted ones go on.

    Example: [bold]surefoot compare --methods sgd,sam,csam:gamma=2 --seeds 5[/bold]
    """
    from surefoot.cli.progress import showing
    from surefoot.method import split_methods
    from surefoot.report.summary import summarise
    from surefoot.studies.compare import compare as run_comparison
    from surefoot.studies.compare import make_spec, plan

    check_out(out)
    specs = [
        make_spec(
            method,
            data=data,
            model=model,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            epochs=epochs,
            batch_size=batch_size,
            schedule=schedule,
            device=device,
        )
        for method in split_methods(methods)
    ]
    planned = plan(specs, read_seeds(seeds), out, fresh=fresh, tracking=_tracking(track, track_budget))
    with showing({job.path: 1.0 if job.spec.method.base is None else 2.0 for job in planned}) as listen:
        comparison = run_comparison(planned, workers=jobs, listen=listen)
    for path, error in comparison.failed.items():
        print(f"Error: {path.name}: {error}", file=sys.stderr)
    if not comparison.runs:
        return 1
    _present(summarise(comparison.runs), out / "report.html", as_json)
    return 1 if comparison.failed else 0


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="The run folder.")],
    method: Annotated[str, typer.Option(help="Method, with options as csam:gamma=2 or label_smoothing + sam.")] = "sgd",
    seed: Annotated[int, typer.Option(help="Determines weights at the start, order of examples, dropout.")] = 0,
    data: Data = "fashion",
    model: Model = "mlp",
    epochs: Epochs = 40,
    batch_size: BatchSize = 128,
    lr: Lr = None,
    momentum: Momentum = None,
    weight_decay: WeightDecay = None,
    schedule: Schedule = "cosine",
    device: Device = "cpu",
    threads: Threads = 1,
    track: Track = None,
    track_budget: TrackBudget = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints; 0: every step.")] = 5.0,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Train one run. Started again, an interrupted one goes on to the very same bits.

    Example: [bold]surefoot train --method csam --seed 7 --out runs/csam-7[/bold]
    """
    from surefoot.cli.progress import showing
    from surefoot.experiment import run
    from surefoot.studies.compare import make_spec
    from surefoot.studies.engine import Job, News

    check_out(out)
    spec = make_spec(
        method,
        data=data,
        model=model,
        lr=lr,
        momentum=momentum,
        weight_decay=weight_decay,
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        schedule=schedule,
        device=device,
    )
    job = Job(spec, out, fresh)
    with showing({out: 1.0}) as listen:
        folder = run(
            spec,
            out,
            fresh=fresh,
            threads=threads,
            checkpoint_every=checkpoint_every,
            tracking=_tracking(track, track_budget),
            on_progress=lambda step, n_steps, loss: listen(News(job, step, n_steps, loss)),
        )
    _print_run(folder, as_json)


@app.command()
def measure(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    track: Annotated[str, typer.Option(help="What to measure: cheap, standard, full, or trackers by name.")] = "full",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Measure finished runs after the fact, at their checkpoints: curvature, margins, certificates.

    What was measured is added to the run folders, where `surefoot report` finds it.

    Example: [bold]surefoot measure surefoot-runs --track full[/bold]
    """
    from surefoot.experiment import measure as measure_run
    from surefoot.records import find_runs
    from surefoot.trackers import read_track

    trackers = read_track(track)
    found = {str(run.path): measure_run(run.path, trackers, threads=threads) for run in find_runs(runs)}
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for path, records in found.items():
        print(path)
        for record in records:
            print(f"  {record['tracker']}, step {record['step']}")
            values = {key: value for key, value in record.items() if "/" in key or key == "failed"}
            for key, value in values.items():
                print(f"    {key:<44} {value if value is None or isinstance(value, str) else format(value, '.5g')}")


@app.command()
def report(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run folders, or folders that hold some.")] = None,
    out: Annotated[Path | None, typer.Option(help="The page; else report.html beside the runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build the table and the page again from run folders; the first run's method is the baseline.

    Example: [bold]surefoot report surefoot-runs --out report.html[/bold]
    """
    from surefoot.records import find_runs
    from surefoot.report.summary import summarise

    where = runs or [RUNS]
    found = find_runs(where)
    first = where[0]
    beside = first.parent if (first / "spec.json").exists() else first
    _present(summarise(found), out or beside / "report.html", as_json)


@app.command("list")
def list_parts(
    kind: Annotated[str | None, typer.Argument(help="optimizers, losses, metrics, data, models, …")] = None,
    as_json: AsJson = False,
) -> None:
    """Show every optimizer, loss, metric, calibrator, model, data set and tracker with its options.

    Example: [bold]surefoot list optimizers[/bold]
    """
    from surefoot.registry import KINDS

    if kind is not None and kind not in KINDS:
        raise InputError(f"Expected a kind of part, but got {kind!r}. Choose from {', '.join(KINDS)}.")
    chosen = {name: registry for name, registry in KINDS.items() if kind in (None, name)}
    if as_json:
        found = {name: [_describe(part) for part in registry] for name, registry in chosen.items()}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    for name, registry in chosen.items():
        table = Table("name", "what it is", "options", title=name, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for part in registry:
            table.add_row(part.name, part.summary, ", ".join(map(str, part.options.values())))
        Console().print(table, "")


def _describe(part: Part) -> dict[str, Any]:
    return {"name": part.name, "summary": part.summary, "options": [str(option) for option in part.options.values()]}


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


def _tracking(track: str | None, budget: float | None) -> Tracking:
    """Read --track and --track-budget; a budget alone stretches the standard preset."""
    from surefoot.schema import Tracking
    from surefoot.trackers import read_track

    if track is None and budget is None:
        return Tracking()
    return Tracking(read_track(track or "standard"), budget)


def check_out(out: Path) -> None:
    """Refuse a file where a folder is to be."""
    if out.exists() and not out.is_dir():
        raise InputError(f"Expected --out to be a folder, but {out} is a file. Choose another name.")


def _present(summary: Summary, page: Path, as_json: bool) -> None:
    from surefoot.report.page import write_page

    command = shlex.join(["surefoot", *sys.argv[1:]])
    written = write_page(summary, page, command=command)
    if as_json:
        print(json.dumps({**summary.to_json(), "report": str(written)}, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from surefoot.report.tables import summary_table

    console = Console()
    console.print(summary_table(summary, width=console.width))
    console.print(summary.verdict(), highlight=False, markup=False)
    print(f"Report: {written}")


def _print_run(folder: RunFolder, as_json: bool) -> None:
    from surefoot.report.summary import summarise

    row = summarise([folder]).rows[0].to_json()
    if as_json:
        print(json.dumps({**row, "run": str(folder.path)}, indent=2, ensure_ascii=False))
        return
    accuracy, ece, tce = (100 * row[key]["mean"] for key in ("accuracy", "ece", "tce"))
    cost = f"{row['passes']:,.0f} gradient passes, {row['seconds']:.1f} s"
    print(f"accuracy {accuracy:.2f} %, ECE {ece:.2f} % ({tce:.2f} % after temperature scaling); {cost}")
    print(f"Run: {folder.path}")
