"""What two ranks say of their metrics: ``torchrun torchmetrics_ranks.py <folder>``."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torchmetrics import MetricCollection

from surefoot.integrations import torchmetrics as ours


def everything():
    """Predictions of 203 rows, and their labels."""
    draw = torch.Generator().manual_seed(0)
    logits, labels = 2 * torch.randn(203, 4, generator=draw), torch.randint(4, (203,), generator=draw)
    return logits.double().softmax(1), labels


def collection():
    """One of each, beside one that ignores a class."""
    made = {name: getattr(ours, name)(num_classes=4) for name in ours.__all__ if name != "StreamingMetric"}
    return MetricCollection({**made, "ignoring": ours.ECE(ignore_index=0)})


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    probs, labels = everything()
    metrics, unseen = collection(), ours.ClasswiseECE(num_classes=4)
    for number, (p, y) in enumerate(zip(probs.split(31), labels.split(31), strict=True)):
        if (number % 3 == 2) == (rank == 1):  # five batches for the first rank, two for the second
            metrics.update(p, y)
            if rank == 0:
                unseen.update(p, y)
    said = {name: value.item() for name, value in metrics.compute().items()}
    said["unseen by the second"] = unseen.compute().item()
    Path(folder, f"rank{rank}.json").write_text(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
