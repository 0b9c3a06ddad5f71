"""The commands for the reviewer with a file of predictions: ``audit`` and ``calibrate``."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.app import AsJson, Metrics, app
from surefoot.cli.next_step import next_steps
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.auditing.apply import Applied
    from surefoot.auditing.calibrate import Fitted

IsLogits = Annotated[
    bool | None,
    typer.Option("--logits/--probs", help="What the scores are, where names and values do not tell."),
]
Percent = Annotated[bool, typer.Option("--percent", help="The scores are probabilities in percent.")]
Scores = Annotated[
    list[str] | None,
    typer.Option(help="Array or column with the scores; again for a column per class. Default: by their names."),
]
LabelsAre = Annotated[
    str | None,
    typer.Option(
        help="What labels mean, where it could be two things: class numbers from-0 or from-1, or names. Says also that "
        "the file is right as it is."
    ),
]
Labels = Annotated[
    str | None, typer.Option(help="Column or array with the true classes; for .npy their file. Default: by its name.")
]
ModelName = Annotated[str | None, typer.Option("--model", help="Which model, where a file holds several.")]


@app.command()
def audit(
    files: Annotated[
        list[Path], typer.Argument(help="Predictions: .npz, .npy, .csv, .parquet, .json or .jsonl. Two are compared.")
    ],
    is_logits: IsLogits = None,
    percent: Percent = False,
    scores: Scores = None,
    labels: Labels = None,
    labels_are: LabelsAre = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column that divides the rows into slices; can be given again.")
    ] = None,
    model: ModelName = None,
    positive: Annotated[
        str | None,
        typer.Option(help="Of two classes, the one whose probability is the risk. Default: by name, else 1."),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of confidence.")] = 15,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    metrics: Metrics = None,
    out: Annotated[Path | None, typer.Option(help="The page; else FILE-audit.html in this folder.")] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write the page.")] = True,
    as_json: AsJson = False,
) -> None:
    """Return whether a file of predictions can be trusted, with error bars, and what would repair it.

    Two files with predictions for the same examples are compared, example by example.

    Example: [bold]surefoot audit predictions.npz --group hospital[/bold]
    """
    from surefoot.auditing import audit as run_audit
    from surefoot.auditing import compare_audits
    from surefoot.auditing.told_apart import told_apart
    from surefoot.cli.progress import reading

    _one_thread()
    if len(files) > 2:
        raise InputError(f"Expected one file, or two to compare, but got {len(files)}. Audit them one by one.")
    if page and out is not None and out.is_dir():
        raise InputError(
            f"Expected --out to be a file, but {out} is a folder. Name the page, such as {out}/audit.html."
        )
    target = out or Path(f"{_stem(files)}-audit.html")
    if page:
        _check_page(target, files, labels)
    told = _told(is_logits, percent, scores, labels, labels_are)
    options: dict[str, Any] = {**told, "model": model, "groups": tuple(group or ())}
    options |= {"n_bins": bins, "level": level, "positive": positive, "metrics": metrics}
    comparison = None
    with reading(" and ".join(told_apart(files))) as on_rows:
        if len(files) == 2:
            both = compare_audits(files[0], files[1], **options, on_rows=on_rows)
            audits, comparison = [both.a.to_json(), both.b.to_json()], both.to_json()
        else:
            audits = [each.to_json() for each in run_audit(files[0], **options, on_rows=on_rows)]
    nexts = next_steps(files, audits, told)
    written = None
    if page:
        written = _write_page(target, audits, comparison, nexts)
    if as_json:
        found = {"audits": audits, "comparison": comparison, "page": str(written) if written else None}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    _print_audit(audits, comparison, nexts, written)


def _one_thread() -> None:
    """Many small steps: on a busy machine, threads that wait for each other take several times as long."""
    import torch

    torch.set_num_threads(1)


def _told(
    is_logits: bool | None, percent: bool, scores: list[str] | None, labels: str | None, labels_are: str | None
) -> dict[str, Any]:
    """Gather what was said about the file, as the library takes it."""
    from surefoot.auditing._labels import check_meaning

    if percent and is_logits is not None:
        raise InputError("Expected one of --logits, --probs and --percent, but got two. Leave one out.")
    kind = "percent" if percent else None if is_logits is None else "logits" if is_logits else "probs"
    meaning = None if labels_are is None else check_meaning(labels_are, "--labels-are")
    return {"kind": kind, "scores": tuple(scores or ()), "labels": labels, "labels_are": meaning}


def _check_page(page: Path, files: Sequence[Path], labels: str | None) -> None:
    """Refuse a page in the place of predictions, before the long work starts."""
    from surefoot.auditing.files import SUFFIXES, files_of
    from surefoot.records import check_output

    check_output(page, [each for path in files for each in files_of(path, labels)])
    if page.suffix.lower() in SUFFIXES:
        raise InputError(
            f"Expected --out to be the page, such as {page.stem}.html, but got {page.name!r}, the name of a data file. "
            "Choose another name."
        )


def _stem(files: Sequence[Path]) -> str:
    """Name what is written after the files, so that a comparison does not take the place of another page."""
    from surefoot.auditing.told_apart import told_apart

    names = [name.removesuffix(".gz").rpartition(".")[0] for name in told_apart(files)]
    return "-".join(name.replace("/", "-") for name in dict.fromkeys(names))


def _write_page(
    path: Path, audits: Sequence[dict[str, Any]], comparison: dict[str, Any] | None, nexts: Sequence[tuple[str, str]]
) -> Path:
    from surefoot.report.audit_page import write_audit_page

    command = shlex.join(["surefoot", *sys.argv[1:]])
    commands, notes = zip(*nexts, strict=True)
    return write_audit_page(
        audits, path, comparison=comparison, command=command, repair_commands=commands, repair_notes=notes
    )


def _print_audit(
    audits: Sequence[dict[str, Any]],
    comparison: dict[str, Any] | None,
    nexts: Sequence[tuple[str, str]],
    page: Path | None,
) -> None:
    from rich.console import Console
    from rich.text import Text

    from surefoot.report.audit_tables import audit_text

    console = Console()
    for part in audit_text(audits, comparison):
        # Sentences stay on one line for other programs; a terminal wraps them itself.
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
    for audit, (command, note) in zip(audits, nexts, strict=True):
        if audit["verdict"]["finding"] != "calibrated":
            print(f"Next: {command}" + (f", {note}" if note else ""))
    if page is not None:
        print(f"Page: {page}")


@app.command()
def calibrate(
    file: Annotated[Path, typer.Argument(help="Predictions to fit on; or, with --apply, to repair.")],
    method: Annotated[str | None, typer.Option(help="Fit this calibrator, whatever the others do.")] = None,
    apply_: Annotated[
        Path | None, typer.Option("--apply", help="A saved calibrator: repair the file with it instead of fitting.")
    ] = None,
    is_logits: IsLogits = None,
    percent: Percent = False,
    scores: Scores = None,
    labels: Labels = None,
    labels_are: LabelsAre = None,
    model: ModelName = None,
    folds: Annotated[int, typer.Option(help="Parts of the rows, each scored by what was fitted on the others.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option(
            help="calibrator.json or .safetensors to save; with --apply, what to write: .npz, .csv, .parquet…"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare all calibrators by cross-validation, say which one to use and why, and save it.

    A saved one repairs other files, never the rows that it was fitted on.

    Example: [bold]surefoot calibrate validation.npz[/bold], then
    [bold]surefoot calibrate test.npz --apply calibrator.json --out repaired.npz[/bold]
    """
    from surefoot.auditing.apply import apply
    from surefoot.auditing.calibrate import calibrate as fit
    from surefoot.auditing.calibrate import check_saving
    from surefoot.auditing.files import files_of
    from surefoot.cli.progress import reading
    from surefoot.records import check_output

    _one_thread()
    options: dict[str, Any] = {**_told(is_logits, percent, scores, labels, labels_are), "model": model}
    if apply_ is not None:
        if method is not None:
            raise InputError("Expected --method to fit or --apply to repair, but got both. Leave one out.")
        target = out or Path(f"{_stem([file])}-repaired{_written_as(file)}")
        with reading(file.name) as on_rows:
            _print_applied(apply(apply_, file, target, **options, on_rows=on_rows), target, as_json)
        return
    target = out or Path("calibrator.json")
    check_saving(target)
    check_output(target, files_of(file, labels))
    with reading(file.name) as on_rows:
        fitted = fit(file, method=method, n_folds=folds, **options, on_rows=on_rows)
    fitted.save(target)
    _print_fitted(fitted, target, as_json)


