"""The commands for getting data: ``data list`` and ``data get``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.app import AsJson, app
from surefoot.harmless import json_text

if TYPE_CHECKING:
    from surefoot.data.store import Whereabouts

data_app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.callback()
def data() -> None:
    """Say what data are where, and download those that are not here.

    Example: [bold]surefoot data get cifar10[/bold], then [bold]surefoot compare --data cifar10[/bold]
    """


@data_app.command("list")
def list_data(as_json: AsJson = False) -> None:
    """Say of every data set whether it comes with the package, where it was found, or how to get it.

    Data are looked for in $SUREFOOT_DATA, then in ~/.cache/surefoot.

    Example: [bold]surefoot data list --json[/bold]
    """
    from surefoot.data.store import whereabouts

    rows = whereabouts()
    if as_json:
        print(json_text([dataclasses.asdict(row) for row in rows]))
        return
    from rich.table import Table

    from surefoot.cli.console import terminal

    table = Table("name", "where", "licence", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(row.name, _where(row), row.licence or "")
    terminal().print(table, highlight=False, markup=False)


def _where(row: Whereabouts) -> str:
    match row.status:
        case "embedded":
            return "comes with the package"
        case "found":
            return f"found in {row.path}"
        case "missing":
            return f"not here: surefoot data get {row.get}" if row.get else f"not here: --data {row.name}:path=FOLDER"
        case "yours":
            return f"reads yours: --data {row.name}:…"


@data_app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="What to download, as `surefoot data list` names it.")],
    to: Annotated[
        Path | None, typer.Option(help="Folder; else the first of $SUREFOOT_DATA, or ~/.cache/surefoot.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a data set, check it, unpack it. Interrupted, the same command goes on where it stopped.

    Example: [bold]surefoot data get cifar10 --to ~/data[/bold]
    """
    from surefoot.cli.progress import downloading
    from surefoot.data.store import get

    with downloading() as on_bytes:
        folder = get(name, to, on_progress=on_bytes)
    print(json.dumps({"name": name, "path": str(folder)}) if as_json else f"{name}: {folder}")
