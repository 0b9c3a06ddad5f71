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

from surefoot.cli.app import AsJson, app
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.audit._names import Kind
    from surefoot.audit.calibrate import Applied, Fitted

IsLogits = Annotated[
    bool | None,
    typer.Option("--logits/--probs", help="What the scores are, where names and values do not tell."),
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
    labels: Labels = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column that divides the rows into slices; can be given again.")
    ] = None,
    model: ModelName = None,
    positive: Annotated[
        str | None, typer.Option(help="Of two classes, the one whose probability is the risk. Default: by name, else 1.")
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of confidence.")] = 15,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="The page; else FILE-audit.html in this folder.")] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write the page.")] = True,
    as_json: AsJson = False,
) -> None:
    """Say whether a file of predictions can be trusted, with error bars, and what would repair it.

    Two files with predictions for the same examples are compared, example by example.

    Example: [bold]surefoot audit predictions.npz --group hospital[/bold]
    """
    from surefoot.audit import audit as run_audit
    from surefoot.audit import compare_audits
    from surefoot.cli.progress import reading

    _one_thread()
    if len(files) > 2:
        raise InputError(f"Expected one file, or two to compare, but got {len(files)}. Audit them one by one.")
    if page and out is not None and out.is_dir():
        raise InputError(
            f"Expected --out to be a file, but {out} is a folder. Name the page, such as {out}/audit.html."
        )
    options: dict[str, Any] = {"kind": _kind(is_logits), "labels": labels, "model": model, "groups": tuple(group or ())}
    options |= {"n_bins": bins, "level": level, "positive": positive}
    comparison = None
    with reading(" and ".join(path.name for path in files)) as on_rows:
        if len(files) == 2:
            both = compare_audits(files[0], files[1], **options, on_rows=on_rows)
            audits, comparison = [both.a.to_json(), both.b.to_json()], both.to_json()
        else:
            audits = [each.to_json() for each in run_audit(files[0], **options, on_rows=on_rows)]
    nexts = _next_commands(files, audits, is_logits, labels)
    written = None
    if page:
        written = _write_page(out or Path(f"{_stem(files)}-audit.html"), audits, comparison, nexts)
    if as_json:
        found = {"audits": audits, "comparison": comparison, "page": str(written) if written else None}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    _print_audit(audits, comparison, nexts, written)


def _one_thread() -> None:
    """Many small steps: on a busy machine, threads that wait for each other take several times as long."""
    import torch

    torch.set_num_threads(1)


def _kind(is_logits: bool | None) -> Kind | None:
    return None if is_logits is None else "logits" if is_logits else "probs"


def _stem(files: Sequence[Path]) -> str:
    return "-".join(dict.fromkeys(path.name.removesuffix(".gz").rpartition(".")[0] for path in files))


def _next_commands(
    files: Sequence[Path], audits: Sequence[dict[str, Any]], is_logits: bool | None, labels: str | None
) -> list[str]:
    """Write the command that repairs each audited model."""
    commands = []
    for number, audit in enumerate(audits):
        words = ["surefoot", "calibrate", str(_to_fit_on(files[min(number, len(files) - 1)]))]
        if is_logits is not None:
            words.append("--logits" if is_logits else "--probs")
        if labels is not None:
            words += ["--labels", labels]
        if audit["model"]:
            words += ["--model", audit["model"]]
        commands.append(shlex.join(words))
    return commands


def _to_fit_on(path: Path) -> Path:
    """Beside the test set there may be one to fit on, as in the folder of a run."""
    names = ("calibration", "validation", "val") if path.stem == "test" else ()
    return next((found for name in names if (found := path.with_stem(name)).is_file()), path)


def _write_page(
    path: Path, audits: Sequence[dict[str, Any]], comparison: dict[str, Any] | None, nexts: Sequence[str]
) -> Path:
    from surefoot.report.audit_page import write_audit_page

    command = shlex.join(["surefoot", *sys.argv[1:]])
    return write_audit_page(audits, path, comparison=comparison, command=command, repair_commands=nexts)


def _print_audit(
    audits: Sequence[dict[str, Any]], comparison: dict[str, Any] | None, nexts: Sequence[str], page: Path | None
) -> None:
    from rich.console import Console
    from rich.text import Text

    from surefoot.report.audit_tables import audit_text

    console = Console()
    for part in audit_text(audits, comparison):
        # Sentences stay on one line for other programs; a terminal wraps them itself.
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
    for audit, command in zip(audits, nexts, strict=True):
        if audit["verdict"]["finding"] != "calibrated":
            print(f"Next: {command}")
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
    labels: Labels = None,
    model: ModelName = None,
    folds: Annotated[int, typer.Option(help="Parts of the rows, each scored by what was fitted on the others.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option(help="calibrator.json or .safetensors to save; with --apply, the .npz to write."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare all calibrators by cross-validation, say which one to use and why, and save it.

    A saved one repairs other files, never the rows that it was fitted on.

    Example: [bold]surefoot calibrate validation.npz[/bold], then
    [bold]surefoot calibrate test.npz --apply calibrator.json --out repaired.npz[/bold]
    """
    from surefoot.audit.calibrate import apply, check_saving
    from surefoot.audit.calibrate import calibrate as fit
    from surefoot.cli.progress import reading

    _one_thread()
    options: dict[str, Any] = {"kind": _kind(is_logits), "labels": labels, "model": model}
    if apply_ is not None:
        if method is not None:
            raise InputError("Expected --method to fit or --apply to repair, but got both. Leave one out.")
        target = out or Path(f"{_stem([file])}-repaired.npz")
        with reading(file.name) as on_rows:
            _print_applied(apply(apply_, file, target, **options, on_rows=on_rows), target, as_json)
        return
    target = out or Path("calibrator.json")
    check_saving(target)
    with reading(file.name) as on_rows:
        fitted = fit(file, method=method, n_folds=folds, **options, on_rows=on_rows)
    if fitted.calibrator is not None:
        fitted.save(target)
    _print_fitted(fitted, target if fitted.calibrator is not None else None, as_json)


def _print_fitted(fitted: Fitted, saved: Path | None, as_json: bool) -> None:
    values = fitted.to_json()
    if as_json:
        print(json.dumps({**values, "saved": str(saved) if saved else None}, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from surefoot.report.audit_tables import calibrators_table

    print(f"{values['use']}.\n")
    Console().print(calibrators_table(values), highlight=False)
    print(f"\nRead: {fitted.file}: {fitted.took}.")
    if saved is not None:
        print(f"Saved: {saved}")
        print(f"Next: surefoot calibrate OTHER.npz --apply {shlex.quote(str(saved))} --out repaired.npz")


def _print_applied(applied: Applied, written: Path, as_json: bool) -> None:
    if as_json:
        from surefoot.audit.result import plain

        print(json.dumps({**plain(dataclasses.asdict(applied)), "written": str(written)}, indent=2, ensure_ascii=False))
        return
    ece = [f"{100 * each.ece.estimate:.1f} %" for each in (applied.before, applied.after)]
    nll = [f"{each.nll:.3f}" for each in (applied.before, applied.after)]
    print(f"{applied.calibrator} brings ECE from {ece[0]} to {ece[1]} and NLL from {nll[0]} to {nll[1]}.")
    print(f"Read: {applied.file}, {applied.n:,} rows: {applied.took}.")
    print(f"Written: {written}")
