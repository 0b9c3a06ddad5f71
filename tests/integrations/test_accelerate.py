"""Both loops of docs/accelerate.md train as a plain torch loop does, with the real Accelerator."""

import re
from contextlib import nullcontext

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.utils.data import DataLoader

from surefoot.errors import InputError
from surefoot.optim import CSAM
from surefoot.steering import KeepCalibrated
from tests.blocks import ROOT, blocks_of
from tests.integrations.berts import BATCH, bert, optimizer, plain_loop, rows
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves
BLOCKS = [block.code for block in blocks_of(ROOT / "docs" / "accelerate.md") if block.language == "python"]


@pytest.fixture(autouse=True)
def another_accelerator():
    """Its precision is the same for all in a process."""
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("closure", [True, False], ids=["closure", "explicit"])
@pytest.mark.parametrize(("name", "bf16"), [("sam", False), ("csam", False), ("csam", True)])
def test_accelerate_equals_a_plain_loop(name, bf16, closure, n):
    accelerator = Accelerator(cpu=True, mixed_precision="bf16" if bf16 else "no")
    net = bert(0.3).train()
    model, prepared, loader = accelerator.prepare(net, optimizer(name, net), DataLoader(rows(), batch_size=BATCH))
    ours, batches = prepared.optimizer, list(loader)
    groups = [batches[i : i + n] for i in range(0, len(batches), n)]
    schedule = torch.optim.lr_scheduler.LambdaLR(ours, lambda t: 1 - t / len(groups))
    if closure:
        ours.register_step_pre_hook(lambda *_: accelerator.clip_grad_norm_(model.parameters(), 0.5))
    for t, group in enumerate(groups):
        torch.manual_seed(t)

        def evaluate(group=group):
            prepared.zero_grad() if closure else None
            whole, total = sum(len(batch["labels"]) for batch in group), 0.0
            for number, batch in enumerate(group):
                loss = ours.loss(model(**batch).logits, batch["labels"]) * (len(batch["labels"]) / whole)
                accelerator.backward(loss)
                total = total + loss.detach()
                if number < len(group) - 1:
                    torch.rand(3)
            return total

        if closure:
            prepared.step(evaluate)
        else:
            prepared.zero_grad()
            with ours.clean():
                evaluate()
            with ours.perturbed():
                evaluate()
            accelerator.clip_grad_norm_(model.parameters(), 0.5)
            prepared.step()
        schedule.step()
    other = bert(0.3)
    assert_same(weights(net), plain_loop(other, optimizer(name, other), n=n, clip=0.5, bf16=bf16))


def test_a_run_goes_on_from_what_accelerate_saved(tmp_path):
    def train(model, prepared, batches):
        for batch in batches:
            prepared.step(lambda batch=batch: prepared.optimizer.loss(model(**batch).logits, batch["labels"]))

    def start():
        accelerator, net = Accelerator(cpu=True), bert(0.3).train()
        made = CSAM(torch.optim.AdamW(net.parameters(), lr=0.01), net, rho=0.1, ascent="vasso")
        return accelerator, *accelerator.prepare(net, made)

    batches = list(DataLoader(rows(), batch_size=BATCH))
    accelerator, model, prepared = start()
    train(model, prepared, batches[:2])
    accelerator.save_state(tmp_path)
    train(model, prepared, batches[2:])
    whole = weights(model)
    accelerator, model, prepared = start()
    accelerator.load_state(tmp_path)
    train(model, prepared, batches[2:])
    assert_same(weights(model), whole)


@pytest.mark.parametrize("n", [1, 2])
def test_two_passes_under_accumulate_are_refused(n):
    """With two, the gradient of the first micro-batch would be lost; one is a step like any other."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=n)
    net = bert().train()
    model, prepared, loader = accelerator.prepare(net, optimizer("csam", net), DataLoader(rows(), batch_size=BATCH))
    ours = prepared.optimizer
    refusal = pytest.raises(InputError, match="Expected one perturbed pass per step") if n > 1 else nullcontext()
    with refusal:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(ours.loss(model(**batch).logits, batch["labels"]))
                with ours.perturbed():
                    accelerator.backward(ours.loss(model(**batch).logits, batch["labels"]))
                prepared.step()
                prepared.zero_grad()


def test_knobs_turn_through_a_prepared_optimizer_and_go_on_from_what_was_saved(tmp_path):
    draw = torch.Generator().manual_seed(3)
    logits, labels = 9 * torch.randn(4, 200, 3, generator=draw), torch.randint(3, (4, 200), generator=draw)

    def start():
        accelerator, net = Accelerator(cpu=True), bert()
        _, prepared = accelerator.prepare(net, optimizer("csam", net))
        keeper = KeepCalibrated(prepared, speed=0.3)
        accelerator.register_for_checkpointing(keeper)
        return accelerator, prepared, keeper

    def values(prepared):
        assert isinstance(prepared.optimizer, CSAM)
        return prepared.optimizer.param_groups[0]["rho"], prepared.optimizer.outer.gamma

    accelerator, prepared, keeper = start()
    first = keeper.step(logits[0], labels[0])
    assert keeper.optimizer is prepared.optimizer
    assert values(prepared) == (first.after["rho"], first.after["gamma"])
    assert values(prepared)[0] > 0.1
    assert values(prepared)[1] > 1.0
    accelerator.save_state(tmp_path)
    saved, whole = values(prepared), [keeper.step(*rows) for rows in zip(logits[1:], labels[1:], strict=True)]
    accelerator, prepared, keeper = start()
    assert values(prepared) == (0.1, 1.0)
    accelerator.load_state(tmp_path)
    assert values(prepared) == saved
    assert [keeper.step(*rows) for rows in zip(logits[1:], labels[1:], strict=True)] == whole
    assert keeper.looks == 4


@pytest.mark.parametrize("block", BLOCKS, ids=["closure", "accumulated", "steered"])
def test_the_loops_of_the_page_run_and_learn(block, capsys):
    assert len(block.splitlines()) <= 40
    exec(compile(block, "accelerate.md", "exec"), {})
    printed = capsys.readouterr().out
    if "keeper" in block:
        assert "on 1,000 rows" in printed
        assert "→" in printed
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", printed)]
    assert len(losses) == 5
    assert losses[-1] < 0.4 < losses[0]
