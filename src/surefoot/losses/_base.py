"""What every loss is."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from surefoot.schema import LossTerms


class Loss(nn.Module):
    """Logits and labels in, :class:`~surefoot.schema.LossTerms` out.

    State that a loss keeps between steps is registered as buffers: they are saved with the checkpoint. It
    changes in :meth:`observe` only, which the loop calls once per step with the logits of the clean pass, so
    that an optimizer may evaluate the loss as often as it likes.
    """

    @abstractmethod
    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Give the loss of each example and of the batch.

        Args:
            logits: Shape ``(n, classes)``.
            labels: Class indices, shape ``(n,)``.

        Returns:
            The terms.
        """

    def observe(self, logits: Tensor, labels: Tensor) -> None:
        """Update the loss's own state from one step's clean pass; most losses have none.

        Args:
            logits: Shape ``(n, classes)``, without gradient.
            labels: Class indices, shape ``(n,)``.
        """
