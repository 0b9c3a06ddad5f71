"""A data set as an option of another one: semicolons stand for the commas between its own options."""

from __future__ import annotations

import re


def as_option(data: str) -> str:
    """Write a data set so that it can stand in the options of another one.

    A comma becomes a semicolon, and semicolons that are there already get one more, so that any depth comes back.

    Args:
        data: As on the command line.

    Returns:
        The same without commas.

    Example:
        >>> as_option("npz:a.npz,calibration=0.1")
        'npz:a.npz;calibration=0.1'
        >>> as_option("redivided:of=npz:a.npz;calibration=0.1,seed=3")
        'redivided:of=npz:a.npz;;calibration=0.1;seed=3'
    """
    return re.sub(",|;+", lambda found: ";" if found[0] == "," else f"{found[0]};", data)


def from_option(text: str) -> str:
    """Read a data set that stands in the options of another one.

    Args:
        text: What :func:`as_option` writes, or a person.

    Returns:
        The data set, as on the command line.

    Example:
        >>> from_option("redivided:of=npz:a.npz;;calibration=0.1;seed=3")
        'redivided:of=npz:a.npz;calibration=0.1,seed=3'
    """
    return re.sub(";+", lambda found: found[0][1:] or ",", text)
