"""Plain loops of other packages with ``replay``: of accelerate itself, and the loop of timm's training script."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from surefoot.errors import InputError
from surefoot.optim.asam import ASAM
from surefoot.optim.csam import CSAM
from surefoot.optim.sam import SAM
from tests.optim.problems import assert_same, weights

accelerate = pytest.importorskip("accelerate", reason="not among the development tools")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves
INPUTS, LABELS = torch.randn(32, 8, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3
METHODS = {"sam": SAM, "csam": CSAM, "asam": ASAM}


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


def make(cls, model, **options):
    return cls(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.1, **options)


def loader():
    return DataLoader(TensorDataset(INPUTS, LABELS), batch_size=8)


def ours(cls, micro=1, low=False, epochs=2):
    """What the loop should give: a closure over the micro-batches of each step, no framework."""
    model = network()
    optimizer = make(cls, model)
    torch.manual_seed(0)
    for _ in range(epochs):
        batches = list(loader())
        for first in range(0, len(batches), micro):

            def closure(pieces=batches[first : first + micro]):
                optimizer.zero_grad()
                for x, y in pieces:
                    with torch.autocast("cpu", torch.bfloat16, enabled=low):
                        logits = model(x)
                    (optimizer.loss(logits.float(), y) / micro).backward()
                return torch.zeros(())

            optimizer.step(closure)
    return weights(model)


def accelerator(low, micro):
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    precision = "bf16" if low else "no"
    return accelerate.Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=micro)


@pytest.fixture(autouse=True)
def fresh_state():
    yield
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_the_loop_of_accelerates_documentation(name, micro, low):
    runner = accelerator(low, micro)
    raw = network()
    made = make(METHODS[name], raw, replay=True)
    criterion = made.loss
    schedule = torch.optim.lr_scheduler.ConstantLR(made, 1.0)
    model, optimizer, data, schedule = runner.prepare(raw, made, loader(), schedule)
    torch.manual_seed(0)
    for _ in range(2):
        for x, y in data:
            with runner.accumulate(model):
                loss = criterion(model(x), y)
                runner.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    assert_same(weights(raw), ours(METHODS[name], micro, low))
    assert raw[1].num_batches_tracked == 8


def test_accelerates_clipping_is_refused_and_the_hook_clips():
    runner = accelerator(False, 1)
    raw = network()
    made = make(CSAM, raw, replay=nn.CrossEntropyLoss())
    model, optimizer = runner.prepare(raw, made)
    before = [parameter.detach().clone() for parameter in raw.parameters()]
    runner.backward(made.replay(model(INPUTS), LABELS))
    runner.clip_grad_norm_(model.parameters(), 1.0)
    with pytest.raises(InputError, match=r"Expected gradients as backward\(\) left them"):
        optimizer.step()
    assert_same(list(raw.parameters()), before)
    optimizer.zero_grad()
    made.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(raw.parameters(), 1e-3))
    runner.backward(made.replay(model(INPUTS), LABELS))
    optimizer.step()
    moved = [now - then for now, then in zip(raw.parameters(), before, strict=True)]
    assert torch.cat([each.detach().flatten() for each in moved]).norm().item() == pytest.approx(1e-4, rel=1e-2)


def train_one_epoch(model, optimizer, loss_fn, data, schedule, accum_steps, low):
    """The loop of timm's train.py in its order, but for its scaler and its clipping."""
    model.train()
    optimizer.zero_grad()
    for index, (inputs, target) in enumerate(data):
        needs_update = (index + 1) % accum_steps == 0
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            output = model(inputs)
            loss = loss_fn(output, target)
        if accum_steps > 1:
            loss /= accum_steps
        loss.backward()
        if not needs_update:
            continue
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


class LabelSmoothing(nn.Module):
    """Label smoothing as image models have it, with a scalar that no optimizer has seen before."""

    def forward(self, logits, target):
        log_probs = F.log_softmax(logits, dim=-1)
        return (0.9 * -log_probs.gather(1, target[:, None]).squeeze(1) - 0.1 * log_probs.mean(-1)).mean()


@pytest.mark.parametrize("micro", [1, 2])
def test_the_loop_of_timm(micro):
    """With one line that is another: ``optimizer = SAM(optimizer, model, replay=loss_fn)``."""
    results = []
    for replay in (True, False):
        model, loss_fn = network(), LabelSmoothing()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = SAM(optimizer, model, replay=loss_fn if replay else False)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
        torch.manual_seed(0)
        if replay:
            train_one_epoch(model, optimizer, loss_fn, loader(), schedule, micro, low=True)
        else:
            batches = list(loader())
            for first in range(0, len(batches), micro):

                def closure(pieces=batches[first : first + micro], model=model, loss_fn=loss_fn):
                    model.zero_grad()
                    for x, y in pieces:
                        with torch.autocast("cpu", torch.bfloat16):
                            loss = loss_fn(model(x), y)
                        (loss / micro).backward()
                    return torch.zeros(())

                optimizer.step(closure)
                schedule.step()
        results.append(weights(model))
    assert_same(*results)
