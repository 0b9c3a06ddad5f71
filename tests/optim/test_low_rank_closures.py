"""The low-rank path asked for where a closure does something unusual: what comes out is that of the plain path."""

import copy
import pickle
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from surefoot.errors import InputError
from surefoot.optim import _watched
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, make, weights

D, H = 150, 120
METHODS = ["sam:rho=0.5,lr=0.1", "csam:rho=0.5,lr=0.1", "ssam:rho=0.5,lr=0.1"]


@pytest.fixture(autouse=True)
def small_layers_count(monkeypatch):
    monkeypatch.setattr(_watched, "LARGE", 10_000)  # so that layers which are quick to test are worth it


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(D, H), nn.Tanh(), nn.Linear(H, H), nn.ReLU(), nn.Linear(H, 3)]
    return nn.Sequential(*layers).double()


def batches(n_steps=3, n=6):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(n_steps, n, D, generator=draw, dtype=torch.float64)
    return list(zip(x, torch.randint(3, (n_steps, n), generator=draw), strict=True))


def cross_entropy(model, x, y):
    return F.cross_entropy(model(x), y, reduction="none")


def told(closure):
    """Say of whatever losses a closure returns that they are −log p_y, which CSAM would not take for granted."""

    def evaluate():
        out = closure()
        return LossTerms(out, log_py=-out) if isinstance(out, torch.Tensor) and out.ndim else out

    return evaluate


def results(method, evaluate, low_rank, change=None):
    """Train; give the weights, the facts, and what the closure noted."""
    model = network()
    optimizer = make(method, model)
    optimizer.low_rank = low_rank
    notes = []
    for step, (x, y) in enumerate(batches()):
        if change is not None and step == 1:
            change(model)
        torch.manual_seed(step)
        optimizer.step(told(partial(evaluate, model, optimizer, x.clone(), y, notes)))
    assert all(type(parameter) is nn.Parameter for parameter in model.parameters())
    assert not any("layer" in parameter.__dict__ for parameter in model.parameters())
    return weights(model), optimizer.facts, notes


def assert_exact(method, evaluate, expected=None, change=None):
    """Both paths end at the same weights, with the same facts, and closures see the same on the way."""
    found, plain = (results(method, evaluate, low_rank, change) for low_rank in (True, False))
    torch.testing.assert_close(found[0], plain[0], atol=1e-11, rtol=0)
    for fact in ("loss", "perturbed_loss", "grad_norm", "perturbed_grad_norm", "eps_norm"):
        assert getattr(found[1], fact) == pytest.approx(getattr(plain[1], fact), rel=1e-10), fact
    assert found[2] == pytest.approx(plain[2], rel=1e-10)
    assert plain[1].low_rank == 0
    if expected is not None:
        assert found[1].low_rank == expected


# --- closures that differentiate for themselves ---


def clips(model, optimizer, x, y, notes):
    """Lightning's gradient_clip_val does this."""
    loss = optimizer.loss(model(x), y)
    loss.backward()
    notes.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
    return loss


def adds_to_gradients(model, optimizer, x, y, notes):
    loss = optimizer.loss(model(x), y)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad.add_(parameter.detach(), alpha=0.1)
    return loss


def accumulates(model, optimizer, x, y, notes):
    total = 0.0
    for a, b in zip(x.chunk(2), y.chunk(2), strict=True):
        loss = optimizer.loss(model(a), b) / 2
        loss.backward()
        total = total + loss.detach()
    return total


def writes_gradients(model, optimizer, x, y, notes):
    """Of its own making, beside those that the optimizer finds."""
    for parameter in model.parameters():
        parameter.grad = 0.1 * parameter.detach()
    return cross_entropy(model, x, y)


def regularises_by_backward(model, optimizer, x, y, notes):
    (0.1 * sum((parameter**2).sum() for parameter in model.parameters())).backward()
    return cross_entropy(model, x, y)


def attacks(set_to_none):
    def fgsm(model, optimizer, x, y, notes):
        x = x.requires_grad_()
        F.cross_entropy(model(x), y).backward()
        x = (x + 0.1 * x.grad.sign()).detach()
        optimizer.zero_grad(set_to_none=set_to_none)
        return cross_entropy(model, x, y)

    return fgsm


