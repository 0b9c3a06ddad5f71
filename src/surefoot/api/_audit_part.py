"""An audit of rows that lie in several places: each worker reads a part."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from surefoot.api._audit import audit, read_form, read_source
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.auditing import AuditPart

_NOT_HERE = ("others", "names", "engine", "address", "jobs")


def audit_part(source: Any = None, *, start: int = 0, **options: Any) -> AuditPart:
    """Read some of the rows that are to be audited together, on whatever machine has them.

    Args:
        source: A file, a DataFrame, arrays by name, as :func:`audit` takes them; or left out, with ``probs`` or
            ``logits`` as arrays.
        start: How many rows come before these, in other parts. What is drawn at random for a row is drawn by its
            number, so with the right ones the answer is that of all rows at once. Where nobody knows, any numbers will
            do that keep parts apart, such as 10**9 times the number of the part.
        **options: As :func:`audit` takes them, the same for all parts.

    Returns:
        What was found, to be merged with the others: ``AuditReport.merge(parts)``. It can be pickled.

    Raises:
        InputError: If these rows cannot be a part of others.

    Example:
        >>> import surefoot as sf
        >>> rows = [[0.9, 0.1], [0.8, 0.2]] * 50, [0, 1] * 50
        >>> parts = [sf.audit_part(probs=rows[0], labels=rows[1], start=start) for start in (0, 100, 200)]
        >>> report = sf.AuditReport.merge(parts)
        >>> report.audit.n, round(report.verdict.gap.estimate, 4)
        (300, 0.35)
    """
    from surefoot.auditing import audit_part as read_part

    if unknown := [name for name in options if name in _NOT_HERE or name not in inspect.signature(audit).parameters]:
        raise InputError(f"Expected options of an audit of one part, but got {unknown[0]}. Leave it out.")
    found = inspect.signature(audit).bind(source, **options)
    found.apply_defaults()
    said = found.arguments
    words = [said[name] for name in ("source", "logits", "probs", "percent", "scores", "labels", "labels_are", "group")]
    more = ("class_names", "weights", "weights_are", "skip_missing", "header")
    source, told = read_source(*words, **{name: said[name] for name in more})
    told |= read_form(*(said[name] for name in ("form", "normalise", "ignore_index", "class_axis")))
    positive = None if said["positive"] is None else str(said["positive"])
    asked = {name: said[name] for name in ("model", "level", "metrics", "risk", "on_rows")}
    return read_part(source, start=start, positive=positive, n_bins=said["bins"], **asked, **told)
