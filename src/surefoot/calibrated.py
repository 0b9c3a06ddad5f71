"""A model with a calibrator behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

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
