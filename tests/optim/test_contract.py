"""What every registered optimizer must do; a new one is found here without an edit."""

import copy
import json
import pickle
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.optim import lr_scheduler

from surefoot.errors import InputError
from surefoot.optim import Parts
from surefoot.optim._wrapper import OWN_STATE
from surefoot.training.checkpoint import pack, unpack
from tests.optim.problems import assert_same, batches, losses, make, names, net, train, weights, wrappers

# At ρ = 0 the method is its base: exactly, or up to rounding where two equal gradients are mixed.
AT_RHO_0 = {"csam": "csam:rho=0,gamma=0", "esam": "esam:rho=0,gamma=1", "looksam": "looksam:rho=0"}
ROUNDED = {"gnp", "gsam", "ssam"}


def state_of(optimizer):
    tensors = {}
    packed = pack(optimizer.state_dict(), tensors)
    return json.dumps(packed), {key: value.clone() for key, value in tensors.items()}


def same_state(left, right):
    return left[0] == right[0] and all(torch.equal(left[1][key], right[1][key]) for key in left[1])


@pytest.mark.parametrize("name", [name for name in wrappers() if name != "bsam"])
def test_radius_zero_is_the_base(name):
    data = batches(6)
    model, plain = net(), net()
    for m, method in [(model, AT_RHO_0.get(name, f"{name}:rho=0")), (plain, "sgd")]:
        torch.manual_seed(0)
        train(m, make(method, m), data)
    if name in ROUNDED:
        torch.testing.assert_close(weights(model), weights(plain), atol=1e-6, rtol=1e-5)
    else:
        assert_same(weights(model), weights(plain))


@pytest.mark.parametrize("name", names())
def test_the_loss_goes_down(name):
    model = net()
    data = batches(1, n=32) * 40
    lr = {"adamw": 0.01, "bsam": 0.05, "muon": 0.02}.get(name, 0.05)
    seen = train(model, make(f"{name}:lr={lr}", model), data)
    share = 1.0 if name == "dom_sgd" else 0.9  # the top eigenspace alone leads nowhere far: its paper's finding
    assert seen[-1] < share * seen[0]


@pytest.mark.parametrize("name", names())
def test_resuming_is_as_if_nothing_had_happened(name, tmp_path):
    """Through safetensors and JSON into fresh objects, in the middle of every cadence."""
    data = batches(9)
    straight = net()
    torch.manual_seed(5)
    optimizer = make(name, straight)
    schedule = lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step, batch in enumerate(data):
        if step == 4:
            packed, tensors = state_of(optimizer)
            save_file(tensors, tmp_path / "state.safetensors")
            kept = copy.deepcopy(straight.state_dict()), schedule.state_dict(), torch.get_rng_state()
        train(straight, optimizer, [batch])
        schedule.step()
    resumed = net(seed=9)
    optimizer = make(name, resumed)
    schedule = lr_scheduler.StepLR(optimizer, 2, 0.5)
    resumed.load_state_dict(kept[0])
    optimizer.load_state_dict(unpack(json.loads(packed), load_file(tmp_path / "state.safetensors")))
    schedule.load_state_dict(kept[1])
    torch.set_rng_state(kept[2])
    for batch in data[4:]:
        train(resumed, optimizer, [batch])
        schedule.step()
    assert_same(weights(resumed), weights(straight))


SCRIPT = """
import json, sys, torch
from safetensors.torch import load_file
from surefoot.training.checkpoint import unpack
from tests.optim.problems import batches, make, net, train, weights
folder, name = sys.argv[1], sys.argv[2]
torch.set_num_threads(1)
model = net(seed=9)
optimizer = make(name, model)
model.load_state_dict(load_file(f"{folder}/model.safetensors"))
optimizer.load_state_dict(unpack(json.load(open(f"{folder}/state.json")), load_file(f"{folder}/state.safetensors")))
torch.manual_seed(3)
train(model, optimizer, batches(6)[3:])
torch.save(weights(model), f"{folder}/after.pt")
"""


@pytest.mark.parametrize("name", ["csam", "vasso", "sam:base=adamw"])
def test_resuming_in_a_fresh_process(name, tmp_path):
    """davda54's SAM loses the base's momentum here."""
    model = net()
    optimizer = make(name, model)
    train(model, optimizer, batches(6)[:3])
    packed, tensors = state_of(optimizer)
    save_file(tensors, tmp_path / "state.safetensors")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "state.json").write_text(packed)
    torch.manual_seed(3)
    train(model, optimizer, batches(6)[3:])
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_same(torch.load(tmp_path / "after.pt"), weights(model))


