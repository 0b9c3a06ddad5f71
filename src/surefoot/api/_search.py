"""Searches of a comparison: what was asked for, and the setting that each has found."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from surefoot.errors import InputError, RunError, SurefootError
from surefoot.settings import Placement, Settings
from surefoot.space import Choice, Interval, Space, read_space

if TYPE_CHECKING:
    from surefoot.api._train import Progress
    from surefoot.integrations.searching import Hunt
    from surefoot.report.grid import Grid

PRUNERS = ("asha", "none")
TRIALS = 20
TRIAL_SEED = 1000  # of every trial: none of the seeds that the comparison trains with


@dataclass(frozen=True)
class Searching:
    """How settings are searched."""

    search: Annotated[
        str | Sequence[str],
        "Search a method's options on the calibration split: csam:rho=0.02..0.5 log,gamma=0|1|2. Can be given again.",
    ] = ()
    trials: Annotated[int | None, "Settings that each --search tries. Default: 20."] = None
    prune: Annotated[
        str | None, "Stop hopeless settings early: asha or none. Default: asha for --search, none for --grid."
    ] = None

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        if self.trials is not None and not self.search:
            raise InputError(
                "Expected --search with --trials, but got none. Add --search, or drop it: a grid tries every setting."
            )
        if self.trials is not None and self.trials < 1:
            raise InputError(f"Expected at least one trial, but got --trials {self.trials}. Write --trials 20.")
        if self.prune not in (None, *PRUNERS):
            raise InputError(f"Expected --prune to be asha or none, but got {self.prune!r}. Choose one of them.")

    @property
    def texts(self) -> list[str]:
        """The searches."""
        return [self.search] if isinstance(self.search, str) else list(self.search)


def lay_out(
    searching: Searching,
    grids: Sequence[str],
    settings: Settings,
    choose_by: str,
    *,
    seeds: Sequence[int],
    out: Path,
    placement: Placement,
) -> list[Hunt]:
    """Check all searches before the first run.

    Args:
        searching: What to search, how many trials, and whether to stop early.
        grids: Sweeps of which hopeless settings are stopped early.
        settings: Data, model, epochs and all else that determines a run.
        choose_by: What a setting is chosen by.
        seeds: Those of the comparison, which no trial has.
        out: Folder of the comparison.
        placement: Where runs are made.

    Returns:
        One per search.
    """
    wanted = [(read_space(text), searching.trials or TRIALS, searching.prune != "none") for text in searching.texts]
    spaces = [read_space(text) for text in grids]
    wanted += [(space, len(space.settings or ()), True) for space in spaces]
    found = (_hunt(*each, settings, choose_by, seeds, out, placement) for each in wanted)
    return list({hunt.folder: hunt for hunt in found}.values())


def _hunt(
    space: Space,
    trials: int,
    prune: bool,
    settings: Settings,
    choose_by: str,
    seeds: Sequence[int],
    out: Path,
    placement: Placement,
) -> Hunt:
    from surefoot.experiment import check, folder_name
    from surefoot.integrations.searching import Hunt
    from surefoot.integrations.tune import Search

    seed = next(seed for seed in range(TRIAL_SEED, TRIAL_SEED + len(seeds) + 1) if seed not in seeds)
    draft = Search(space.method, out=out, **asdict(settings))
    space = _with_types(space, draft)
    first = draft.spec(space.fill(_lowest(space)), seed=seed)
    check(first)
    what = f"{space} {choose_by} {prune} {folder_name(first)}"
    slug = re.sub(r"[^A-Za-z0-9]+", "-", space.text)[:40].strip("-")
    name = f"{slug}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"
    if placement.store:
        placement = replace(placement, store=f"{placement.store.rstrip('/')}/search/{name}")
    folder = out / "search" / name
    told: dict[str, Any] = {"choose_by": choose_by, "first_seed": seed, "store": placement.store}
    search = Search(space.method, out=folder, **told, **asdict(settings))
    return Hunt(search, space, folder, trials, prune, placement, seed, settings.epochs)


def _lowest(space: Space) -> dict[str, Any]:
    return {name: gap.words[0] if isinstance(gap, Choice) else gap.low for name, gap in space.gaps.items()}


def _with_types(space: Space, search: Any) -> Space:
    """Take a range such as 0..1 for whole numbers only where the option is one."""
    gaps: dict[str, Interval | Choice] = dict(space.gaps)
    for name, gap in space.gaps.items():
        if isinstance(gap, Interval) and gap.is_whole:
            try:
                search.spec({**space.fill(_lowest(space)), name: gap.low + 0.5})
            except InputError:
                continue
            gaps[name] = replace(gap, is_whole=False)
    return replace(space, gaps=gaps)


def make_searches(
    hunts: Sequence[Hunt], choose_by: str, progress: Progress | None, fresh: bool
) -> tuple[list[Grid], Mapping[Path, SurefootError]]:
    """Make searches one after another, or go on with them.

    Args:
        hunts: What :func:`lay_out` gave.
        choose_by: The key of what decides.
        progress: Called with the trials to be made.
        fresh: Begin them anew.

    Returns:
        All that each has tried, with the setting it chose, and what went wrong, by run folder.

    Raises:
        RunError: If no trial of a search was finished.
    """
    from surefoot.integrations.searching import forget_trials, make_trials
    from surefoot.report.grid import choose_setting

    if fresh:
        forget_trials(hunts)
    grids, failed = [], dict[Path, SurefootError]()
    for hunt in hunts:
        made = make_trials(hunt, progress(hunt.places()) if progress else lambda news: None)
        failed.update(made.failed)
        if not made.runs:
            why = next((str(error) for error in made.failed.values()), "All diverged.")
            raise RunError(f"Expected a finished trial of {hunt.space.text}, but there is none. {why}")
        grids.append(
            replace(choose_setting(hunt.space.text, made.runs, choose_by, 1), stopped=made.stopped, is_search=True)
        )
    return grids, failed
