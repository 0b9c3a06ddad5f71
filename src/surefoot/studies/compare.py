"""Which method can I trust? Several methods × seeds on the same data and network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.errors import InputError, SurefootError
from surefoot.method import parse_method
from surefoot.records import RunFolder
from surefoot.registry import DATA, MODELS
from surefoot.schema import OptionValue, RunSpec
from surefoot.studies.engine import Job, Listener, run_all

DEFAULT_METHODS = ("sgd", "sam", "csam")


@dataclass(frozen=True)
class Comparison:
    """The runs of a comparison, and which of them failed."""

    runs: tuple[RunFolder, ...]
    failed: Mapping[Path, SurefootError]


def make_spec(
    method: str,
    *,
    data: str = "fashion",
    model: str = "mlp",
    base_options: Mapping[str, OptionValue] | None = None,
    **settings: int | str,
) -> RunSpec:
    """Make a complete spec out of the words that people type.

    Args:
        method: For example ``"csam:gamma=2"``.
        data: For example ``"npz:photos.npz"``.
        model: For example ``"mlp:width=100"``.
        base_options: ``lr``, ``momentum``, ``weight_decay`` for every optimizer that takes them; None is skipped.
        **settings: Any other field of :class:`~surefoot.schema.RunSpec`.

    Returns:
        The spec.
    """
    parts = {"data": DATA.parse(data), "model": MODELS.parse(model)}
    return RunSpec(parse_method(method, base_options), **parts, **settings)  # type: ignore[arg-type]


def compare(
    specs: Sequence[RunSpec],
    seeds: Sequence[int],
    out: Path,
    *,
    fresh: bool = False,
    workers: int | None = None,
    listen: Listener | None = None,
) -> Comparison:
    """Run every spec with every seed. Runs that are finished already are not made again.

    Args:
        specs: One per method; their own seed is not used.
        seeds: The seeds, the same ones for all.
        out: Takes one folder per run.
        fresh: Make all runs anew.
        workers: How many at once; else one per core.
        listen: Called with news of every run.

    Returns:
        The finished runs, method by method in the order given.

    Raises:
        InputError: If there is nothing to compare, or a spec cannot run.
    """
    from surefoot.experiment import check, folder_name

    if not specs or not seeds:
        raise InputError("Expected at least one method and one seed, but got none. Pass --methods and --seeds.")
    for spec in specs:
        check(spec)
    made = [replace(spec, seed=seed) for spec in specs for seed in seeds]
    jobs = {out / folder_name(spec): spec for spec in made}
    failed = run_all([Job(spec, path, fresh) for path, spec in jobs.items()], workers=workers, listen=listen)
    return Comparison(tuple(RunFolder(path) for path in jobs if path not in failed), failed)
