"""``surefoot check``: a gate for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot import api
from surefoot.atomic import write_text
from surefoot.cli.app import AsJson, app
from surefoot.cli.options import options_of
from surefoot.errors import InputError
from surefoot.harmless import harmless, json_text
from surefoot.places import is_address


@app.command()
@options_of(api.check)
def check(
    file: Annotated[Path, typer.Argument(help="Predictions with labels: .npz, .npy, .csv, .parquet, .json or .jsonl.")],
    options: dict[str, Any],
    save_baseline: Annotated[
        Path | None, typer.Option(help="Keep these predictions as a baseline, such as main.json, unless broken.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table in Markdown, for a pull request.")] = None,
    as_json: AsJson = False,
) -> None:
    """Exit with 1 where predictions break a limit, or are worse than a baseline, by more than chance explains.

    Exit code 0: passed, or the rows cannot tell. 1: broken. 2: the file or an option cannot be used.

    Example: [bold]surefoot check predictions.npz --max-ece 0.05 --baseline main.json[/bold]
    """
    import torch

    from surefoot.cli.progress import reading

    torch.set_num_threads(1)
    _check_written(file, options, save_baseline, markdown)
    with reading(file.name) as on_rows:
        report = api.check(file, **options, on_rows=on_rows)
    if not report.gate.checks and save_baseline is None:
        raise InputError("Expected something to check, but got no limit and no baseline. Say --max-ece 0.05.")
    saved = None if save_baseline is None or report.broken else str(save_baseline)
    try:  # the answer first: it must not be lost with a file that cannot be written
        if as_json:
            print(json_text({**report.to_json(), "saved": saved}))
        else:
            _print(report)
    finally:
        if markdown is not None:
            write_text(markdown, report.to_markdown())
        if save_baseline is not None and not report.broken:
            report.save_baseline(save_baseline)
    if save_baseline is not None and not as_json:
        broken = f"Not saved: {save_baseline}, because the gate is broken."
        print(harmless(broken if report.broken else f"Saved: {save_baseline}"))
    raise typer.Exit(int(report.broken))


def _check_written(file: Path, options: dict[str, Any], *written: Path | None) -> None:
    """Refuse to write over what is read, before the work starts; a baseline may take the place of the one it beat."""
    from surefoot.records import check_output
    from surefoot.sources import files_of

    saved, markdown = written
    inputs = files_of(file, options["labels"])
    if saved is not None:
        if saved.suffix != ".json":
            raise InputError(f"Expected --save-baseline to be a .json file, but got {saved.name!r}. Write main.json.")
        check_output(saved, inputs, option="--save-baseline")
    if markdown is not None:
        both = [Path(each) for each in (options["baseline"], saved) if each is not None]
        check_output(markdown, [*inputs, *both], option="--markdown")
    for each in written:
        if each is not None and not is_address(each) and not each.expanduser().parent.is_dir():
            raise InputError(f"Expected a folder for {each}, but {each.parent} does not exist. Make it first.")


def _print(report: api.CheckReport) -> None:
    from rich.text import Text

    from surefoot.cli.console import terminal

    console = terminal()
    for part in report.parts():
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