def attacks_often(model, optimizer, x, y, notes):
    """PGD, whose gradients of weights nobody clears."""
    place = x.clone()
    for _ in range(3):
        place.requires_grad_()
        F.cross_entropy(model(place), y).backward()
        place = (place + 0.05 * place.grad.sign()).detach()
    return cross_entropy(model, place, y)


def differentiates_by_weights(model, optimizer, x, y, notes):
    loss = cross_entropy(model, x, y)
    found = torch.autograd.grad(loss.mean(), list(model.parameters()), retain_graph=True)
    notes.append(sum(grad.norm().item() for grad in found))
    return loss


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("evaluate", "expected"),
    [
        (clips, 0),
        (adds_to_gradients, 0),
        (accumulates, 0),
        (writes_gradients, 0),
        (regularises_by_backward, 0),
        (attacks(True), 2),
        (attacks(False), 0),
        (attacks_often, 0),
        (differentiates_by_weights, 0),
    ],
)
def test_closures_that_differentiate_for_themselves(method, evaluate, expected):
    assert_exact(method, evaluate, expected)


def test_what_a_closure_sees_of_its_gradients_is_all_of_them():
    """Large weights had none in the clean pass: a norm of 1.15 was seen for 1.81."""
    model = network()
    optimizer = make("sam", model)
    optimizer.low_rank = True
    x, y = batches(1)[0]
    seen = []

    def closure():
        loss = optimizer.loss(model(x), y)
        loss.backward()
        seen.append(torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm().item())
        return loss

    expected = torch.autograd.grad(cross_entropy(model, x, y).mean(), list(model.parameters()))
    optimizer.step(closure)
    assert seen[0] == pytest.approx(torch.stack([grad.norm() for grad in expected]).norm().item(), rel=1e-12)


# --- derivatives of derivatives ---


def penalises_input_gradients(model, optimizer, x, y, notes):
    x = x.requires_grad_()
    loss = cross_entropy(model, x, y)
    slope = torch.autograd.grad(loss.sum(), x, create_graph=True)[0]
    return loss + slope.square().sum(1)


def penalises_weight_gradients(model, optimizer, x, y, notes):
    loss = cross_entropy(model, x, y)
    found = torch.autograd.grad(loss.mean(), list(model.parameters()), create_graph=True)
    return loss + 0.1 * sum(grad.square().sum() for grad in found)


def learns_to_learn(model, optimizer, x, y, notes):
    """MAML: a step on one half, and the loss of the other half at the weights after it."""
    named = dict(model.named_parameters())
    inner = F.cross_entropy(functional_call(model, named, (x[:3],)), y[:3])
    slopes = torch.autograd.grad(inner, list(named.values()), create_graph=True)
    ahead = {name: w - 0.5 * slope for (name, w), slope in zip(named.items(), slopes, strict=True)}
    return F.cross_entropy(functional_call(model, ahead, (x[3:],)), y[3:], reduction="none")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("evaluate", [penalises_input_gradients, penalises_weight_gradients, learns_to_learn])
def test_derivatives_of_derivatives(method, evaluate):
    assert_exact(method, evaluate, 0)


def test_a_derivative_of_a_derivative_at_the_perturbed_weights_alone():
    calls = []

    def evaluate(model, optimizer, x, y, notes):
        calls.append(1)
        inner = penalises_input_gradients if len(calls) % 2 == 0 else lambda m, o, x, y, n: cross_entropy(m, x, y)
        return inner(model, optimizer, x, y, notes)

    assert_exact("sam:rho=0.5,lr=0.1", evaluate)


# --- weights that are used for something else than their layer ---


def drops_connections(model, optimizer, x, y, notes):
    derived = {name: F.dropout(w, 0.3) for name, w in model.named_parameters()}
    return F.cross_entropy(functional_call(model, derived, (x,)), y, reduction="none")


