"""From pixels to what a network sees, and back: corruptions, augmentation and strange data need both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """How pixels in [0, 255] became inputs, channel by channel: (pixel − mean) / std.

    Attributes:
        mean: Of the training split's pixels, one per channel.
        std: Their standard deviation.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def to_inputs(self, pixels: Tensor) -> Tensor:
        """Turn pixels into what the network sees.

        Args:
            pixels: Values in [0, 255] of any type, shape ``(n, channels, …)``.

        Returns:
            Inputs of the same shape; float32, or float64 where the pixels are.

        Example:
            >>> import torch
            >>> Scaling((100.0,), (50.0,)).to_inputs(torch.tensor([[0.0], [200.0]])).tolist()
            [[-2.0], [2.0]]
        """
        pixels = pixels if pixels.is_floating_point() else pixels.float()
        mean, std = self._like(pixels)
        return (pixels - mean) / std

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
        shape = (-1, *(1 for _ in values.shape[2:]))
        return values.new_tensor(self.mean).view(shape), values.new_tensor(self.std).view(shape)
