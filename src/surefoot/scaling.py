"""From raw inputs to what a network sees, and back to pixels, which corruptions and augmentation need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """How raw values became inputs: (value − mean) / std, with what the training split had.

    Attributes:
        mean: One per channel, or one per value of an input.
        std: The standard deviations, likewise.
        is_pixels: Whether the raw values are pixels in [0, 255].
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    is_pixels: bool = True

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Turn raw values into what the network sees.

        Args:
            raw: Pixels or features of any type, shape ``(n, …)``.

        Returns:
            Inputs of the same shape; float32, or float64 where the raw values are.

        Example:
            >>> import torch
            >>> Scaling((100.0,), (50.0,)).to_inputs(torch.tensor([[0.0], [200.0]])).tolist()
            [[-2.0], [2.0]]
        """
        raw = raw if raw.is_floating_point() else raw.float()
        mean, std = self._like(raw)
        return (raw - mean) / std

    def to_pixels(self, inputs: Tensor) -> Tensor:
        """Turn what the network sees back into pixels.

        Args:
            inputs: As :meth:`to_inputs` gives them, or changed since; shape ``(n, channels, …)``.

        Returns:
            Whole numbers in [0, 255], as floats of the inputs' type.

        Example:
            >>> import torch
            >>> Scaling((100.0,), (50.0,)).to_pixels(torch.tensor([[-2.0], [0.013], [9.0]])).tolist()
            [[0.0], [101.0], [255.0]]
        """
        mean, std = self._like(inputs)
        return (inputs * std + mean).round().clamp(0, 255)

    def _like(self, values: Tensor) -> tuple[Tensor, Tensor]:
        whole = values.shape[1:]
        shape = whole if len(self.mean) == whole.numel() else (-1, *(1 for _ in whole[1:]))
        return values.new_tensor(self.mean).view(shape), values.new_tensor(self.std).view(shape)