def replaces_one_weight(model, optimizer, x, y, notes):
    """The layer is used as it is as well, and its weight is no leaf where it is replaced."""
    derived = functional_call(model, {"0.weight": model[0].weight * 0.5}, (x,))
    return F.cross_entropy(derived + model(x), y, reduction="none")


def scales_by_a_detached_norm(model, optimizer, x, y, notes):
    """No gradient tells of this use: only the weight itself can."""
    return F.cross_entropy(model(x) / model[2].weight.detach().norm(), y, reduction="none")


def looks_without_gradient(model, optimizer, x, y, notes):
    with torch.no_grad():
        target = functional_call(model, {name: 0.5 * w for name, w in model.named_parameters()}, (x,)).softmax(1)
    return F.cross_entropy(model(x), target, reduction="none")


def penalises_after_its_layers(model, optimizer, x, y, notes):
    loss = cross_entropy(model, x, y)
    return loss + 0.1 * torch._foreach_norm(list(model.parameters()))[0] + 0.1 * model[2].weight.abs().mean()


def copies_a_teacher(model, optimizer, x, y, notes):
    loss = cross_entropy(model, x, y)
    teacher = copy.deepcopy(model)
    assert all(type(parameter) is nn.Parameter for parameter in teacher.parameters())
    again = pickle.loads(pickle.dumps(model))
    assert all(type(parameter) is nn.Parameter for parameter in again.parameters())
    assert_same(weights(teacher), weights(again))
    return loss + 0.5 * F.cross_entropy(model(x), teacher(2 * x).detach().softmax(1), reduction="none")


def clamps_first(model, optimizer, x, y, notes):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.clamp_(-0.07, 0.07)
    return cross_entropy(model, x, y)


def clamps_between(model, optimizer, x, y, notes):
    loss = cross_entropy(model, x, y)
    with torch.no_grad():
        model[0].weight.data.clamp_(-0.07, 0.07)
    return loss.detach() * 0.5 + cross_entropy(model, x, y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "evaluate",
    [
        drops_connections,
        replaces_one_weight,
        scales_by_a_detached_norm,
        looks_without_gradient,
        penalises_after_its_layers,
        copies_a_teacher,
        clamps_first,
        clamps_between,
    ],
)
def test_weights_that_are_used_in_other_ways(method, evaluate):
    assert_exact(method, evaluate)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("before", [True, False])
def test_a_weight_that_is_used_otherwise_at_the_perturbed_weights_alone(method, before):
    """It has not been moved by then: it moves when it is asked for, and comes back."""
    calls = []

    def evaluate(model, optimizer, x, y, notes):
        calls.append(1)
        if len(calls) % 2:
            return cross_entropy(model, x, y)
        if before:
            return 1e-2 * (model[2].weight ** 2).sum() + cross_entropy(model, x, y)
        return cross_entropy(model, x, y) + 1e-2 * (model[2].weight ** 2).sum() + cross_entropy(model, -x, y)

    assert_exact(method, evaluate, 2)


# --- layers that have changed since the first step ---


def scales_gradients(model):
    model[0].weight.register_hook(lambda grad: 2 * grad)


def waits_for_gradients(model):
    def halve(weight):
        weight.grad.mul_(0.5)

    model[0].weight.register_post_accumulate_grad_hook(halve)


def hooks_the_layer(model):
    model[0].register_forward_hook(lambda m, args, out: out + 1e-2 * m.weight.detach().sum())


def hooks_the_backward(model):
    model[2].register_full_backward_hook(lambda m, into, out: (2 * into[0],))


def patches(model):
    layer = model[2]
    layer.forward = lambda x: F.linear(x, layer.weight.clamp(-0.05, 0.05), layer.bias)


def prunes(model):
    prune.l1_unstructured(model[0], "weight", amount=0.5)


def parametrizes(model):
    parametrizations.weight_norm(model[2])


def ties(model):
    model[2].forward = lambda x: F.linear(x, model[0].weight[:, :H], model[2].bias)


