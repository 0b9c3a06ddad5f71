"""What a run is told beside its method and seed: declared once, for Python and for the command line.

An option is a field or a parameter annotated ``Annotated[type, "what it is for"]``; the command line makes a flag of
it with the same name and default. :func:`spread` lets a function take all fields of a dataclass as keywords.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from surefoot.clusters import ENGINES
from surefoot.errors import InputError, OptionError
from surefoot.imported import did_you_mean
from surefoot.schema import RunSpec, Tracking

R = TypeVar("R")
_TAKEN_OVER = ("epochs", "batch_size", "schedule", "device", "channels_last", "precision", "accumulate", "compile")


@dataclass(frozen=True)
class Settings:
    """All that determines a run beside its method and its seed."""

    data: Annotated[str, "Data set: fashion, npz:PATH, or your own as module:function."] = "fashion"
    model: Annotated[str, "Network: mlp, cnn, with options as mlp:width=100, or module:function."] = "mlp"
    augment: Annotated[
        str, "Change training images at random: crop + flip + cutout:size=8; standard is crop + flip."
    ] = "none"
    label_noise: Annotated[
        str | None, "Make training labels wrong: sym:0.2, pairflip:0.4, asym:0.4 or given:FILE.npy."
    ] = None
    epochs: Annotated[int, "Passes over the training split."] = RunSpec.epochs
    batch_size: Annotated[int, "Examples per step, at most: the batches of an epoch are of one size."] = (
        RunSpec.batch_size
    )
    lr: Annotated[float | None, "Learning rate. Default: the optimizer's own, 0.1 for sgd."] = None
    momentum: Annotated[float | None, "Momentum. Default: the optimizer's own, 0.9 for sgd."] = None
    weight_decay: Annotated[float | None, "Weight decay. Default: the optimizer's own, 5e-4 for sgd."] = None
    schedule: Annotated[str, "Learning rate over time: cosine, linear or constant."] = RunSpec.schedule
    device: Annotated[str, "Where to train: cpu, cuda, …"] = RunSpec.device
    channels_last: Annotated[bool, "Quicker convolutions on the CPU; the last bits differ."] = RunSpec.channels_last
    precision: Annotated[str, "Of products in forward passes: fp32 or bf16; weights are float32."] = RunSpec.precision
    accumulate: Annotated[int, "Let a batch go through the network in so many pieces, to save memory."] = (
        RunSpec.accumulate
    )
    compile: Annotated[bool, "Let torch.compile make the network quicker; the last bits differ."] = RunSpec.compile

    def spec(self, method: str, *, seed: int = 0) -> RunSpec:
        """Return the complete spec of a run of a method."""
        from surefoot.data.label_noise import with_noise  # imports torch
        from surefoot.method import parse_method, read_augment
        from surefoot.registry import DATA, MODELS

        base_options = {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
        data = DATA.parse(with_noise(self.data, self.label_noise))
        return RunSpec(
            parse_method(method, base_options),
            data,
            MODELS.parse(self.model),
            seed=seed,
            augment=read_augment(self.augment),
            **{name: getattr(self, name) for name in _TAKEN_OVER},
        )


@dataclass(frozen=True)
class Watching:
    """What is measured while a run trains."""

    track: Annotated[str | None, "Measure on the way: cheap, standard, full, or trackers as gn_sharpness:every=5."] = (
        None
    )
    track_budget: Annotated[float | None, "Share of the training time to spend on it, such as 0.1."] = None

    def tracking(self) -> Tracking:
        """Return what to track; a budget alone stretches the standard preset."""
        from surefoot.trackers import read_track

        if self.track is None and self.track_budget is None:
            return Tracking()
        return Tracking(read_track(self.track or "standard"), self.track_budget)


@dataclass(frozen=True)
class Placement:
    """Where runs are made, and what each of them takes; the runs are the same everywhere."""

    engine: Annotated[str, "local: processes here; ray: tasks of a Ray cluster."] = "local"
    address: Annotated[
        str | None,
        "Of the Ray cluster: HOST:PORT, auto, or local to start one here. Default: RAY_ADDRESS, else auto.",
    ] = None
    jobs: Annotated[int | None, "Runs at once; else one per core, or with ray as many as fit."] = None
    cpus_per_run: Annotated[float | None, "Cores that ray keeps free for a run, which uses one thread. Default: 1."] = (
        None
    )
    gpus_per_run: Annotated[float | None, "GPUs that ray gives a run, 0.5 for half of one; with --device cuda."] = None
    store: Annotated[
        str | None,
        "Where run folders are kept for all machines: s3://bucket/runs or another address that fsspec knows.",
    ] = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself before anything runs."""
        if self.engine not in ENGINES:
            raise InputError(
                f"Expected --engine to be {' or '.join(ENGINES)}, but got {self.engine!r}. Choose one of them."
            )
        for name in ("address", "cpus_per_run", "gpus_per_run"):
            if self.engine != "ray" and getattr(self, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(
                    f"Expected {flag} with --engine ray, but the engine is {self.engine}. Add --engine ray."
                )
        for name in ("jobs", "cpus_per_run", "gpus_per_run"):
            value, least = getattr(self, name), 1 if name == "jobs" else 0
            if value is not None and not value >= least:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"Expected {flag} to be at least {least}, but got {value}. Leave it out.")
        if self.store is not None and "://" not in self.store:
            raise InputError(
                f"Expected --store to be an address, but got {self.store!r}. "
                "Write s3://bucket/runs; for a path there is --out."
            )


HERE = Placement()


def spread(function: Callable[..., R]) -> Callable[..., R]:
    """Replace each parameter that is a dataclass by its fields.

    Args:
        function: Its parameters are annotated; those that are dataclasses are keyword-only.

    Returns:
        A function with more keywords that gathers them again. An unknown one is refused, with the closest known.

    Example:
        >>> @spread
        ... def watch(seed: int = 0, *, watching: Watching) -> Watching:
        ...     return watching
        >>> list(inspect.signature(watch).parameters)
        ['seed', 'track', 'track_budget']
        >>> watch(track="cheap")
        Watching(track='cheap', track_budget=None)
    """
    declared = parameters_of(function)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in declared
        if dataclasses.is_dataclass(parameter.annotation) and parameter.default is parameter.empty
    }
    parameters = [new for old in declared for new in (_fields(old.annotation) if old.name in groups else [old])]
    names = [parameter.name for parameter in parameters]

    @functools.wraps(function)
    def gather(*args: Any, **values: Any) -> R:
        check_known(values, names, function.__name__)
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group) if field.name in values]
            values[name] = group(**{field: values.pop(field) for field in fields})
        return function(*args, **values)

    gather.__signature__ = inspect.signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]  # which functions do have
    gather.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return gather


def check_known(given: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Refuse an option that nobody knows.

    Args:
        given: Names of options.
        known: Those that there are.
        owner: Whose options they are, for the message.

    Raises:
        OptionError: If one is unknown; it names the closest known one.
    """
    known = list(known)
    for name in given:
        if name not in known:
            raise OptionError(f"Unknown option {name!r} for {owner}.{did_you_mean(name, known)}")


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return a function's parameters; an annotation that is imported for type checkers only stays a text."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            hints = get_type_hints(holder, function.__globals__, include_extras=True)
            found.append(parameter.replace(annotation=hints[parameter.name]))
        except NameError:
            found.append(parameter)
    return found


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    """Return a dataclass's fields as parameters."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
