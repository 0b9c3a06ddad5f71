"""Calibration of a Lightning module while it trains: ECE with its interval, a reliability diagram, a temperature."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from torch import nn

from surefoot.calibrated import CalibratedModel
from surefoot.calibrators import Temperature, fit_temperature
from surefoot.errors import InputError
from surefoot.integrations._lightning_rows import Collecting, Reader, log
from surefoot.integrations._reliability_figure import draw_reliability
from surefoot.metrics import Interval, bootstrap, from_logits
from surefoot.report.paper import is_possible
from surefoot.schema import Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class CalibrationCallback(Collecting):
    """Log how well validation predictions are calibrated, and fit a temperature to those of the trained weights.

    After each validation it logs ``val_ece`` with the ends of its interval, ``val_ece_low`` and ``val_ece_high``,
    ``val_nll`` and ``val_accuracy``, and sends a reliability diagram to the loggers. At the end of the training it fits
    a temperature *on the validation rows*, so a figure for how good it is must come from others: ``trainer.test``
    logs ``test_ece`` and so on, and ``test_ece_calibrated`` beside it.

    Predictions of all ranks are put together and kept until the next validation, in memory: rows × classes numbers.

    Args:
        n_bins: Number of bins of ECE and of the diagram.
        level: Of the interval and of the diagram's bars.
        figure: Whether to draw; needs matplotlib.
        dataloader: Which one, where there are several for validation.
        predictions: Takes module, batch and what ``validation_step`` returned, gives logits (n, classes) and labels
            (n,). Without it, these are ``"logits"`` and ``"labels"`` of what ``validation_step`` returned. If it
            returned neither, and batches are pairs, the module is called once more, ``module(inputs)``.

    Attributes:
        predictions: Logits and labels of the last validation, as those of a calibration split.
        ece: The ECE of these, with its interval.
        calibrator: The temperature, once the training has ended.
        figure: The last diagram.
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        level: float = 0.95,
        figure: bool = True,
        dataloader: int | None = None,
        predictions: Reader | None = None,
    ) -> None:
        super().__init__(dataloader, predictions)
        self.n_bins, self.level = n_bins, level
        self.predictions: Predictions | None = None
        self.ece: Interval | None = None
        self.calibrator: Temperature | None = None
        self.figure: Figure | None = None
        self._draws = figure
        if figure and not is_possible():
            raise InputError(
                "Expected matplotlib, which draws the diagram, but it is not installed. Run pip install "
                "'surefoot[figures]', or pass figure=False."
            )
        self._validated: tuple[int, int] | None = None  # steps made, and the weights' checksum
        self._why_not = "it has not seen a training end"

    on_test_epoch_start = Collecting.on_validation_epoch_start
    on_test_batch_end = Collecting.on_validation_batch_end

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure, log and draw."""
        if trainer.sanity_checking or not self._batches:
            return
        self.predictions = self._gathered("calibration")
        self.ece = self._report(trainer, pl_module, self.predictions, "val")
        self._validated = trainer.global_step, _checksum(pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure, log and draw, with and without the temperature."""
        if not self._batches:
            return
        found = self._gathered("test")
        self._report(trainer, pl_module, found, "test")
        if self.calibrator is not None and self._fits(pl_module):
            repaired = self.calibrator(found)
            log(
                pl_module,
                {"test_ece_calibrated": from_logits("ece", repaired.logits, found.labels, n_bins=self.n_bins)},
            )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Fit the temperature on the validation rows, if they were predicted by the weights as they are now."""
        self.calibrator = None
        if self.predictions is None or self._validated is None:
            self._why_not = "there was no validation"
        elif not self._fits(pl_module):
            self._why_not = f"the last validation was at step {self._validated[0]} of {trainer.global_step}"
        else:
            self.calibrator = fit_temperature(self.predictions)
            return
        warnings.warn(f"No temperature is fitted: {self._why_not}. Validate after the last step.", stacklevel=2)

    def calibrated(self, model: nn.Module) -> CalibratedModel:
        """Put the temperature behind a model.

        Args:
            model: The one that was trained, with the weights that were validated last.

        Returns:
            Takes its place: the same inputs, calibrated logits; with ``calibrator`` and ``report``.

        Raises:
            InputError: If there is no temperature, or if these are other weights.
        """
        from surefoot.auditing import calibrate

        if self.calibrator is None or self.predictions is None:
            raise InputError(
                f"Expected a fitted temperature, but there is none: {self._why_not}. "
                'Call surefoot.calibrate(model, loader, method="temperature") with held-out rows.'
            )
        if not self._fits(model):
            raise InputError(
                "Expected the weights that were validated last, but got others, from another checkpoint perhaps: the "
                'temperature is not theirs. Call surefoot.calibrate(model, loader, method="temperature").'
            )
        return CalibratedModel(model, calibrate(self.predictions, method="temperature"))

    def _fits(self, model: nn.Module) -> bool:
        return self._validated is not None and self._validated[1] == _checksum(model)

    def _gathered(self, split: Literal["calibration", "test"]) -> Predictions:
        """Put the batches of all ranks together; the same on every rank."""
        mine = self._rows()
        everyones = [mine]
        if dist.is_available() and dist.is_initialized():
            everyones *= dist.get_world_size()
            dist.all_gather_object(everyones, mine)
        logits, labels = (torch.cat(column) for column in zip(*everyones, strict=True))
        return Predictions(logits.double().numpy(), labels.numpy(), split)

    def _report(self, trainer: Trainer, module: LightningModule, found: Predictions, stage: str) -> Interval:
        logits, labels = torch.from_numpy(found.logits), torch.from_numpy(found.labels)
        probs = logits.softmax(1)
        ece = bootstrap("ece", probs, labels, n_bins=self.n_bins, level=self.level)
        values = {name: from_logits(name, logits, labels) for name in ("nll", "accuracy")}
        ends = {"ece": ece.estimate, "ece_low": ece.low, "ece_high": ece.high}
        log(module, {f"{stage}_{name}": value for name, value in {**ends, **values}.items()})
        if self._draws and trainer.is_global_zero:
            accuracy = float(values["accuracy"])
            self.figure = draw_reliability(probs, labels, ece, accuracy=accuracy, n_bins=self.n_bins)
            for logger in trainer.loggers:
                _send(logger, f"{stage}_reliability", self.figure, trainer.global_step)
        return ece


def _checksum(model: nn.Module) -> int:
    """Tell weights from others: 1 GB takes about a second."""
    total = 0
    for value in model.state_dict().values():
        total = zlib.crc32(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(), total)
    return total


def _send(logger: Any, name: str, figure: Figure, step: int) -> None:
    """Give a figure to a logger: TensorBoard, MLflow and Weights & Biases show it; others get a file."""
    if hasattr(logger.experiment, "add_figure"):
        logger.experiment.add_figure(name, figure, step, close=False)
    elif hasattr(logger.experiment, "log_figure") and hasattr(logger, "run_id"):
        logger.experiment.log_figure(logger.run_id, figure, f"{name}_{step}.png")
    elif hasattr(logger, "log_image"):
        logger.log_image(name, [figure], step=step)
    elif logger.log_dir is not None:
        Path(logger.log_dir).mkdir(parents=True, exist_ok=True)
        figure.savefig(Path(logger.log_dir, f"{name}_{step}.png"))
    else:
        warnings.warn(
            f"{type(logger).__name__} takes no figures: callback.figure has it. Pass figure=False.",
            stacklevel=2,
        )