def replaces(model):
    model[2].weight.data = model[2].weight.data.clone().mul_(0.5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "change",
    [
        *(scales_gradients, waits_for_gradients, hooks_the_layer, hooks_the_backward, patches),
        *(parametrizes, ties, replaces),
    ],
)
def test_layers_that_change_between_steps(method, change):
    assert_exact(method, lambda model, optimizer, x, y, notes: cross_entropy(model, x, y), change=change)


@pytest.mark.parametrize("when", [0, 1])
def test_hooks_that_come_during_a_step(when):
    def evaluate(model, optimizer, x, y, notes):
        notes.append(len(notes))
        if len(notes) == when + 1:
            model[0].weight.register_hook(lambda grad: 3 * grad)
        return cross_entropy(model, x, y)

    assert_exact("ssam:rho=0.5,lr=0.1", evaluate)


def test_pruned_layers():
    """Pruning makes another parameter the leaf; the optimizer has it as well."""
    found = []
    for low_rank in (True, False):
        model = network()
        optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.5)
        optimizer.low_rank = low_rank
        for step, (x, y) in enumerate(batches()):
            if step == 1:
                prunes(model)
                assert model[0].weight_orig is optimizer.param_groups[0]["params"][0]
            optimizer.step(lambda x=x, y=y, model=model: cross_entropy(model, x, y))
        assert optimizer.facts.low_rank == (1 if low_rank else 0)
        found.append(weights(model))
    torch.testing.assert_close(*found, atol=1e-11, rtol=0)


def test_a_patch_that_comes_during_a_step_stays():
    model = network()
    optimizer = make("sam", model)
    optimizer.low_rank = True
    x, y = batches(1)[0]

    def patched(inputs):
        return F.linear(inputs, model[0].weight)

    def closure():
        model[0].forward = patched
        return cross_entropy(model, x, y)

    optimizer.step(closure)
    assert model[0].forward is patched


# --- inputs, and ways of running a network ---


@pytest.mark.parametrize("write", [lambda x: x.mul_(2), lambda x: x.data.add_(1), lambda x: x.numpy()[:1].fill(0.3)])
@pytest.mark.parametrize("layer", [0, 2])
def test_inputs_that_are_written_to_between_the_passes_are_refused(write, layer):
    """Also where torch does not notice; the gradient is no longer known then."""
    x, y = batches(1)[0]
    static = x if layer == 0 else torch.rand(len(x), H, dtype=torch.float64)
    model = network()
    optimizer = make("sam:rho=0.5,lr=0.1", model)
    optimizer.low_rank = True
    before, calls = weights(model), []

    def closure():
        calls.append(1)
        if len(calls) == 2:
            write(static)
        return cross_entropy(model[layer:], static, y)

    with pytest.raises(InputError, match=r"they were written to. Leave low_rank at False."):
        optimizer.step(closure)
    assert_same(weights(model), before)
    optimizer.low_rank = False
    assert optimizer.step(closure).isfinite()


def test_inputs_that_are_written_to_before_the_second_backward_are_refused_by_torch():
    calls = []

    def evaluate(model, optimizer, x, y, notes):
        calls.append(1)
        loss = cross_entropy(model, x, y)
        if len(calls) % 2 == 0:
            x.add_(1)
        return loss

    for low_rank in (True, False):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            results("sam:rho=0.5,lr=0.1", evaluate, low_rank)
        calls.clear()


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpoints(reentrant):
    def evaluate(model, optimizer, x, y, notes):
        x = x.requires_grad_()
        hidden = checkpoint(model[:3], x, use_reentrant=reentrant)
        return F.cross_entropy(model[3:](hidden), y, reduction="none")

    assert_exact("sam:rho=0.5,lr=0.1", evaluate)


def maps(model, optimizer, x, y, notes):
    return F.cross_entropy(vmap(model, randomness="different")(x), y, reduction="none")


def pushes_forward(model, optimizer, x, y, notes):
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
    return cross_entropy(model, x, y) + 0.1 * tangent.square().sum(1)


def takes_one_example(model, optimizer, x, y, notes):
    return torch.stack([F.cross_entropy(model(a), b) for a, b in zip(x, y, strict=True)])


