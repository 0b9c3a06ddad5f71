"""The command that shows what there is: ``list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.app import AsJson, app
from surefoot.errors import InputError
from surefoot.harmless import json_text

if TYPE_CHECKING:
    from surefoot.registry import Part


NOTES = {
    "optimizers": "All take tune=auto, which turns rho, gamma and weight decay by the calibration split, as far as "
    "they are there. Those that climb take base=sgd, adamw or muon, and the options of that one.",
}


@app.command("list")
def list_parts(
    kind: Annotated[str | None, typer.Argument(help="optimizers, losses, ensembles, metrics, data, models, …")] = None,
    as_json: AsJson = False,
) -> None:
    """Show every optimizer, loss, ensemble, metric, calibrator, model, data set and tracker with its options.

    Example: [bold]surefoot list optimizers[/bold]
    """
    from surefoot.registry import KINDS

    if kind is not None and kind not in KINDS:
        raise InputError(f"Expected a kind of part, but got {kind!r}. Choose from {', '.join(KINDS)}.")
    chosen = {name: registry for name, registry in KINDS.items() if kind in (None, name)}
    if as_json:
        found = {name: [_describe(part) for part in registry] for name, registry in chosen.items()}
        print(json_text(found))
        return
    from rich.table import Table

    from surefoot.cli.console import terminal

    for name, registry in chosen.items():
        table = Table("name", "what it is", "options", title=name, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for part in registry:
            table.add_row(part.name, part.summary, ", ".join(map(str, part.options.values())))
        terminal().print(table, NOTES.get(name, ""), "")


def _describe(part: Part) -> dict[str, Any]:
    return {"name": part.name, "summary": part.summary, "options": [str(option) for option in part.options.values()]}
