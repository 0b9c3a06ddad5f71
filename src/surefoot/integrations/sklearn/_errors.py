"""What scikit-learn expects to be raised."""

from __future__ import annotations

from surefoot.errors import InputError


class ValueInputError(InputError, ValueError):
    """What was passed in cannot be used. scikit-learn looks for a ``ValueError``, surefoot for an ``InputError``."""
