"""What two ranks make of a Trainer and of accelerate's loops, started by torchrun; each writes what it ends with."""

import sys
import warnings
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from tests.integrations.berts import BATCH, bert, optimizer, rows, trainer

warnings.simplefilter("ignore")  # of the packages themselves


def by_trainer(folder, name, mode, n):
    model = bert(0.2 if mode == "rank" else 0.0)
    made = trainer(model, folder, optimizer(name, model, perturbation=mode), rows(16), gradient_accumulation_steps=n)
    made.train()
    assert made.accelerator.num_processes == 2
    return model


def by_steering(folder, method, mode, n):
    """Rows of which accelerate repeats some, to give both ranks as many, count once."""
    model, options = bert(), {"eval_strategy": "epoch", "num_train_epochs": 2, "learning_rate": 0.01}
    with torch.no_grad():
        model.classifier.weight.mul_(60)
    extra = {"eval_dataset": rows(21)}
    made = trainer(
        model, folder, data=rows(16), method=f"{method}:perturbation={mode},tune=auto", extra=extra, **options
    )
    made.train()
    facts, ours = made.keeper.facts, made.optimizer.optimizer
    assert (facts.signal.rows, made.keeper.looks) == (21, 2), facts
    assert facts.after == {"rho": ours.param_groups[0]["rho"], "gamma": ours.outer.gamma} != {"rho": 0.1, "gamma": 1.0}
    return model


def by_accelerate(_, form, mode, n):
    accelerator = Accelerator(cpu=True)
    net = bert(0.2 if mode == "rank" else 0.0).train()
    loader = DataLoader(rows(16), batch_size=BATCH)
    model, prepared, loader = accelerator.prepare(net, optimizer("csam", net, perturbation=mode), loader)
    ours = prepared.optimizer
    ours.model = model
    for batch in loader:
        if form == "closure":

            def closure(batch=batch):
                prepared.zero_grad()
                loss = ours.loss(model(**batch).logits, batch["labels"])
                accelerator.backward(loss)
                return loss

            prepared.step(closure)
        else:
            prepared.zero_grad()
            with ours.clean():
                accelerator.backward(ours.loss(model(**batch).logits, batch["labels"]))
            with ours.perturbed():
                accelerator.backward(ours.loss(model(**batch).logits, batch["labels"]))
            prepared.step()
    return net


CASES = {
    "sam, synchronised": (by_trainer, "sam", "synchronised", 1),
    "csam, synchronised": (by_trainer, "csam", "synchronised", 1),
    "sam, rank, two micro-batches": (by_trainer, "sam", "rank", 2),
    "csam, rank, two micro-batches": (by_trainer, "csam", "rank", 2),
    "csam, steered": (by_steering, "csam", "rank", 1),
    "closure, synchronised": (by_accelerate, "closure", "synchronised", 1),
    "explicit, synchronised": (by_accelerate, "explicit", "synchronised", 1),
    "closure, rank": (by_accelerate, "closure", "rank", 1),
    "explicit, rank": (by_accelerate, "explicit", "rank", 1),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    ended = {}
    for case, (run, *how) in CASES.items():
        torch.manual_seed(0)
        ended[case] = [parameter.detach().clone() for parameter in run(folder / "runs", *how).parameters()]
    torch.save(ended, folder / f"rank{torch.distributed.get_rank()}.pt")
    torch.distributed.destroy_process_group()
