"""Every loop people really have. Each test names what a peer gets wrong where one does."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from surefoot.errors import InputError
from surefoot.optim import Parts
from surefoot.optim.csam import CSAM
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, batches, losses, make, mlp, net, train, weights, wrappers

FORMS = ["per example", "backward", "lightning", "explicit"]


def advance(form, model, optimizer, x, y, micro=1):
    """One step in one of the documented forms; ``micro`` accumulates over that many pieces."""
    if form == "per example":
        return optimizer.step(lambda: F.cross_entropy(model(x), y, reduction="none"))
    pieces = list(zip(x.chunk(micro), y.chunk(micro), strict=True))

    def backward():
        total = 0.0
        for a, b in pieces:
            loss = optimizer.loss(model(a), b) / micro
            loss.backward()
            total = total + loss.detach()
        return total

    if form == "backward":
        return optimizer.step(backward)
    if form == "lightning":  # forward, then zero_grad, then backward

        def closure():
            loss = optimizer.loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            return loss

        return optimizer.step(closure)
    optimizer.zero_grad()
    loss = backward()
    if optimizer.climbs:
        with optimizer.perturbed():
            backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("name", [*[n for n in wrappers() if n != "bsam"], "looksam:k=2", "csam:every=2", "sgd"])
def test_all_forms_give_the_same_weights(name):
    """Bit for bit, with dropout and BatchNorm. Closures of peers cover the second pass only."""
    results = []
    for form in FORMS if name != "sgd" else FORMS[:3]:
        model = net()
        optimizer = make(name, model)
        torch.manual_seed(0)
        for x, y in batches(5):
            advance(form, model, optimizer, x, y)
        results.append(weights(model))
    for other in results[1:]:
        assert_same(results[0], other)


def test_step_returns_the_clean_loss():
    """davda54's returns None."""
    model = mlp()
    x, y = batches(1, shape=(12,))[0]
    expected = F.cross_entropy(model(x), y).item()
    for form in FORMS[:3]:
        fresh = copy.deepcopy(model)
        loss = advance(form, fresh, CSAM(torch.optim.SGD(fresh.parameters(), lr=0.1), fresh), x, y)
        assert loss.item() == pytest.approx(expected, rel=1e-6)
        assert not loss.requires_grad


@pytest.mark.parametrize("name", ["sam", "csam", "gsam", "wsam", "vasso"])
@pytest.mark.parametrize("form", ["backward", "explicit"])
def test_accumulation_is_the_large_batch(name, form):
    x, y = batches(1, n=12, shape=(12,))[0]
    results = []
    for micro in (1, 3):
        model = mlp(dtype=torch.float64)
        optimizer = make(name, model)
        for _ in range(4):
            advance(form, model, optimizer, x.double(), y, micro)
        results.append(weights(model))
    torch.testing.assert_close(*results, atol=1e-12, rtol=1e-10)


