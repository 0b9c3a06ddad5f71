"""The commands that train: ``compare`` and ``train``."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from surefoot import api
from surefoot.cli.app import AsJson, Metrics, app
from surefoot.cli.options import Config, options_of
from surefoot.cli.watch import WatchIt, watched
from surefoot.clusters import is_first_process
from surefoot.harmless import harmless


@app.command()
@options_of(api.compare)
def compare(options: dict[str, Any], config: Config = None, watch: WatchIt = False, as_json: AsJson = False) -> int:
    """Train several methods with several seeds and say which one's confidence to trust.

    Runs that are finished already are not trained again; interrupted ones go on.

    Example: [bold]surefoot compare --methods sgd,sam,csam:gamma=2 --seeds 5[/bold]

    To search: [bold]surefoot compare --methods sgd --search "csam:rho=0.02..0.5 log,gamma=0|1|2" --trials 20[/bold]

    On many machines: [bold]surefoot compare --engine ray --address auto --out s3://bucket/runs[/bold]
    """
    from surefoot.cli.progress import following
    from surefoot.cli.show import show_comparison

    command = shlex.join(["surefoot", *sys.argv[1:]])
    with watched(options["out"], watch), following() as progress:
        found = api.compare(**options, progress=progress, command=command, page=False)
    for path, error in found.failed.items():
        print(f"Error: {harmless(path.name)}: {harmless(error)}", file=sys.stderr)
    show_comparison(found, as_json, command)
    return 1 if found.failed else 0


@app.command()
@options_of(api.train)
def train(
    options: dict[str, Any],
    config: Config = None,
    watch: WatchIt = False,
    metrics: Metrics = None,
    as_json: AsJson = False,
) -> None:
    """Train one run. Started again, an interrupted one goes on to the very same bits.

    Example: [bold]surefoot train --method csam --seed 7 --out runs/csam-7[/bold]

    On several GPUs or machines: [bold]torchrun --nproc-per-node 4 -m surefoot train --out runs/csam …[/bold]
    """
    from surefoot.cli.progress import following
    from surefoot.cli.show import show_run
    from surefoot.metric_keys import read_metrics

    shown = read_metrics(metrics) if metrics else None
    with watched(options["out"], watch), following() as progress:
        run = api.train(**options, progress=progress if is_first_process() else None)
    if is_first_process():
        show_run(run.folder, shown, as_json)
