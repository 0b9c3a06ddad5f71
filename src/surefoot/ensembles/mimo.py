"""MIMO: several inputs and several outputs of one network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.ensembles._base import Ensemble, at_least_one
from surefoot.ensembles._mean import log_mean_probs
from surefoot.ensembles._objective import LossWrapper, is_of_logits
from surefoot.errors import InputError
from surefoot.losses._base import Batch, Loss, Scene
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES
from surefoot.schema import LossTerms


def beside_each_other(inputs: Tensor) -> Tensor:
    """Put the members' inputs into one, channel by channel: channel c of member m becomes channel c·M + m.

    Args:
        inputs: Shape ``(n, M, channels, …)``.

    Returns:
        Shape ``(n, channels·M, …)``.

    Example:
        >>> beside_each_other(torch.tensor([[[1.0, 2.0], [10.0, 20.0]]]))
        tensor([[ 1., 10.,  2., 20.]])
    """
    return inputs.transpose(1, 2).flatten(1, 2)


class MIMONetwork(nn.Module):
    """A network that takes M inputs at once and gives M sets of logits, one for each.

    Args:
        model: Takes M times the channels (or features) of one input, gives M times the logits: those of member 0
            first.
        members: M.

    Example:
        >>> net = MIMONetwork(nn.Linear(2 * 3, 2 * 5), members=2)
        >>> net(torch.zeros(4, 3)).shape, net.members(torch.zeros(4, 2, 3)).shape
        (torch.Size([4, 5]), torch.Size([4, 2, 5]))
    """

    def __init__(self, model: nn.Module, members: int = 3) -> None:
        super().__init__()
        self.n_members = at_least_one("members", members)
        self.network = model

    def members(self, inputs: Tensor) -> Tensor:
        """Return each member's logits for an input of its own.

        Args:
            inputs: Shape ``(n, M, …)``. In training these are M independent shuffles of the batch, and the loss is
                the sum over the members of each one's mean loss.

        Returns:
            Shape ``(n, M, classes)``.
        """
        logits: Tensor = self.network(beside_each_other(inputs))
        return logits.view(len(inputs), self.n_members, -1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Show all members the same input, and give the log of their mean probability."""
        same = inputs[:, None].expand(-1, self.n_members, *inputs.shape[1:])
        return log_mean_probs(self.members(same).transpose(0, 1))


class OfInputs(LossWrapper):
    """The sum of M members' losses, each of which sees the batch in an order of its own.

    A row is M examples at once; log p_y of a row is the mean over its members.

    Args:
        inner: A function of logits and labels.
        members: M.
        repetitions: How often each example is shown to each member in one step.
    """

    def __init__(self, inner: Loss, members: int, repetitions: int) -> None:
        super().__init__(inner)
        self.members, self.repetitions = members, repetitions

    @property
    def passes(self) -> float:
        """As many as the batch is repeated."""
        return self.inner.passes * self.repetitions

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Repeat the batch and shuffle it for each member."""
        rows = torch.arange(len(batch)).repeat(self.repetitions)
        orders = [rows[torch.randperm(len(rows), generator=scene.generator)] for _ in range(self.members)]
        order = torch.stack(orders, 1).to(batch.labels.device)
        first = order[:, 0]
        drawn = {"labels": batch.labels[order]}
        return Batch(batch.inputs[order], batch.labels[first], batch.indices[first], drawn)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Add up the members' losses of each row."""
        logits = model.members(batch.inputs)  # type: ignore[operator]  # a MIMONetwork, by wrap()
        terms: LossTerms = self.inner(logits.flatten(0, 1), batch.draw("labels").flatten())
        per_member = terms.per_example.view(-1, self.members)
        log_py = None if terms.log_py is None else terms.log_py.view(-1, self.members).mean(1)
        penalty = None if terms.penalty is None else self.members * terms.penalty
        return LossTerms(per_member.sum(1), penalty, log_py), logits.flatten(1)


@ENSEMBLES.register("mimo", reference="Havasi et al. 2021, arXiv:2010.06610")
class MIMO(Ensemble):
    """One network that takes several inputs at once and has a head for each.

    Args:
        members: M.
        repetitions: How often each example is shown to each member in one step.
    """

    def __init__(self, *, members: int = 3, repetitions: int = 4) -> None:
        super().__init__()
        self.width = at_least_one("members", members)
        self.repetitions = at_least_one("repetitions", repetitions)

    def check_loss(self, loss: Loss) -> None:
        """Refuse losses that are more than a function of logits and labels."""
        if not is_of_logits(loss):
            raise InputError(
                f"Expected a loss of logits and labels alone for mimo, but got {type(loss).__name__}. "
                "Choose another loss, such as ce or focal."
            )

    def wrap(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Divide the network's inputs and logits among the members."""
        if getattr(model, "takes_tokens", False):
            raise InputError(
                "Expected inputs with channels for mimo, but the network reads tokens. Choose another ensemble."
            )
        return MIMONetwork(model, self.width)

    def objective(self, loss: Loss, model: nn.Module, horizon: Horizon) -> Loss:
        """Show each member the batch in another order."""
        return OfInputs(loss, self.width, self.repetitions)
