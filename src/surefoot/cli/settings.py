"""What several commands are told in the same words, said once.

A command takes a dataclass, and :func:`spread` turns each of its fields into an option of the command.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

if TYPE_CHECKING:
    from surefoot.schema import RunSpec, Tracking

R = TypeVar("R")


@dataclass(frozen=True)
class Settings:
    """All that determines a run beside its method and its seed."""

    data: Annotated[str, typer.Option(help="Data set: fashion, npz:PATH, or your own as module:function.")] = "fashion"
    model: Annotated[
        str, typer.Option(help="Network: mlp, cnn, with options as mlp:width=100, or module:function.")
    ] = "mlp"
    augment: Annotated[
        str,
        typer.Option(help="Change training images at random: crop + flip + cutout:size=8; standard is crop + flip."),
    ] = "none"
    label_noise: Annotated[
        str | None, typer.Option(help="Make training labels wrong: sym:0.2, pairflip:0.4, asym:0.4 or given:FILE.npy.")
    ] = None
    epochs: Annotated[int, typer.Option(help="Passes over the training split.")] = 40
    batch_size: Annotated[
        int, typer.Option(help="Examples per step, at most: the batches of an epoch are of one size.")
    ] = 128
    lr: Annotated[float | None, typer.Option(help="Learning rate. Default: the optimizer's own, 0.1 for sgd.")] = None
    momentum: Annotated[float | None, typer.Option(help="Momentum. Default: the optimizer's own, 0.9 for sgd.")] = None
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay. Default: the optimizer's own, 5e-4 for sgd.")
    ] = None
    schedule: Annotated[str, typer.Option(help="Learning rate over time: cosine, linear or constant.")] = "cosine"
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, …")] = "cpu"
    channels_last: Annotated[
        bool,
        typer.Option("--channels-last", help="Quicker convolutions on the CPU; the last bits differ."),
    ] = False

    def spec(self, method: str, *, seed: int = 0) -> RunSpec:
        """Say what a run of a method is."""
        from surefoot.data.label_noise import with_noise
        from surefoot.studies.compare import make_spec

        words = dataclasses.asdict(self)
        data = with_noise(words.pop("data"), words.pop("label_noise"))
        return make_spec(method, data=data, seed=seed, **words)


@dataclass(frozen=True)
class Watching:
    """What is measured while a run trains."""

    track: Annotated[
        str | None, typer.Option(help="Measure on the way: cheap, standard, full, or trackers as gn_sharpness:every=5.")
    ] = None
    track_budget: Annotated[
        float | None, typer.Option(help="Share of the training time to spend on it, such as 0.1.")
    ] = None

    def tracking(self) -> Tracking:
        """Read what was typed; a budget alone stretches the standard preset."""
        from surefoot.schema import Tracking
        from surefoot.trackers import read_track

        if self.track is None and self.track_budget is None:
            return Tracking()
        return Tracking(read_track(self.track or "standard"), self.track_budget)


def spread(command: Callable[..., R]) -> Callable[..., R]:
    """Replace each parameter that is a dataclass by its fields.

    Args:
        command: Its parameters are annotated.

    Returns:
        A function with more parameters, all of them keywords, that gathers them again and calls the command.

    Example:
        >>> @spread
        ... def watch(seed: int, watching: Watching) -> Watching:
        ...     return watching
        >>> list(inspect.signature(watch).parameters)
        ['seed', 'track', 'track_budget']
        >>> watch(seed=1, track="cheap", track_budget=None)
        Watching(track='cheap', track_budget=None)
    """
    given = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in given.parameters.items()
        if dataclasses.is_dataclass(parameter.annotation)
    }

    @functools.wraps(command)
    def gather(**values: Any) -> R:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        return command(**values)

    parameters = [
        new.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for old in given.parameters.values()
        for new in (_fields(old.annotation) if old.name in groups else [old])
    ]
    gather.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]  # which functions do have
    gather.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return gather


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    """Return a dataclass's fields as parameters."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
