"""AdaFocal: focal loss whose gamma follows the calibration error of held-out data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, Scene, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


@LOSSES.register("adafocal", reference="Ghosh et al. 2022, arXiv:2211.11838")
class AdaFocal(Loss):
    """Focal loss whose gamma follows the calibration error of held-out data, bin by bin.

    −(1 − s·p_y)^|γ| log p_y with the γ of the bin that p_y falls into and s its sign.

    Where held-out examples of a bin are over-confident, γ grows; where they are under-confident it shrinks, and
    below ``switch`` it turns negative: then (1 + p_y)^|γ| pushes confidence up. γ is updated after every epoch
    from the calibration split, which a calibrator fitted later sees for the second time.

    Args:
        bins: Number of bins; of equal width at first, then of equal mass over held-out confidence.
        rate: λ, how fast γ follows.
        gamma: γ at first.
        switch: Where γ changes its sign.
        lowest: γ is never below.
        highest: γ is never above.

    Raises:
        OptionError: If the options exclude each other.
    """

    gammas: Tensor
    edges: Tensor

    def __init__(
        self,
        *,
        bins: int = 15,
        rate: float = 1.0,
        gamma: float = 1.0,
        switch: float = 0.2,
        lowest: float = -2.0,
        highest: float = 20.0,
    ) -> None:
        if not (bins >= 1 and 0 < switch <= min(-lowest, highest) and lowest <= gamma <= highest):
            raise OptionError(
                f"Expected bins ≥ 1 and lowest ≤ −switch < switch ≤ highest around gamma, but got bins={bins}, "
                f"lowest={lowest:g}, switch={switch:g}, highest={highest:g}, gamma={gamma:g}. Leave them out."
            )
        super().__init__()
        self.rate, self.switch, self.lowest, self.highest = rate, switch, lowest, highest
        self.register_buffer("gammas", torch.full((bins,), gamma))
        self.register_buffer("edges", torch.linspace(0, 1, bins + 1))

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the focal or inverse focal loss of each example."""
        log_py = true_class(logits.log_softmax(-1), labels)
        gamma = self.gammas[self._bin(log_py.detach().exp())].to(logits.dtype)
        base = torch.where(gamma > 0, -torch.expm1(log_py), 1 + log_py.exp())
        base = torch.where(base > 0, base, torch.finfo(base.dtype).tiny)  # pow has no slope at 0 for γ < 1
        return LossTerms(-(base ** gamma.abs()) * log_py, log_py=log_py)

    def _bin(self, probs: Tensor) -> Tensor:
        return torch.bucketize(probs.to(self.edges.dtype), self.edges[1:-1])  # (lower, upper]

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Set new bins and let each γ follow its bin's gap."""
        probs = scene.logits("calibration").softmax(-1)
        conf, predicted = probs.max(-1)
        correct = (predicted == scene.splits.calibration.labels).to(conf.dtype)
        n_bins, device = len(self.gammas), self.gammas.device
        self.edges = conf.quantile(torch.linspace(0, 1, n_bins + 1)).to(device)
        place = self._bin(conf.to(device)).cpu()
        counts = torch.bincount(place, minlength=n_bins).clamp(min=1)
        gap = torch.bincount(place, weights=conf - correct, minlength=n_bins) / counts
        self.gammas = self.follow(self.gammas, gap.to(self.gammas))

    def follow(self, gammas: Tensor, gap: Tensor) -> Tensor:
        """Move γ by the gap between confidence and accuracy.

        Args:
            gammas: γ of each bin.
            gap: Mean confidence minus accuracy of each bin.

        Returns:
            The new γ.

        Example:
            >>> AdaFocal().follow(torch.tensor([1.0, 0.21]), torch.tensor([0.1, -0.1]))
            tensor([ 1.1052, -0.2000])
        """
        moved = gammas * (gammas.sign() * self.rate * gap).exp()
        moved = torch.where(moved.abs() < self.switch, -moved.sign() * self.switch, moved)
        return moved.clamp(self.lowest, self.highest)
