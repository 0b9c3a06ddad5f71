"""A finished run as tables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError
from surefoot.schema import SPLITS, RunSpec, SplitName

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from surefoot.records import RunFolder


class Run:
    """What a run folder holds. Tables are pandas DataFrames where pandas is installed, else lists of dictionaries.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @cached_property
    def spec(self) -> RunSpec:
        """What determines the run."""
        return self.folder.spec

    @cached_property
    def steps(self) -> Any:
        """One row per step: its loss, and what the run had cost until then."""
        return table(record for record in self.folder.steps() if "tracker" not in record)

    @cached_property
    def tracked(self) -> Any:
        """One row per tracker and moment, during the training or measured afterwards."""
        return table(self.folder.tracked())

    @cached_property
    def measures(self) -> Any:
        """One row per split, calibrator and metric."""
        return table(record for record in self.folder.measures() if "value" in record)

    def measure(self, metric: str, *, split: SplitName = "test") -> float | None:
        """Return a metric of the run's predictions; what the run does not hold yet is computed and kept.

        Args:
            metric: For example ``"brier"``, ``"ece:n_bins=30"`` or ``"ece@temperature"``.
            split: Of which examples.

        Returns:
            A fraction, not percent; None where the metric is not defined.
        """
        from surefoot.evaluate import value_of
        from surefoot.metric_keys import read_metrics

        (key,) = read_metrics(metric)
        return value_of(self.folder, key, split=split)

    @cached_property
    def predictions(self) -> Any:
        """One row per example: its split, its label, and a logit per class; :func:`surefoot.audit` reads the rows."""
        import numpy as np

        found = [self.folder.predictions(split) for split in SPLITS]
        logits, labels = (np.concatenate([getattr(each, name) for each in found]) for name in ("logits", "labels"))
        names = found[0].class_names or tuple(map(str, range(logits.shape[1])))
        splits = np.repeat([each.split for each in found], [len(each.labels) for each in found])
        columns = {f"logit_{name}": column for name, column in zip(names, logits.T, strict=True)}
        return table({"split": splits, "label": labels, **columns})

    def model(self, *, trust: bool = False) -> nn.Module:
        """Return the trained network in eval mode.

        Args:
            trust: Import code of others that the folder names, such as a network of one's own.

        Returns:
            The network.

        Raises:
            InputError: If the run has no checkpoint, or trained several networks.
        """
        from surefoot.trained import trained_model

        return trained_model(self.folder, trust=trust)

    def __repr__(self) -> str:
        """Name method, seed and folder."""
        return f"Run({self.spec.method.label}, seed {self.spec.seed}, {self.path})"


def load_run(folder: Path | str) -> Run:
    """Open a finished run.

    Args:
        folder: The run folder.

    Returns:
        The run: ``steps``, ``measures``, ``predictions`` and ``tracked`` as tables, ``spec``, ``model()``.

    Raises:
        InputError: If the folder holds no finished run.
    """
    from surefoot.records import RunFolder

    run = Run(RunFolder(folder))
    _ = run.spec  # raises where there is none
    if run.folder.done() is None:
        raise InputError(f"Expected a finished run, but {folder} is not finished. Start it again: it goes on.")
    return run


def table(records: Iterable[dict[str, Any]] | dict[str, np.ndarray]) -> Any:
    """Return records, or columns, as a pandas DataFrame; without pandas as a list of dictionaries."""
    found = records if isinstance(records, dict) else list(records)
    try:
        import pandas
    except ImportError:
        if isinstance(found, list):
            return found
        rows = zip(*(column.tolist() for column in found.values()), strict=True)
        return [dict(zip(found, row, strict=True)) for row in rows]
    return pandas.DataFrame(found)
