"""Settings in a file: what a run folder writes as ``run.toml`` can be fed back with ``--config run.toml``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.schema import MethodSpec, OptionValue, RunSpec, Tracking, show_option

RUN, COMPARISON = "run.toml", "compare.toml"


def load_config(path: Path | str) -> dict[str, Any]:
    """Read settings from a TOML file.

    Args:
        path: The file, or a folder in which ``surefoot train`` or ``compare`` wrote one.

    Returns:
        The settings by name, as keywords for :func:`surefoot.train` or :func:`surefoot.compare`.

    Raises:
        InputError: If the file is missing, is no TOML or holds more than settings.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        path = next((path / name for name in (RUN, COMPARISON) if (path / name).exists()), path / RUN)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Expected a file of settings, but {path} cannot be read. Check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"Expected settings as TOML, but {path} is none ({error}). Write name = value.") from error
    if tables := [key for key, value in found.items() if isinstance(value, dict)]:
        raise InputError(f"Expected settings as name = value, but {path} has a table [{tables[0]}]. Take it out.")
    return {key.replace("-", "_"): value for key, value in found.items()}


def to_toml(values: Mapping[str, Any]) -> str:
    """Write settings as TOML; those that are None are left out.

    Args:
        values: Texts, numbers, booleans, and lists of texts.

    Returns:
        One line per setting.

    Example:
        >>> print(to_toml({"method": "sgd", "epochs": 3, "lr": None, "grid": ["sam:rho=0.1|0.2"]}), end="")
        method = "sgd"
        epochs = 3
        grid = ["sam:rho=0.1|0.2"]
    """
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # TOML reads the same escapes
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    return str(value).lower()  # true, 1e-05, inf


def method_words(method: MethodSpec) -> str:
    """Write a method with every option of every part, so that it means the same whatever the defaults are.

    Args:
        method: The method.

    Returns:
        What the command line reads.
    """
    loss = "" if str(method.loss) == "ce" else str(method.loss)
    ensemble = str(method.ensemble) if method.ensemble else ""
    optimizer = str(method.optimizer)
    options: dict[str, OptionValue] = {} if method.tune is None else {"tune": method.tune}
    if method.base is not None:
        own = method.optimizer.options  # where both have one of a name, what is typed is the optimizer's
        options |= {"base": method.base.name, **{k: v for k, v in method.base.options.items() if k not in own}}
    if options:
        given = ",".join(f"{key}={show_option(value)}" for key, value in options.items())
        optimizer += f"{',' if method.optimizer.options else ':'}{given}"
    return " + ".join(filter(None, (loss, ensemble, optimizer)))


def run_words(spec: RunSpec, tracking: Tracking, threads: int) -> dict[str, Any]:
    """Write a run as the settings of ``surefoot train``.

    Args:
        spec: What determines the run.
        tracking: What is measured on the way.
        threads: How many threads torch uses.

    Returns:
        The settings by name.
    """
    return {
        "method": method_words(spec.method),
        "data": str(spec.data),
        "model": str(spec.model),
        "augment": spec.augmentation,
        **{name: getattr(spec, name) for name in ("seed", "epochs", "batch_size", "schedule", "device")},
        **{name: getattr(spec, name) for name in ("channels_last", "precision", "accumulate", "compile")},
        "threads": threads,
        "track": ",".join(tracking.trackers) or None,
        "track_budget": tracking.budget,
    }
