"""The batches of an epoch: which examples are in them, and where their inputs come from.

What is in memory, all ranks have: each forms the whole batch, so that whatever is drawn for it is drawn alike. Of
inputs that stay in their files or pass by in a stream, each rank reads its own share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.batches import nth_batch
from surefoot.data.stored import Stored, batches_of
from surefoot.data.streamed import Streamed
from surefoot.moment import Horizon
from surefoot.ranks import Ranks
from surefoot.schema import Split
from surefoot.seeding import derive, generator


@dataclass(frozen=True)
class Fed:
    """One batch.

    Attributes:
        rows: Its examples, by their place in the training split.
        own: Those whose inputs are here: all of them, or this rank's share.
        inputs: Theirs.
    """

    rows: Tensor
    own: Tensor
    inputs: Tensor


class Feed:
    """Gives the batches of a training, epoch by epoch; their order is a function of seed and epoch.

    Args:
        split: The examples.
        length: Into how many batches to divide them.
        ranks: Who trains together.
    """

    def __init__(self, split: Split, length: Horizon, ranks: Ranks) -> None:
        self._split, self._length, self._ranks = split, length, ranks
        self.is_streamed = isinstance(split.inputs, Streamed)
        self.is_shared = self.is_streamed or isinstance(split.inputs, Stored)  # whether each rank reads its share only

    def epoch(self, seed: int, epoch: int, position: int = 0) -> Iterator[Fed]:
        """Go through an epoch.

        Args:
            seed: Of the training.
            epoch: Which one.
            position: From which batch on.

        Yields:
            The batches.
        """
        n, per_epoch = len(self._split), self._length.steps_per_epoch
        if isinstance(self._split.inputs, Streamed):
            yield from self._streamed(self._split.inputs, derive(seed, f"order/{epoch}"), position)
            return
        order = torch.randperm(n, generator=generator(seed, f"order/{epoch}"))
        batches = [order[nth_batch(each, n, per_epoch)] for each in range(position, per_epoch)]
        own = [rows[self._ranks.share(len(rows))] if self.is_shared else rows for rows in batches]
        for rows, mine, inputs in zip(batches, own, batches_of(self._split.inputs, own), strict=True):
            yield Fed(rows, mine, inputs)

    def _streamed(self, inputs: Streamed, seed: int, position: int) -> Iterator[Fed]:
        n, per_epoch, ranks = len(self._split), self._length.steps_per_epoch, self._ranks
        sizes = [batch.stop - batch.start for batch in (nth_batch(each, n, per_epoch) for each in range(per_epoch))]
        shares = [ranks.share(size) for size in sizes]
        own = inputs.shuffled(seed, [share.stop - share.start for share in shares], ranks.rank, ranks.n)
        for number, (mine, read) in enumerate(own):
            if number >= position:
                yield Fed(ranks.joined(mine, sizes[number]), mine, read)
