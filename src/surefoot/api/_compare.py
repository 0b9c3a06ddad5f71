"""Several methods with several seeds, and sweeps over their options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from surefoot.api._runs import Run
from surefoot.api._search import Searching, lay_out, make_searches
from surefoot.api._text import as_text
from surefoot.api._train import KEEP, LOG, read_logs
from surefoot.clusters import kept, refuse_launched
from surefoot.config import COMPARISON, to_toml
from surefoot.errors import InputError, RunError, SurefootError
from surefoot.grid import expand_grid
from surefoot.method import split_methods
from surefoot.settings import Placement, Settings, Watching, spread

if TYPE_CHECKING:
    from surefoot.api._train import Progress
    from surefoot.records import RunFolder
    from surefoot.report.grid import Grid
    from surefoot.report.summary import Summary
    from surefoot.schema import RunSpec

RUNS = Path("surefoot-runs")


@dataclass(frozen=True)
class ComparisonReport:
    """What a comparison found; printed, it is what ``surefoot compare`` prints.

    Attributes:
        runs: Every finished run, those of all settings of a grid too.
        failed: What went wrong, by run folder.
        summary: The methods, and the chosen setting of each grid, side by side.
        grids: The sweeps.
        page: The page that was written, or is to be.
        note: Which methods were given more settings to choose from than others; empty if none were.
        store: The address where runs and page are kept too.
    """

    runs: tuple[Run, ...]
    failed: Mapping[Path, SurefootError]
    summary: Summary
    grids: tuple[Grid, ...]
    page: Path
    note: str = ""
    store: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, not percent."""
        from surefoot.report.choice import to_json

        grids = {"grids": [grid.to_json() for grid in self.grids]} if self.grids else {}
        more = {key: value for key, value in (("note", self.note), ("store", self.store)) if value}
        return {**to_json(self.summary), **grids, **more, "report": str(self.page)}

    def parts(self, width: int = 100) -> Iterator[Any]:
        """Lay everything out for a terminal: tables and texts that rich prints.

        Args:
            width: Columns of the terminal.

        Yields:
            The sweeps, the comparison and the verdict.
        """
        from surefoot.report.choice import verdict
        from surefoot.report.grid import grid_table
        from surefoot.report.tables import summary_table

        for grid in self.grids:
            yield grid_table(grid)
            yield f"{grid.sentence()}\n"
        if self.note:
            yield f"{self.note}\n"
        yield summary_table(self.summary, width=width)
        yield verdict(self.summary)

    def write_page(self, *, command: str | None = None) -> Path:
        """Write the page, and send it to where the runs are kept too.

        Args:
            command: What was typed.

        Returns:
            The page.
        """
        from surefoot.records.remote import send_file
        from surefoot.report.page import write_page

        written = write_page(self.summary, self.page, command=command, grids=self.grids)
        for file in (written, self.page.with_name(COMPARISON)) if self.store else ():
            send_file(file, str(self.store))
        return written

    def __str__(self) -> str:
        """Write what ``surefoot compare`` prints."""
        return as_text(self.parts())