@pytest.mark.parametrize("name", names())
def test_own_state_stays_out_of_the_base(name):
    model = net()
    optimizer = make(name, model)
    train(model, optimizer, batches(2))
    state = optimizer.state_dict()
    assert set(state) == {"state", "param_groups", OWN_STATE}
    assert state["state"].keys() == optimizer.base.state_dict()["state"].keys()
    json.dumps(pack(state, {}))  # raises on anything but tensors and plain values


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("name", names())
def test_a_closure_that_raises_leaves_no_trace(name, failing):
    """Weights, statistics aside, come back bit for bit, and trying again is as if it had not happened."""
    data = batches(3)
    model, other = net(norm=False), net(norm=False)
    optimizer, undisturbed = make(name, model), make(name, other)
    for m, o in [(model, optimizer), (other, undisturbed)]:
        torch.manual_seed(1)
        train(m, o, data[:2])
    before, state = weights(model), state_of(optimizer)
    calls = []

    def closure(part=slice(None)):
        calls.append(part)
        if len(calls) == failing:
            raise KeyError("lost")
        return losses(model, *data[2])(part)

    torch.manual_seed(0)
    try:
        optimizer.step(closure)
    except KeyError:
        assert_same(weights(model), before)
        assert same_state(state_of(optimizer), state)
        torch.manual_seed(0)
        optimizer.step(losses(model, *data[2]))
    else:
        assert len(calls) < failing  # a step of one pass
    torch.manual_seed(0)
    undisturbed.step(losses(other, *data[2]))
    assert_same(weights(model), weights(other))


@pytest.mark.parametrize("name", names())
def test_facts_count_the_passes(name):
    model = net()
    optimizer = make(name, model)
    for x, y in batches(12):
        sizes = []

        def evaluate(part, x=x, y=y, sizes=sizes):
            out = losses(model, x, y)(part)
            sizes.append(len(out) * torch.is_grad_enabled())
            return out

        optimizer.step(Parts(evaluate, n=len(y)))
        assert optimizer.facts.passes == pytest.approx(sum(sizes) / len(y))
        assert optimizer.facts.climbed == (len(sizes) > 1)


@pytest.mark.parametrize("name", names())
def test_deepcopy_and_pickle(name):
    data = batches(4)
    model = net()
    optimizer = make(name, model)
    lr_scheduler.StepLR(optimizer, 10)
    train(model, optimizer, data[:2])
    copied, copied_optimizer = copy.deepcopy((model, optimizer))
    pickled, pickled_optimizer = pickle.loads(pickle.dumps((model, optimizer)))
    for m, o in [(model, optimizer), (copied, copied_optimizer), (pickled, pickled_optimizer)]:
        torch.manual_seed(0)
        train(m, o, data[2:])
    assert_same(weights(copied), weights(model))
    assert_same(weights(pickled), weights(model))


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("schedule", ["plateau", "one cycle", "cosine"])
def test_schedulers(name, schedule):
    model = net()
    optimizer = make(name, model)
    made = {
        "plateau": lambda: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5),
        "one cycle": lambda: lr_scheduler.OneCycleLR(
            optimizer, max_lr=0.1, total_steps=10, cycle_momentum=bool(optimizer.defaults.get("momentum"))
        ),
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    }[schedule]()
    before = optimizer.param_groups[0]["lr"]
    for batch in batches(3):
        train(model, optimizer, [batch])
        made.step(1.0) if schedule == "plateau" else made.step()  # warnings are errors: no complaint about the order
    assert optimizer.param_groups[0]["lr"] != before
    assert optimizer.base.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("name", names())
def test_batchnorm_counts_once_per_step(name):
    """Peers count the second pass as well."""
    model = net()
    train(model, make(name, model), batches(5))
    assert model.norm.num_batches_tracked == 5
    assert model.norm.track_running_stats


@pytest.mark.parametrize("name", wrappers())
def test_both_passes_draw_the_same_dropout_masks(name):
    model = net(dropout=0.5)
    masks = []
    model.dropout.register_forward_hook(lambda module, args, out: masks.append(out.detach() != 0))
    options = {"rst": "p=1", "esam": "gamma=1", "bsam": "n_train=1000000000000"}  # bsam: next to no noise
    optimizer = make(f"{name}:{options.get(name, '')}", model)
    optimizer.param_groups[0]["rho"] = 1e-12  # so that nothing else changes the mask
    optimizer.step(losses(model, *batches(1)[0]))
    assert len(masks) == 2
    assert torch.equal(*masks)
    optimizer.step(losses(model, *batches(1)[0]))
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("name", names())
def test_frozen_unused_and_added_parameters(name):
    model = net()
    held = model.conv.weight.requires_grad_(False)
    optimizer = make(name, model)
    train(model, optimizer, batches(1))
    unused, frozen = model.unused.clone(), held.clone()
    held.requires_grad_(True)
    optimizer.add_param_group({"params": [held], "lr": 0.01})
    train(model, optimizer, batches(2))
    assert torch.equal(model.unused, unused)
    assert not torch.equal(held, frozen)
    train(model, optimizer, batches(2))


def test_a_state_of_another_kind_is_refused():
    model = net()
    state = make("sam", model).state_dict()
    with pytest.raises(InputError, match="Expected the state of Averaged with d, but got"):
        make("vasso", model).load_state_dict(state)


def test_a_plain_optimizers_state_can_be_taken_up():
    model = net()
    plain = make("sgd", model)
    train(model, plain, batches(2))
    optimizer = make("csam", model)
    optimizer.load_state_dict(plain.base.state_dict())
    assert torch.equal(
        optimizer.state[model.head.weight]["momentum_buffer"], plain.state[model.head.weight]["momentum_buffer"]
    )
