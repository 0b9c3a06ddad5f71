"""How a way to train is written: ``csam:gamma=2,rho=0.1``, ``focal + deep:members=3 + sam``, ``crop + flip``.

A method is a sum of parts, at most one of each kind. What is not said is cross-entropy, one network and SGD. An
option that the optimizer does not know goes to the base optimizer that it wraps, so ``sam:lr=0.05,base=adamw`` works.
Every optimizer takes ``tune``: ``csam:tune=auto`` turns ρ, γ and weight decay by the calibration
split while it trains.

A part of one's own is named by import path, with its options behind a second colon:
``mypkg.parts:my_loss:alpha=0.2 + mypkg.parts:my_optimizer``. Its kind shows in what it takes and makes: an optimizer
takes parameters (or ``base`` and the model, if it wraps another one), a loss and an ensemble take options only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from surefoot.errors import InputError, OptionError, UnknownNameError
from surefoot.imported import IMPORT_PATH, import_function
from surefoot.options import positional
from surefoot.registry import AUGMENTATIONS, ENSEMBLES, LOSSES, OPTIMIZERS, Part, Registry, unknown_name
from surefoot.schema import MethodSpec, OptionValue, PartSpec

_PLUS = re.compile(r"\s*\+\s*(?=[A-Za-z_])")  # not the plus of 1e+3
KINDS_OF_PARTS = (OPTIMIZERS, LOSSES, ENSEMBLES)
_NEW_METHOD = re.compile(r",(?=\s*[A-Za-z_][\w.]*\s*(?:[,:+]|$))")  # not the comma before key=value
TUNED = ("none", "auto", "rho", "gamma", "weight_decay", "lr")  # what ``tune`` may say
_PRESETS = {"standard": "crop + flip"}  # of augmentations


def split_methods(text: str) -> list[str]:
    """Divide a comma-separated list of methods, whose options are separated by commas too.

    Args:
        text: What was typed.

    Returns:
        One text per method.

    Example:
        >>> split_methods("sgd,csam:gamma=2,rho=0.1, sam")
        ['sgd', 'csam:gamma=2,rho=0.1', 'sam']
        >>> split_methods("sgd,")  # a list of one, as a file of settings gives it
        ['sgd']
    """
    return [name for piece in _NEW_METHOD.split(text) if (name := piece.strip(" ,"))]


def read_augment(text: str) -> tuple[PartSpec, ...]:
    """Read augmentations, in the order in which they are applied.

    Args:
        text: For example ``"crop:padding=4 + flip"``, or ``"standard"`` for just that, or ``"none"``.

    Returns:
        The parts, with every option filled in.

    Example:
        >>> [str(part) for part in read_augment("standard + cutout:8")]
        ['crop:padding=4', 'flip:p=0.5', 'cutout:size=8']
    """
    named = " + ".join(_PRESETS.get(piece, piece) for piece in _PLUS.split(text.strip()))
    return tuple(AUGMENTATIONS.parse(piece) for piece in _PLUS.split(named) if piece not in ("", "none"))


def parse_method(text: str, defaults: Mapping[str, OptionValue] | None = None) -> MethodSpec:
    """Read one method and fill in everything that was not said.

    Args:
        text: For example ``"csam:gamma=2"``.
        defaults: Options such as ``lr`` that every base optimizer gets unless the method sets its own;
            those that a base does not take are left out.

    Returns:
        The complete method.

    Raises:
        InputError: If a part is unknown or two parts are of the same kind.
    """
    found: dict[str, tuple[Part, dict[str, OptionValue]]] = {}
    for piece in _PLUS.split(text.strip()):
        kind = _kind_of(piece)
        if kind.kind in found:
            raise InputError(f"Expected at most one {kind.kind} in a method, but got {text!r}. Remove one of them.")
        found[kind.kind] = kind.read(piece)
    loss, loss_given = found.get("loss", (LOSSES["ce"], {}))
    ensemble, ensemble_given = found.get("ensemble", (None, {}))
    usual = str(ensemble.facts.get("optimizer", "sgd")) if ensemble else "sgd"
    part, given = found.get("optimizer", (OPTIMIZERS[usual], {}))
    tune = _read_tune(part, given)
    optimizer, base = _with_base(part, given, defaults or {})
    members = ensemble.spec(ensemble_given) if ensemble else None
    return MethodSpec(text.strip(), loss.spec(loss_given), optimizer, base, members, tune)


def _read_tune(part: Part, given: dict[str, OptionValue]) -> str | None:
    """Take ``tune`` out of the options of an optimizer that has none of that name itself."""
    if "tune" in part.options:
        return None
    tune = str(given.pop("tune", "none"))
    if tune not in TUNED:
        raise OptionError(f"Expected tune to be {', '.join(TUNED)}, but got {tune!r}. Write tune=auto.")
    return None if tune == "none" else tune


def _kind_of(piece: str) -> Registry:
    """Say of which kind a part of a method is."""
    name = piece.partition(":")[0].strip()
    known = next((kind for kind in KINDS_OF_PARTS if name in kind), None)
    return known or _kind_of_own(piece, name)


def _kind_of_own(piece: str, name: str) -> Registry:
    """Say of which kind a user's own part is, by what it takes and makes.

    Losses and ensembles both take nothing but options, so one is made to see which it is.
    """
    every = [part.name for kind in KINDS_OF_PARTS for part in kind]
    match = IMPORT_PATH.fullmatch(piece.strip())
    if match is None:
        hint = f" Write your own part as {name}:function." if "." in name else ""
        raise UnknownNameError(f"{unknown_name('method', name, every)}{hint}")
    import_function("method", match[1], every)  # raises where there is none
    part, given = LOSSES.read(piece)  # as all kinds read it
    takes = positional(part.build)
    if takes and takes[0] != "logits":
        return OPTIMIZERS
    made = None if takes else part.build(**part.spec(given).options)
    if all(hasattr(made, hook) for hook in ("wrap", "objective", "forward_passes")):
        return ENSEMBLES
    if all(hasattr(made, hook) for hook in ("attach", "prepare", "evaluate")):
        return LOSSES
    does = f"takes {takes[0]}" if takes else f"returns a {type(made).__name__}"
    raise InputError(
        f"Expected {part.name} to return a Loss or an Ensemble, or to take parameters and return an optimizer, "
        f"but it {does}. Write a function of options, def {part.name.partition(':')[2]}(*, …), that returns one."
    )


def _with_base(
    part: Part, given: dict[str, OptionValue], defaults: Mapping[str, OptionValue]
) -> tuple[PartSpec, PartSpec | None]:
    shared = {key: value for key, value in defaults.items() if value is not None}
    if not part.facts.get("wraps"):
        return part.spec({**_taken_by(part, shared), **given}), None
    base = OPTIMIZERS[str(given.pop("base", "sgd"))]
    if base.facts.get("wraps"):
        raise OptionError(
            f"Expected base to be a plain optimizer, but got {base.name!r}. Write base=sgd or base=adamw."
        )
    own = _taken_by(part, given)
    others = {key: value for key, value in given.items() if key not in own}
    if unknown := [key for key in others if key not in base.options]:
        part.spec(dict.fromkeys(unknown, ""))  # raises, naming the closest option
    return part.spec(own), base.spec({**_taken_by(base, shared), **others})


def _taken_by(part: Part, options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    return {key: value for key, value in options.items() if key in part.options}
