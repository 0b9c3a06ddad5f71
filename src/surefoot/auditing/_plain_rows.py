"""Predictions whose rows count alike and have one true class: what gates and estimates are for."""

from __future__ import annotations

from collections.abc import Collection

from surefoot.errors import InputError
from surefoot.schema import Form
from surefoot.sources.source import Source


def check_plain(source: Source, forms: Collection[Form], where: str) -> None:
    """Refuse what would be read as something that it is not.

    Args:
        source: What was opened.
        forms: Those that can be used.
        where: The file, for messages.

    Raises:
        InputError: If rows have weights, or another form.
    """
    if source.weights is not None:
        raise InputError(
            f"Expected rows that count alike, but {where} has weights in {source.weights!r}, which are not taken here. "
            "Say --no-weights to count every row once."
        )
    if source.form not in forms:
        raise InputError(
            f"Expected one true class among the same classes in every row, but {where} holds {source.form}. "
            "Audit them instead."
        )
