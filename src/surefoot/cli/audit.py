"""The commands for the reviewer with a file of predictions: ``audit`` and ``calibrate``."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot import api
from surefoot.cli.app import AsJson, app
from surefoot.cli.next_step import next_steps
from surefoot.cli.options import options_of
from surefoot.cli.stdin import FORMAT, with_stdin
from surefoot.errors import InputError
from surefoot.harmless import harmless, json_text
from surefoot.places import place

if TYPE_CHECKING:
    from surefoot.auditing import Applied, Fitted

NoWeights = Annotated[
    bool, typer.Option("--no-weights", help="Count all rows alike, whatever column is called weight.")
]


@app.command()
@options_of(api.audit)
def audit(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Predictions: .npz, .npy, .csv, .parquet, .json or .jsonl; a folder or 'a/*.parquet', read as one; - "
            "for a pipe. More than one are compared."
        ),
    ],
    options: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="The page; else FILE-audit.html in this folder.")] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write the page.")] = True,
    no_weights: NoWeights = False,
    format_: Annotated[str | None, typer.Option("--format", help=FORMAT)] = None,
    as_json: AsJson = False,
) -> None:
    """Return whether a file of predictions can be trusted, with error bars, and what would repair it.

    Files with predictions for the same examples are compared, example by example; of more than two there is a ranking.

    Example: [bold]surefoot audit predictions.npz --group hospital[/bold], or
    [bold]surefoot audit resnet.npz vgg.npz vit.npz[/bold], or on a cluster
    [bold]surefoot audit 's3://bucket/preds/*.parquet' --engine ray[/bold]
    """
    options["weights"] = _weights(options["weights"], no_weights)
    with with_stdin(files, format_) as found:
        _audit(found, options, out, page, as_json)


def _audit(files: list[Path], options: dict[str, Any], out: Path | None, page: bool, as_json: bool) -> None:
    from surefoot.auditing.told_apart import told_apart
    from surefoot.cli.progress import reading

    _one_thread()
    out = None if out is None else place(out)
    if page and out is not None and out.is_dir():
        raise InputError(
            f"Expected --out to be a file, but {out} is a folder. Name the page, such as {out}/audit.html."
        )
    target = out or Path(f"{_stem(files)}-audit.html")
    if page:
        _check_page(target, files, options["labels"])
    with reading(" and ".join(told_apart(files)) if len(files) < 3 else f"{len(files)} files") as on_rows:
        report = api.audit(*files, **options, on_rows=on_rows)
    found = report.to_json()
    nexts = next_steps(files, found["audits"], options)
    try:  # the answer first: it must not be lost with a page that cannot be written, nor the page with a closed pipe
        if as_json:
            print(json_text({**found, "page": str(target) if page else None}))
        else:
            _print_audit(report, nexts)
    finally:
        if page:
            report.write_page(target, command=shlex.join(["surefoot", *sys.argv[1:]]), repairs=nexts)
    if page and not as_json:
        print(harmless(f"Page: {target}"))


def _weights(named: str | None, none: bool) -> str | bool | None:
    """Join what two flags say."""
    if named is not None and none:
        raise InputError("Expected --weights NAME or --no-weights, but got both. Leave one out.")
    return False if none else named


def _one_thread() -> None:
    """Many small steps: on a busy machine, threads that wait for each other take several times as long."""
    import torch

    torch.set_num_threads(1)


def _check_page(page: Path, files: Sequence[Path], labels: str | None) -> None:
    """Refuse a page in the place of predictions, before the long work starts."""
    from surefoot.records import check_output
    from surefoot.sources.files import SUFFIXES, files_of

    check_output(page, [each for path in files for each in files_of(path, labels)])
    if page.suffix.lower() in SUFFIXES:
        raise InputError(
            f"Expected --out to be the page, such as {page.stem}.html, but got {page.name!r}, the name of a data file. "
            "Choose another name."
        )


def _stem(files: Sequence[Path]) -> str:
    """Name what is written after the files, so that a comparison does not take the place of another page."""
    from surefoot.auditing.told_apart import told_apart
    from surefoot.sources import find_files

    names = [name.removesuffix(".gz").rpartition(".")[0] for name in told_apart(files)]
    names = [name if path.is_file() else find_files(path).stem for path, name in zip(files, names, strict=True)]
    different = [name.replace("/", "-") for name in dict.fromkeys(names)]
    rest = [f"and-{len(different) - 3}-more"] if len(different) > 4 else []
    return "-".join([*(different[:3] if rest else different), *rest])


def _print_audit(report: api.AuditReport, nexts: Sequence[tuple[str, str]]) -> None:
    from rich.text import Text

    from surefoot.cli.console import terminal

    console = terminal()
    for part in report.parts():
        # Sentences stay on one line for other programs; a terminal wraps them itself.
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
    for audit, (command, note) in zip(report.audits, nexts, strict=True):
        if audit.verdict.finding != "calibrated" and audit.labels is None:
            print(harmless(f"Next: {command}" + (f", {note}" if note else "")))


@app.command()
@options_of(api.calibrate)
def calibrate(
    file: Annotated[Path, typer.Argument(help="Predictions to fit on; or, with --apply, to repair.")],
    options: dict[str, Any],
    apply_: Annotated[
        Path | None, typer.Option("--apply", help="A saved calibrator: repair the file with it instead of fitting.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="calibrator.json or .safetensors to save; with --apply, what to write: .npz, .csv, .parquet…"
        ),
    ] = None,
    no_weights: NoWeights = False,
    format_: Annotated[str | None, typer.Option("--format", help=FORMAT)] = None,
    as_json: AsJson = False,
) -> None:
    """Compare all calibrators by cross-validation, say which one to use and why, and save it.

    A saved one repairs other files, never the rows that it was fitted on.

    Example: [bold]surefoot calibrate validation.npz[/bold], then
    [bold]surefoot calibrate test.npz --apply calibrator.json --out repaired.npz[/bold]
    """
    options["weights"] = _weights(options["weights"], no_weights)
    with with_stdin([file], format_) as (found,):
        _calibrate(found, options, apply_, out, as_json)


def _calibrate(file: Path, options: dict[str, Any], apply_: Path | None, out: Path | None, as_json: bool) -> None:
    from surefoot.auditing.calibrate import check_saving
    from surefoot.cli.progress import fitting, reading
    from surefoot.records import check_output
    from surefoot.sources import files_of

    _one_thread()
    if apply_ is not None:
        method, _ = options.pop("method"), options.pop("folds")
        if method is not None:
            raise InputError("Expected --method to fit or --apply to repair, but got both. Leave one out.")
        apply_, out = place(apply_), None if out is None else place(out)
        target = out or Path(f"{_stem([file])}-repaired{_written_as(file)}")
        with reading(file.name) as on_rows:
            applied = api.repair(file, apply_, target, **options, on_rows=on_rows)
        _print_applied(applied, target, as_json)
        return
    target = place(out or "calibrator.json")
    check_saving(target)
    check_output(target, files_of(file, options["labels"]))
    with fitting(file.name) as (on_rows, on_step):
        fitted = api.calibrate(file, **options, on_rows=on_rows, on_step=on_step)
    try:  # the answer first: it must not be lost with a file that cannot be written
        _print_fitted(fitted, target, as_json)
    finally:
        fitted.save(target)
    if not as_json:
        _print_saved(fitted, target, _written_as(file))


def _written_as(file: Path) -> str:
    """Write the format that was read, but arrays as .npz, which has room for labels."""
    from surefoot.sources import find_files

    packed = ".gz" if file.suffix.lower() == ".gz" else ""
    ending = file.with_suffix("").suffix if packed else find_files(file).suffix if file.is_dir() else file.suffix
    return {".npy": ".npz", ".txt": ".csv", ".feather": ".parquet", ".arrow": ".parquet"}.get(
        ending.lower(), ending
    ) + packed


def _print_fitted(fitted: Fitted, saved: Path, as_json: bool) -> None:
    values = fitted.to_json()
    if as_json:
        print(json_text({**values, "saved": str(saved)}))
        return
    from surefoot.cli.console import terminal
    from surefoot.report.audit_tables import calibrators_table

    print(harmless(f"{values['use']}."), end="\n\n")
    terminal().print(calibrators_table(values), highlight=False)
    print()
    _print_notes(fitted.notes)
    print(harmless(f"Read: {fitted.file}: {fitted.took}."))


def _print_saved(fitted: Fitted, saved: Path, ending: str) -> None:
    print(harmless(f"Saved: {saved}" + (", which changes nothing" if fitted.calibrator.name == "none" else "")))
    print(harmless(f"Next: surefoot calibrate OTHER{ending} --apply {shlex.quote(str(saved))} --out repaired{ending}"))


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(harmless(f"Note: {note}"))


def _print_applied(applied: Applied, written: Path, as_json: bool) -> None:
    if as_json:
        from surefoot.auditing.result import plain

        print(json_text({**plain(dataclasses.asdict(applied)), "written": str(written)}))
        return
    mean = [f"{100 * each:.1f} %" for each in applied.means]
    if applied.before is not None and applied.after is not None:
        ece = [f"{100 * each.ece.estimate:.1f} %" for each in (applied.before, applied.after)]
        nll = [f"{each.nll:.3f}" for each in (applied.before, applied.after)]
        of = "ECE" if applied.of == "confidence" else f"mean {applied.of} from {mean[0]} to {mean[1]}, its ECE"
        print(
            harmless(f"{applied.calibrator} brings {of} from {ece[0]} to {ece[1]} and NLL from {nll[0]} to {nll[1]}.")
        )
    else:
        means = f"mean {applied.of} from {mean[0]} to {mean[1]}"
        print(harmless(f"{applied.calibrator} brings the {means}; no labels to score it by."))
    _print_notes(applied.notes)
    print(harmless(f"Read: {applied.file}, {applied.n:,} {'row' if applied.n == 1 else 'rows'}: {applied.took}."))
    print(harmless(f"Written: {written}"))
