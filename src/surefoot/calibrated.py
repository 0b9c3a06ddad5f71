"""A model with a calibrator behind it, and the logits from which that one is fitted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from surefoot.errors import InputError, SplitError
from surefoot.modes import in_eval_mode
from surefoot.schema import Predictions

if TYPE_CHECKING:
    from surefoot.auditing import Fitted
    from surefoot.calibrators import Calibrator


class CalibratedModel(nn.Module):
    """Takes the place of a model: the same inputs, calibrated logits. The calibrator is not trained any further.

    Args:
        model: Gives logits.
        report: Which calibrator was chosen and why.

    Attributes:
        model: The model as it was.
        calibrator: The fitted calibrator.
        report: Which one it is and why; ``report.save(path)`` keeps it.
    """

    def __init__(self, model: nn.Module, report: Fitted) -> None:
        super().__init__()
        self.model = model
        self.report = report
        self.head = report.calibrator.module()
        device = next((parameter.device for parameter in model.parameters()), None)
        self.head.to(device)
        self.train(model.training)

    @property
    def calibrator(self) -> Calibrator:
        """The fitted calibrator."""
        return self.report.calibrator

    def to_onnx(self, path: Path | str, example: Any, *, outputs: Literal["logits", "probs"] = "logits") -> Path:
        """Write the model with its calibrator inside as one ONNX file, compared with onnxruntime on 1,000 rows.

        Args:
            path: Where to; ends in ``.onnx``.
            example: Inputs: a tensor, a tuple of tensors, or a dictionary of keyword arguments; rows first.
            outputs: What comes out of the file: calibrated ``"logits"`` or ``"probs"``.

        Returns:
            The path.

        Raises:
            InputError: If onnxruntime gives other numbers than torch, or a package is missing; no file is left then.
        """
        from surefoot.integrations.export import export_onnx

        return export_onnx(self, example, path, outputs=outputs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return calibrated logits; an output that holds logits, as in transformers, keeps its other fields."""
        output = self.model(*args, **kwargs)
        if isinstance(output, Tensor):
            return self.head(output)
        output.logits = self.head(output.logits)
        return output


def collect_logits(model: nn.Module, loader: Iterable[Any]) -> Predictions:
    """Run a model in eval mode over pairs of inputs and labels.

    Args:
        model: Its modes are afterwards as they were.
        loader: Gives pairs, tensors of a batch each.

    Returns:
        Logits and labels, as those of a calibration split.

    Raises:
        SplitError: If the loader's data say that they are a test split.
        InputError: If it gives no pairs, or the model no logits.
    """
    if str(getattr(getattr(loader, "dataset", loader), "split", "")) == "test":
        raise SplitError(
            "Expected held-out rows to fit on, but the loader's are of the test split. Keep it for scoring."
        )
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    logits, labels = [], []
    with torch.no_grad(), in_eval_mode(model):
        for batch in loader:
            inputs, targets = _pair(batch)
            output = model(inputs.to(device) if isinstance(inputs, Tensor) else inputs)
            logits.append(_logits(getattr(output, "logits", output), targets))
            labels.append(targets.detach().cpu())
    if not logits:
        raise InputError("Expected pairs of inputs and labels, but the loader gives nothing. Pass held-out rows.")
    found = torch.cat(logits)
    if are_probs(found, atol=1e-3):
        raise InputError("Expected logits, but the model gives probabilities. Take the softmax at its end away.")
    return Predictions(found.numpy(), torch.cat(labels).long().numpy(), "calibration")


def are_probs(rows: Tensor, *, atol: float) -> bool:
    """Return whether rows that should be logits are probabilities: none is negative, and each sums to 1."""
    return bool((rows >= 0).all()) and torch.allclose(rows.sum(1), torch.ones_like(rows[:, 0]), atol=atol)


def _pair(batch: Any) -> tuple[Any, Tensor]:
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not isinstance(batch[1], Tensor):
        what = f"{len(batch)} things" if isinstance(batch, tuple | list) else f"a {type(batch).__name__}"
        raise InputError(f"Expected the loader to give pairs (inputs, labels), but got {what}. Give tensors of both.")
    return batch[0], batch[1]


def _logits(output: Any, labels: Tensor) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim != 2 or output.shape[1] < 2 or labels.shape != output.shape[:1]:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            f"Expected logits (n, classes) and labels (n,), but got {shape} for labels {tuple(labels.shape)}. "
            "Give one logit per class."
        )
    return output.detach().cpu().double()
