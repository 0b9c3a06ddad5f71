"""Trackers in a loop that is not ours: ``tracker(step, model, batch)``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.moment import Horizon, Moment
from surefoot.schema import Split, Splits
from surefoot.trackers._read import build_trackers, read_track
from surefoot.training.panel import Panel

Pair = tuple[Tensor, Tensor]


class Watch:
    """Measures in any training loop, which is the same without it.

    Args:
        track: Presets and trackers as after ``--track``: ``"standard"``, ``"cheap,gn_sharpness:every=5"``.
        train: Inputs and labels of the training data, or some thousands of them.
        test: Inputs and labels of held-out data.
        calibration: Inputs and labels of other held-out data, to choose by and to fit temperatures on.
        optimizer: For its learning rate and, if it is one of ours, the facts of its steps.
        loss: What is trained, if it is one of our losses.
        n_steps: Length of the training, so that its end is measured as well.
        steps_per_epoch: For trackers that measure once per epoch.
        budget: Share of the training time to spend, such as 0.1; None for what the schedules take.
        out: A file that takes one line of JSON per measurement.
        listen: Called with every record as it is made, such as a :class:`surefoot.integrations.logging.Log`.

    Attributes:
        records: All measurements so far.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = torch.tensor([[1.0, 2.0]]), torch.tensor([0])
        >>> tracker = Watch("gn_sharpness:every=1", train=data, test=data)
        >>> round(tracker(0, model, data)["gn_sharpness/value"], 4)
        2.5
    """

    def __init__(
        self,
        track: str = "standard",
        *,
        train: Pair,
        test: Pair,
        calibration: Pair | None = None,
        optimizer: Optimizer | None = None,
        loss: nn.Module | None = None,
        n_steps: int | None = None,
        steps_per_epoch: int = 100,
        budget: float | None = None,
        out: Path | str | None = None,
        listen: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        held_out = Split(*test)
        other = held_out if calibration is None else Split(*calibration)
        n_classes = int(max(split.labels.max() for split in (Split(*train), held_out, other))) + 1
        self._splits = Splits(Split(*train), other, held_out, tuple(map(str, range(n_classes))), fingerprint="")
        self._optimizer, self._loss, self._per_epoch = optimizer, loss, steps_per_epoch
        self._track, self._n_steps, self._budget = read_track(track), n_steps, budget
        self._panel: Panel | None = None
        self._out = None if out is None else Path(out)
        self._listen = listen
        self.records: list[dict[str, Any]] = []

    def __call__(self, step: int, model: nn.Module, batch: Pair | None = None) -> dict[str, float | str | None]:
        """Measure what is due after ``step`` steps.

        Args:
            step: Steps made; 0 is before the first.
            model: The network; gradients, modes and random numbers are left as they are.
            batch: Inputs and labels of the last step.

        Returns:
            All values measured now, by key; empty where nothing is due.
        """
        if self._panel is None:
            size = 128 if batch is None else len(batch[1])
            trackers = build_trackers(self._track, Horizon(self._n_steps or 0, self._per_epoch, size))
            self._panel = Panel(trackers, self._budget)
        epoch = step // self._per_epoch
        moment = Moment(step, epoch, model, self._splits, batch, self._loss, self._optimizer)
        new = [{"step": step, "tracker": name, **values} for name, values in self._panel.measure(moment)]
        self.records += new
        if self._out is not None and new:
            with self._out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(record) + "\n" for record in new)
        if self._listen is not None:
            for record in new:
                self._listen(record)
        return {key: value for record in new for key, value in record.items() if "/" in key}