def _written_as(file: Path) -> str:
    """Write the format that was read, but arrays as .npz, which has room for labels."""
    ending = "".join(file.suffixes[-2:]) if file.suffix.lower() == ".gz" else file.suffix
    return {".npy": ".npz", ".txt": ".csv"}.get(ending.lower(), ending)


def _print_fitted(fitted: Fitted, saved: Path, as_json: bool) -> None:
    values = fitted.to_json()
    if as_json:
        print(json.dumps({**values, "saved": str(saved)}, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from surefoot.report.audit_tables import calibrators_table

    print(f"{values['use']}.\n")
    Console().print(calibrators_table(values), highlight=False)
    print()
    _print_notes(fitted.notes)
    print(f"Read: {fitted.file}: {fitted.took}.")
    print(f"Saved: {saved}" + (", which changes nothing" if fitted.calibrator.name == "none" else ""))
    ending = _written_as(Path(fitted.file))
    print(f"Next: surefoot calibrate OTHER{ending} --apply {shlex.quote(str(saved))} --out repaired{ending}")


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"Note: {note}")


def _print_applied(applied: Applied, written: Path, as_json: bool) -> None:
    if as_json:
        from surefoot.auditing.result import plain

        print(json.dumps({**plain(dataclasses.asdict(applied)), "written": str(written)}, indent=2, ensure_ascii=False))
        return
    mean = [f"{100 * each:.1f} %" for each in applied.means]
    if applied.before is not None and applied.after is not None:
        ece = [f"{100 * each.ece.estimate:.1f} %" for each in (applied.before, applied.after)]
        nll = [f"{each.nll:.3f}" for each in (applied.before, applied.after)]
        of = "ECE" if applied.of == "confidence" else f"mean {applied.of} from {mean[0]} to {mean[1]}, its ECE"
        print(f"{applied.calibrator} brings {of} from {ece[0]} to {ece[1]} and NLL from {nll[0]} to {nll[1]}.")
    else:
        means = f"mean {applied.of} from {mean[0]} to {mean[1]}"
        print(f"{applied.calibrator} brings the {means}; no labels to score it by.")
    _print_notes(applied.notes)
    print(f"Read: {applied.file}, {applied.n:,} rows: {applied.took}.")
    print(f"Written: {written}")
