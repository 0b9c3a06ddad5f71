"""Where a comparison or a study is kept: a folder here, or an address with a folder here that has the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from surefoot.api._train import check_out
from surefoot.settings import Placement


def find_place(out: Path | str, placement: Placement) -> tuple[Path, Placement]:
    """Return the folder for the runs on this machine, and where they are made and kept.

    Args:
        out: A folder, or an address such as ``s3://bucket/runs``, which is then where the runs are kept.
        placement: Where they are made.

    Returns:
        The folder, of which an engine on other machines gets the full path, and the placement with the address.

    Raises:
        InputError: If nothing can be kept there.

    Example:
        >>> out, placement = find_place("memory://runs", Placement())
        >>> out.as_posix(), placement.store
        ('surefoot-runs/memory-runs', 'memory://runs')
    """
    from surefoot.records.remote import cache_of, check_address, is_address  # imports numpy

    if is_address(out):
        placement = replace(placement, store=placement.store or str(out))
        out = cache_of(str(out))
    if placement.store:
        check_address(placement.store)
    found = check_out(out)
    return (found.resolve() if placement.engine == "ray" else found), placement
