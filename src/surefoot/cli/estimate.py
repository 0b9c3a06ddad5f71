"""``surefoot estimate``: new rows that nobody has labelled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot import api
from surefoot.cli.app import AsJson, app
from surefoot.cli.options import options_of
from surefoot.harmless import json_text


@app.command()
@options_of(api.estimate)
def estimate(
    file: Annotated[Path, typer.Argument(help="Scores without labels: .npz, .npy, .csv, .parquet, .json or .jsonl.")],
    options: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Estimate accuracy and calibration on rows without labels, from labelled ones of the same model.

    It holds where class frequencies have changed and nothing else; where the scores show that more has, it refuses,
    with exit code 1.

    Example: [bold]surefoot estimate new.csv --reference labelled.npz[/bold]
    """
    import torch

    from surefoot.cli.progress import reading

    torch.set_num_threads(1)
    with reading(file.name) as on_rows:
        report = api.estimate(file, **options, on_rows=on_rows)
    if as_json:
        print(json_text(report.to_json()))
        return
    from rich.text import Text

    from surefoot.cli.console import terminal

    console = terminal()
    for part in report.parts():
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
