"""The command line itself; its commands are in the files beside this one and join it when they are imported.

Each imports what it needs when it is called, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot import __version__
from surefoot.clusters import refuse_launched

app = typer.Typer(
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
RUNS = Path("surefoot-runs")

Threads = Annotated[int, typer.Option(help="Threads of torch; the last bits depend on it.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import code that a run folder names, such as a network of one's own.")
]
Metrics = Annotated[
    str | None,
    typer.Option(help="What to show: ece,nll,brier; ece:n_bins=30; ece@temperature; your own as module:function."),
]
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
    if context.invoked_subcommand not in (None, "train"):
        refuse_launched(str(context.invoked_subcommand))
    if context.invoked_subcommand is None:
        print(context.get_help())