@spread
def compare(
    *,
    methods: Annotated[
        str | Sequence[str],
        "Methods, separated by commas; options as csam:gamma=2,rho=0.1. The first is the baseline.",
    ] = "sgd,sam,csam",
    grid: Annotated[
        str | Sequence[str],
        "Choose a method's options on the calibration split: csam:rho=0.05|0.1|0.2,gamma=0|1. Can be given again.",
    ] = (),
    choose_by: Annotated[str, "What settings are chosen by: nll, ece, brier or another metric."] = "nll",
    metrics: Annotated[
        str | Sequence[str] | None,
        "What to show: ece,nll,brier; ece:n_bins=30; ece@temperature; your own as module:function.",
    ] = None,
    searching: Searching,
    settings: Settings,
    watching: Watching,
    seeds: Annotated[str | int | Sequence[int], "How many seeds, or which: 3, or 0,1,5."] = 3,
    out: Annotated[str | Path, "Folder for the runs and report.html, or an address such as s3://bucket/runs."] = RUNS,
    placement: Placement,
    keep_checkpoints: Annotated[int, KEEP] = 0,
    log: Annotated[str | Sequence[str] | None, LOG] = None,
    fresh: Annotated[bool, "Train again, even what is finished."] = False,
    progress: Progress | None = None,
    command: str | None = None,
    page: bool = True,
) -> ComparisonReport:
    """Train several methods with several seeds and say which one's confidence to trust.

    Finished runs are not trained again; interrupted ones go on. The keywords are the options of ``surefoot compare``;
    ``help(surefoot.compare)`` lists all. Of each grid one setting is compared with the methods: the one with the best
    mean on the calibration split. The test split judges it and has no say in the choice.

    Args:
        methods: The first is the baseline.
        grid: Sweeps over options, as ``csam:rho=0.05|0.1|0.2,gamma=0|1|2``.
        searching: Searches over ranges, as ``csam:rho=0.02..0.5 log``; how many settings each tries, and whether
            hopeless ones are stopped early.
        choose_by: What a setting is chosen by: a proper score, the NLL, unless told otherwise.
        metrics: What to show in table and page; else accuracy, ECE, NLL and ECE after temperature scaling. What a run
            does not hold yet is computed from its predictions.
        settings: Data, model, epochs and all else that determines a run.
        watching: What to measure on the way.
        seeds: How many, or which.
        out: Folder for the runs, ``report.html`` and ``compare.toml``; or an address, of which a folder in
            ``surefoot-runs`` here has the same.
        placement: Where the runs are made, how many at once, and what each takes.
        keep_checkpoints: Epochs between checkpoints that stay; 0 keeps the newest only.
        log: Where to write every record as it is made, see :mod:`surefoot.integrations.logging`; runs are the same.
        fresh: Train again, even what is finished.
        progress: Called with the runs to be made; gives a function that is called with news of each.
        command: What was typed, for the page.
        page: Write the page; else :meth:`ComparisonReport.write_page` does, when the answer is told.

    Returns:
        The comparison.

    Raises:
        RunError: If no run of the methods finished.
    """
    refuse_launched("compare")
    from surefoot.api._places import find_place
    from surefoot.experiment import folder_name
    from surefoot.metric_keys import read_metrics
    from surefoot.report.document import check_page
    from surefoot.report.grid import check_choice, choose_setting, effort_note
    from surefoot.report.summary import summarise
    from surefoot.studies.compare import compare as make_runs
    from surefoot.studies.compare import plan

    out, placement = find_place(out, placement)
    check_page(out / "report.html")  # before hours of training, not after them
    decides, logs, tracking = check_choice(choose_by), read_logs(log), watching.tracking()
    shown = read_metrics(metrics) if metrics else None
    every_grid = [grid] if isinstance(grid, str) else list(grid)
    texts, pruned = ([], every_grid) if searching.prune == "asha" else (every_grid, [])
    named = split_methods(methods) if isinstance(methods, str) else list(methods)
    chosen_seeds = read_seeds(seeds)
    specs = [settings.spec(method) for method in named]
    sweeps = {text: [settings.spec(method) for method in expand_grid(text)] for text in texts}
    every = [*specs, *(spec for sweep in sweeps.values() for spec in sweep)]
    more: dict[str, Any] = {"fresh": fresh, "tracking": tracking, "keep_every": keep_checkpoints, "log": logs}
    if every:
        plan(every, chosen_seeds, out)  # refuses what cannot run before the first search
    hunts = lay_out(searching, pruned, settings, decides, seeds=chosen_seeds, out=out, placement=placement)
    words: dict[str, Any] = {"methods": named, "grid": every_grid or None, "choose_by": choose_by, "metrics": shown}
    words |= {"search": searching.texts or None, "trials": searching.trials, "prune": searching.prune} if hunts else {}
    words |= {"seeds": chosen_seeds, **asdict(settings), **asdict(watching), "keep_checkpoints": keep_checkpoints}
    _write_config(out, words)
    with kept():
        searches, failed = make_searches(hunts, decides, progress, fresh)
        found = [each.chosen.runs[0].spec for each in searches if each.chosen]
        if hunts and not every and not found:
            raise RunError(f"Expected a setting to train, but there is none. {searches[0].sentence()}")
        todo = plan([*every, *found], chosen_seeds, out, store=placement.store, **more)
        made = make_runs(todo, placement=placement, listen=progress(todo) if progress else None)
    done = {run.path: run for run in made.runs}

    def finished(these: Sequence[RunSpec]) -> list[RunFolder]:
        paths = [out / folder_name(replace(spec, seed=seed)) for spec in these for seed in chosen_seeds]
        return [done[path] for path in paths if path in done]

    grids = [choose_setting(text, finished(sweep), decides, len(chosen_seeds)) for text, sweep in sweeps.items()]
    compared = [*finished(specs), *(run for each in grids if each.chosen for run in each.chosen.runs), *finished(found)]
    grids += searches
    if not compared:
        why = next((str(error) for error in made.failed.values()), "No setting of a grid beats a constant answer.")
        raise RunError(f"Expected at least one run to compare, but there is none. {why}")
    runs, note, where = tuple(map(Run, made.runs)), effort_note(named, grids), out / "report.html"
    every_failure, summary = {**failed, **made.failed}, summarise(compared, shown)
    report = ComparisonReport(runs, every_failure, summary, tuple(grids), where, note, placement.store)
    if page:
        report.write_page(command=command)
    return report


def _write_config(out: Path, words: Mapping[str, Any]) -> None:
    from surefoot.records import write_bytes

    out.mkdir(parents=True, exist_ok=True)
    write_bytes(out / COMPARISON, to_toml(words).encode())


MOST_SEEDS = 10_000


def read_seeds(seeds: str | int | Sequence[int]) -> list[int]:
    """Read seeds as people write them: how many, or which.

    Args:
        seeds: A number, numbers, or a text such as ``"3"`` or ``"0,1,5"``.

    Returns:
        The seeds, each once.

    Raises:
        InputError: If they are no numbers, or there is none.

    Example:
        >>> read_seeds(3), read_seeds("0,1,5"), read_seeds([7])
        ([0, 1, 2], [0, 1, 5], [7])
    """
    if not isinstance(seeds, str | int):
        seeds = ",".join(map(str, seeds)) + ","
    text = str(seeds)
    try:
        numbers = [int(piece) for piece in text.split(",") if piece.strip()]
    except ValueError as error:
        raise InputError(f"Expected seeds as a number or a list, but got {text!r}. Write 3, or 0,1,5.") from error
    if len(numbers) == 1 and "," not in text and numbers[0] > MOST_SEEDS:
        raise InputError(f"Expected at most {MOST_SEEDS:,} seeds, but got {numbers[0]:,}. Write 3, say.")
    found = list(range(numbers[0])) if len(numbers) == 1 and "," not in text else list(dict.fromkeys(numbers))
    if not found or min(found) < 0:
        raise InputError(f"Expected at least one seed ≥ 0, but got {text!r}. Write 3, or 0,1,5.")
    return found