def works_in_single_precision_too(model, optimizer, x, y, notes):
    with torch.autocast("cpu", torch.bfloat16):
        target = model(x.float()).double().detach().softmax(1)
    return F.cross_entropy(model(x), target, reduction="none")


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # of torch's own forward mode
@pytest.mark.parametrize("evaluate", [maps, pushes_forward, takes_one_example])
def test_other_ways_of_running_a_network(evaluate):
    assert_exact("sam:rho=0.5,lr=0.1", evaluate)


def test_a_second_look_under_autocast():
    """The one under autocast is rounded to 8 bits; the other weights are not."""
    found = []
    for low_rank in (True, False):
        model = network().float()
        optimizer = make("sam:rho=0.5,lr=0.1", model)
        optimizer.low_rank = low_rank
        x, y = batches(1)[0]
        optimizer.step(partial(works_in_single_precision_too, model, optimizer, x.float(), y, []))
        found.append(weights(model))
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)


def test_replicas_use_their_own_weights():
    """nn.DataParallel copies what a module has in its __dict__; its replicas have other weights."""

    def evaluate(model, optimizer, x, y, notes):
        replica = model[0]._replicate_for_data_parallel()
        replica.weight = model[0].weight * 2
        replica.bias = model[0].bias
        return F.cross_entropy(model[1:](replica(x)), y, reduction="none")

    assert_exact("sam:rho=0.5,lr=0.1", evaluate, 1)


def test_a_layer_that_is_used_a_hundred_times_costs_what_it_costs():
    """It was thirty times as slow. Counted in products, which depend on no clock."""

    def recurrent(model, optimizer, x, y, notes):
        hidden = model[1](model[0](x))
        for _ in range(100):
            hidden = model[1](model[2](hidden))
        return F.cross_entropy(model[4](hidden), y, reduction="none")

    assert_exact("sam:rho=0.5,lr=0.1", recurrent, 1)
    products = []
    for low_rank in (True, False):
        with FlopCounterMode(display=False) as counter:
            results("sam:rho=0.5,lr=0.1", recurrent, low_rank)
        products.append(counter.get_total_flops())
    assert products[0] < 1.05 * products[1]


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("low_rank", [True, False])
def test_a_compiled_twin_of_the_model_has_two_graphs(low_rank, norm):
    """The optimizer knows the original only. One graph per pass is enough, where one was made at every step."""
    found, n_graphs = [], []
    for is_compiled in (True, False):
        torch._dynamo.reset()
        model = network()
        model[1] = nn.BatchNorm1d(H).double() if norm else nn.Tanh()
        graphs = []
        twin = torch.compile(model, backend=lambda graph, _, graphs=graphs: graphs.append(graph) or graph)
        optimizer = make("sam:rho=0.5,lr=0.1", model)
        optimizer.low_rank = low_rank
        for x, y in batches(12):
            optimizer.step(lambda m=twin if is_compiled else model, x=x, y=y: cross_entropy(m, x, y))
        found.append(weights(model))
        n_graphs.append(len(graphs))
    torch.testing.assert_close(*found, atol=1e-11, rtol=0)
    assert 1 <= n_graphs[0] <= 2
    assert n_graphs[1] == 0


@pytest.mark.parametrize("where", ["both passes", "perturbed pass"])
def test_a_compiled_look_without_gradient(where):
    """It leaves no gradient and is not asked again when it runs: exact in both passes, refused in the second alone."""
    torch._dynamo.reset()
    model = network()
    looks = torch.compile(lambda x: F.linear(x, model[0].weight).sum(1), backend="eager")
    refused = nullcontext() if where == "both passes" else pytest.raises(InputError, match="Leave low_rank at False")
    optimizer = make("sam:rho=0.5,lr=0.1", model)
    optimizer.low_rank = True
    calls = []

    def closure(x, y):
        calls.append(1)
        with torch.no_grad():
            seen = looks(x) if where == "both passes" or len(calls) % 2 == 0 else torch.zeros(len(x))
        return cross_entropy(model, x, y) * seen.sigmoid()

    with refused:
        for x, y in batches(4):
            optimizer.step(lambda x=x, y=y: closure(x, y))
        assert optimizer.facts.low_rank == 1
