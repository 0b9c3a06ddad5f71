"""What two ranks say of Lightning's DDP beside DDP by hand: ``torchrun lightning_ranks.py <folder>``."""

import hashlib
import json
import os
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from surefoot.integrations.lightning import CalibrationCallback, KeepCalibratedCallback
from surefoot.metrics import from_logits
from tests.integrations.lightning_runs import Net, fit, network, optimizer_of

DRAW = torch.Generator().manual_seed(3)
X, Y = torch.randn(32, 8, generator=DRAW), torch.randint(3, (32,), generator=DRAW)
RANK = int(os.environ.get("RANK", 0))
CASES = [(1, "rank"), (2, "rank"), (2, "synchronised")]


class OnRanks(Net):
    """Draws other masks on each rank; its validation says what it sees."""

    seeds = True

    def on_train_start(self):
        if self.seeds:
            torch.manual_seed(RANK)

    def validation_step(self, batch, batch_idx):
        return {"logits": self(batch[0]), "labels": batch[1]}


def digest(model):
    """A hash of all weights; the statistics of BatchNorm are each rank's own until the next forward pass."""
    return hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in model.parameters())).hexdigest()


def by_lightning(accumulate, perturbation):
    """One epoch under Lightning, with every other row: its own sampler would shuffle them."""
    module, callback = OnRanks("csam", 0.3, perturbation=perturbation), CalibrationCallback(figure=False)
    data = DataLoader(TensorDataset(X[RANK::2], Y[RANK::2]), batch_size=4)
    module.val_dataloader = lambda: data
    options = {"strategy": "ddp", "devices": 2, "accumulate_grad_batches": accumulate, "gradient_clip_val": 0.05}
    trainer = fit(module, callback, loader=data, num_sanity_val_steps=0, use_distributed_sampler=False, **options)
    ece = from_logits("ece", module.eval().net(X).detach(), Y).item()  # the same rows in another order
    return {
        "weights": digest(module.net),
        "steps": trainer.global_step,
        "forwards": module.forwards,
        "ece": [callback.ece.estimate, trainer.callback_metrics["val_ece"].item(), ece],
        "temperature": callback.calibrator.temperature,
    }


def by_hand(accumulate, perturbation):
    """The same with torch alone."""
    net = network(0.3)
    model = DistributedDataParallel(net)
    optimizer, schedule = optimizer_of(net, "csam", model=model, perturbation=perturbation)
    x, y = X[RANK::2].split(4), Y[RANK::2].split(4)
    torch.manual_seed(RANK)
    for start in range(0, 4, accumulate):

        def differentiate(start=start):
            for number in range(start, start + accumulate):
                last = number == start + accumulate - 1
                with nullcontext() if last else model.no_sync():
                    loss = optimizer.loss(model(x[number]), y[number])
                    (loss / accumulate).backward()

        optimizer.zero_grad()
        with optimizer.clean():
            differentiate()
        with optimizer.perturbed():  # which replays the numbers of the whole clean pass
            differentiate()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        optimizer.step()
        schedule.step()
    return digest(net)


def resumed(folder):
    """Two epochs, and the second of them once more from the checkpoint between them."""
    digests = []
    for path in (None, Path(folder, "epoch=0-step=2.ckpt")):
        module, keep = OnRanks("csam", 0.3), ModelCheckpoint(folder, save_top_k=-1, save_on_train_epoch_end=True)
        module.seeds = path is None
        data = DataLoader(TensorDataset(X[RANK::2], Y[RANK::2]), batch_size=4)
        options = {"strategy": "ddp", "devices": 2, "accumulate_grad_batches": 2, "use_distributed_sampler": False}
        fit(module, keep, epochs=2, loader=data, ckpt_path=path, enable_checkpointing=True, **options)
        digests.append(digest(module))
    return digests


def steered(shared):
    """What a look at the validation rows does: each rank has half of them, or both have all."""
    module, callback = OnRanks("csam"), KeepCalibratedCallback()
    mine = slice(RANK, None, 2) if shared else slice(None)
    module.val_dataloader = lambda: DataLoader(TensorDataset(X[mine], Y[mine]), batch_size=4)
    train = DataLoader(TensorDataset(X[RANK::2], Y[RANK::2]), batch_size=4)
    options = {"strategy": "ddp", "devices": 2, "use_distributed_sampler": False}
    trainer = fit(module, callback, epochs=2, loader=train, **options)
    facts, (optimizer,) = callback.keeper.facts, trainer.optimizers
    return {
        "rows": facts.signal.rows,
        "knobs": [optimizer.param_groups[0]["rho"], optimizer.outer.gamma],
        "signal": [facts.signal.log_temperature, facts.signal.error],
        "weights": digest(module.net),
    }


def main(folder):
    """Write what this rank says."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    said = [by_lightning(*case) for case in CASES]
    for each, case in zip(said, CASES, strict=True):
        each["by hand"] = by_hand(*case)
    more = {"resumed": resumed(folder), "steered": [steered(True), steered(False)]}
    Path(folder, f"rank{RANK}.json").write_text(json.dumps({"cases": said, **more}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    main(sys.argv[1])
