"""How metrics are named on the command line and in records: ``ece``, ``ece:n_bins=30``, ``ece@temperature``.

Behind ``@`` stands the calibrator that the predictions went through first. A metric of one's own is named by import
path, ``mypkg.metrics:mine``. The key of a metric leaves out options that have their default value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from surefoot.registry import CALIBRATORS, METRICS, Part
from surefoot.schema import OptionValue, PartSpec

_NEXT = re.compile(r",(?=\s*[A-Za-z_][\w.]*\s*(?:[,:@]|$))")  # not the comma before key=value


def read_metrics(text: str | Sequence[str]) -> tuple[str, ...]:
    """Read a list of metrics as people type it.

    Args:
        text: For example ``"ece,nll"``, ``"ece:n_bins=30"``, ``"ece,ece@temperature"`` or ``["ece", "nll"]``.

    Returns:
        Their keys, each once.

    Raises:
        InputError: If there is no such metric, option or calibrator.

    Example:
        >>> read_metrics("nll, ece:n_bins=15, ece:n_bins=30@temperature")
        ('nll', 'ece', 'ece:n_bins=30@temperature')
    """
    keys: dict[str, None] = {}
    for piece in split_metrics(text):
        metric, calibrator = split_key(piece)
        part, options = read_metric(metric)
        name = f"@{CALIBRATORS[calibrator].name}" if calibrator is not None else ""
        keys[metric_key(part, options) + name] = None
    return tuple(keys)


def split_metrics(text: str | Sequence[str]) -> list[str]:
    """Divide a list of metrics as people type it, without looking any of them up.

    Example:
        >>> split_metrics("nll, top_k_accuracy:k=3,gap")
        ['nll', 'top_k_accuracy:k=3', 'gap']
    """
    texts = [text] if isinstance(text, str) else text
    return [piece.strip(" ,") for each in texts for piece in _NEXT.split(each) if piece.strip(" ,")]


def split_key(key: str) -> tuple[str, str | None]:
    """Divide a key into the metric and its calibrator, if there is one.

    Example:
        >>> split_key("ece@temperature"), split_key("nll")
        (('ece', 'temperature'), ('nll', None))
    """
    metric, at, calibrator = key.rpartition("@") if "@" in key else (key, "", "")
    return metric.strip(), calibrator.strip() if at else None


def read_metric(text: str) -> tuple[Part, dict[str, OptionValue]]:
    """Find a metric by name or import path, and fill in its options."""
    part, given = METRICS.read(text)
    return part, dict(part.spec(given).options)


def metric_key(part: Part, options: Mapping[str, OptionValue]) -> str:
    """Write a metric with those options that differ from their default."""
    changed = {key: value for key, value in options.items() if value != part.options[key].default}
    return str(PartSpec(part.name, changed))