def test_clipping_acts_on_the_gradient_that_is_stepped_on():
    """Between the passes and the step, or by a hook of the base for loops that pass losses."""
    x, y = batches(1, shape=(12,))[0]
    moved = []
    for form in ("explicit", "hook"):
        model = mlp()
        base = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer = CSAM(base, model, rho=0.5)
        before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
        if form == "hook":
            params = list(model.parameters())
            base.register_step_pre_hook(lambda *_, params=params: nn.utils.clip_grad_norm_(params, 0.01) and None)
            optimizer.step(losses(model, x, y))
        else:
            optimizer.zero_grad()
            optimizer.loss(model(x), y).backward()
            with optimizer.perturbed():
                optimizer.loss(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
        moved.append(torch.cat([p.detach().flatten() for p in model.parameters()]) - before)
    assert moved[0].norm().item() == pytest.approx(0.01, rel=1e-3)
    assert torch.equal(*moved)


@pytest.mark.parametrize("name", ["sam", "usam", "gsam", "wsam", "fisher_sam", "csam", "vasso", "looksam:k=2", "sgd"])
@pytest.mark.parametrize("form", ["closure", "explicit"])
def test_a_gradient_scaler_changes_nothing(name, form):
    """Peers normalise scaled gradients; with unnormalised climbs that is another method."""
    data = batches(4)
    plain = net(dropout=0.0)
    reference = make(name, plain)
    train(plain, reference, data)
    model = net(dropout=0.0)
    optimizer = make(name, model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for x, y in data:
        if form == "closure":
            optimizer.step(losses(model, x, y), scaler=scaler)
        else:
            optimizer.zero_grad()
            scaler.scale(optimizer.loss(model(x), y)).backward()
            if name == "sgd":
                scaler.step(optimizer)
            else:
                if optimizer.climbs:
                    with optimizer.perturbed(scaler):
                        scaler.scale(optimizer.loss(model(x), y)).backward()
                scaler.step(optimizer)
        scaler.update()
    torch.testing.assert_close(weights(model), weights(plain), atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("name", ["sam", "csam", "vasso", "wsam", "aesam", "bsam"])
@pytest.mark.parametrize("form", ["closure", "explicit"])
@pytest.mark.parametrize("broken", [1, 2])
def test_a_step_that_overflows_under_a_scaler_leaves_weights_and_state(name, form, broken):
    data = batches(3)
    model = net(norm=False)
    optimizer = make(name, model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    train(model, optimizer, data[:2])
    before, state = weights(model), copy.deepcopy(optimizer.state_dict())
    x, y = data[2]
    calls = []

    def poisoned(part=slice(None)):
        calls.append(part)
        out = F.cross_entropy(model(x[part]), y[part], reduction="none")
        return LossTerms(out * torch.inf, log_py=-out) if len(calls) == broken else LossTerms(out)

    if form == "closure":
        optimizer.step(Parts(poisoned, n=len(y)), scaler=scaler)
    else:
        optimizer.zero_grad()
        with optimizer.clean():
            scaler.scale(optimizer.reduce(poisoned())).backward()
        with optimizer.perturbed(scaler):
            scaler.scale(optimizer.reduce(poisoned())).backward()
        scaler.step(optimizer)
    climbed = len(calls) > 1
    scaler.update()
    if broken == 1 or climbed:
        assert scaler.get_scale() == 512.0
        assert_same(weights(model), before)
        assert str(optimizer.state_dict()) == str(state)


def test_a_closure_through_the_scaler_is_refused():
    """There, peers step on gradients that are too large by the factor of the scale, without a word."""
    model = mlp()
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = batches(1, shape=(12,))[0]
    scaler.scale(optimizer.loss(model(x), y)).backward()
    with pytest.raises(InputError, match=r"Call optimizer.step\(closure, scaler=scaler\)"):
        scaler.step(optimizer, losses(model, x, y))


def test_bf16_autocast():
    model = mlp(d=64, width=32)
    optimizer = make("csam", model)
    x, y = batches(1, n=32, shape=(64,))[0]

    def closure():
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(x).float(), y, reduction="none")

    seen = [optimizer.step(closure).item() for _ in range(20)]
    assert seen[-1] < seen[0]
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_compiled_models():
    model = mlp()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), compiled, rho=0.2)
    reference = CSAM(torch.optim.SGD(other.parameters(), lr=0.1), other, rho=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while compiling
        for x, y in batches(4, shape=(12,)):
            optimizer.step(losses(compiled, x, y))
            reference.step(losses(other, x, y))
    torch.testing.assert_close(weights(model), weights(other), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.SyncBatchNorm, nn.InstanceNorm1d])
def test_running_statistics_move_with_the_clean_pass_only(layer):
    kw = {"track_running_stats": True} if layer is nn.InstanceNorm1d else {}
    model = nn.Sequential(nn.Linear(12, 6), nn.Unflatten(1, (3, 2)), layer(3, **kw), nn.Flatten(), nn.Linear(6, 3))
    if layer is nn.SyncBatchNorm:
        # Without process groups it computes as BatchNorm does, but refuses the CPU in training mode.
        model[2].forward = lambda x: nn.BatchNorm1d.forward(model[2], x)
        model[2]._check_input_dim = lambda x: None
    other = copy.deepcopy(model) if layer is not nn.SyncBatchNorm else None
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.5)
    x, y = batches(1, shape=(12,))[0]
    optimizer.step(losses(model, x, y))
    if layer is not nn.InstanceNorm1d:  # which counts nothing
        assert model[2].num_batches_tracked == 1
    if other is not None:
        other(x)
        assert torch.equal(other[2].running_mean, model[2].running_mean)
        assert torch.equal(other[2].running_var, model[2].running_var)


