"""From the name of a data set to its splits."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.data._arrays import splits_from_arrays
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import PartSpec, Splits


def load_splits(spec: PartSpec) -> Splits:
    """Load a data set, whoever wrote its part.

    Args:
        spec: The data set with its options.

    Returns:
        Its splits, checked.

    Raises:
        InputError: If the part returns neither splits nor arrays by name.
    """
    made = DATA.build(spec)
    if isinstance(made, Splits):
        return made
    if isinstance(made, Mapping):
        return splits_from_arrays(made, origin=spec.name, kind=made.get("inputs"))
    raise InputError(
        f"Expected {spec.name} to return Splits or a dictionary with x_train, y_train, x_test and y_test, "
        f"but got {type(made).__name__}. Return one of these."
    )
