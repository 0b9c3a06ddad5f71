"""Where ``optim`` and ``curvature`` meet: the top eigenspace of the training loss, for optimizers that project."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.curvature import hessian_top_eigenpairs
from surefoot.losses._base import Loss
from surefoot.optim import Wrapper
from surefoot.optim.bulk import Projected
from surefoot.schema import Split

ROWS = 1000  # examples whose graph is kept in memory together


class TrainingBasis:
    """Top-k Hessian eigenvectors of the loss on the whole training split, started from the last ones.

    It remembers nothing between calls, so that the optimizer's state is all there is to save.

    Args:
        model: The network in training.
        split: The training split.
        loss: What is trained, as far as logits and labels determine it.
        k: How many vectors.

    Attributes:
        spent: Examples differentiated in the last call: one gradient and some products over the split.
    """

    def __init__(self, model: nn.Module, split: Split, loss: Loss, k: int) -> None:
        device = next(model.parameters()).device
        inputs, labels = split.inputs.to(device), split.labels.to(device)
        with torch.no_grad():
            couples = loss(torch.zeros(2, int(labels.max()) + 1, device=device), labels[:2]).penalty is not None
        self._model, self._loss, self._k = model, loss, k
        self._inputs, self._labels, self._chunk = inputs, labels, None if couples else ROWS
        self.spent = 0

    def __call__(self, last: Tensor | None) -> Tensor:
        """Return the basis at the weights as they are now.

        Args:
            last: The basis to start from, shape ``(d, k)``.

        Returns:
            Orthonormal columns, shape ``(d, k)``.
        """
        found = hessian_top_eigenpairs(
            self._model, self._inputs, self._labels, k=self._k, start=last, loss=self._loss, chunk=self._chunk
        )
        self.spent = len(self._labels) * (1 + found.n_products)
        return found.vectors


def join_basis(optimizer: Wrapper, model: nn.Module, split: Split, loss: Loss) -> None:
    """Give an optimizer that projects the basis it needs; leave any other as it is.

    Args:
        optimizer: Any optimizer.
        model: What it trains.
        split: The training split.
        loss: What is trained.
    """
    if isinstance(optimizer, Projected) and optimizer.basis is None:
        optimizer.basis = TrainingBasis(model, split, loss, optimizer.k)