def test_a_frozen_batchnorm_keeps_its_statistics_in_both_passes():
    model = net(dropout=0.0)
    model.norm.eval()
    inside = []
    model.norm.register_forward_hook(lambda m, args, out: inside.append(torch.equal(out, F.batch_norm(
        args[0], m.running_mean, m.running_var, m.weight, m.bias, False, 0.1, m.eps))))  # fmt: skip
    train(model, make("sam", model), batches(2))
    assert inside == [True] * 4


def test_tied_weights_move_once():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.3)
    x, y = torch.randn(8, 4), torch.randint(4, (8,))
    before = model[0].weight.detach().clone()
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    with optimizer.perturbed():
        assert model[0].weight is model[1].weight
        assert (model[1].weight - before).norm().item() == pytest.approx(0.3, rel=1e-4)
        optimizer.loss(model(x), y).backward()


def test_parameters_that_share_memory_come_back_and_keep_sharing():
    whole = torch.randn(6)
    a, b = nn.Parameter(whole[:3]), nn.Parameter(whole[3:])
    optimizer = SAM(torch.optim.SGD([a, b], lr=0.0), rho=1.0)
    before = whole.clone()
    optimizer.step(lambda: a**2 + b**2)
    assert torch.equal(whole, before)
    assert a.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


def test_the_memory_of_the_weights_stays_where_it_is():
    """Some peers replace ``p.data`` at each step, which breaks views and captured graphs."""
    model = net()
    optimizer = make("csam", model)
    where = [p.data_ptr() for p in model.parameters()]
    train(model, optimizer, batches(3))
    assert [p.data_ptr() for p in model.parameters()] == where


def test_averages_beside_it_see_the_weights_and_never_the_climb():
    results = []
    for method in ("sam", "sam"):
        model = net()
        ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizer = make(method, model)
        torch.manual_seed(0)
        expected = None
        for batch in batches(4):
            train(model, optimizer, [batch])
            ema.update_parameters(model)
            now = model.head.weight.detach()
            expected = now.clone() if expected is None else expected.lerp(now, 0.1)
        results.append(ema.module.head.weight)
        torch.testing.assert_close(ema.module.head.weight, expected)
    assert torch.equal(*results)


def test_groups_with_their_own_radius():
    """ε of a group is its own ρ times g/‖g‖, with one norm over all groups."""
    a, b = nn.Parameter(torch.tensor([3.0])), nn.Parameter(torch.tensor([4.0]))
    base = torch.optim.SGD([{"params": [a], "rho": 0.5}, {"params": [b]}], lr=0.1)
    optimizer = SAM(base, rho=0.1)
    ((a**2 + b**2) / 2).sum().backward()
    with optimizer.perturbed():
        assert a.item() == pytest.approx(3 + 0.5 * 3 / 5)
        assert b.item() == pytest.approx(4 + 0.1 * 4 / 5)
        (a**2 + b**2).sum().backward()


def test_a_parameter_without_a_gradient_in_the_second_pass_comes_back():
    """With davda54's SAM it stays perturbed for ever."""
    a, b = nn.Parameter(torch.tensor([1.0])), nn.Parameter(torch.tensor([1.0]))
    optimizer = SAM(torch.optim.SGD([a, b], lr=0.1), rho=0.5)
    calls = []

    def closure():
        calls.append(1)
        return a**2 + (b**2 if len(calls) == 1 else 0)

    optimizer.step(closure)
    assert b.item() == 1.0
    assert a.item() != 1.0


def test_hooks_of_both_optimizers_run_once_per_step():
    model = mlp()
    base = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = SAM(base, model)
    ran = []
    base.register_step_post_hook(lambda *_: ran.append("base"))
    optimizer.register_step_post_hook(lambda *_: ran.append("wrapper"))
    train(model, optimizer, batches(2, shape=(12,)))
    assert ran == ["base", "wrapper"] * 2


def test_profilers_see_the_step():
    model = mlp()
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model)
    with torch.profiler.profile() as profile:
        train(model, optimizer, batches(2, shape=(12,)))
    assert [event.name for event in profile.events()].count("Optimizer.step#SAM.step") == 2
