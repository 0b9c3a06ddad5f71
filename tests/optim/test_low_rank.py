"""The path on which linear layers climb without being moved: taken where it is asked for and pays, the same to 1e-6."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.errors import DivergedError
from surefoot.optim import _low_rank, _watched
from surefoot.optim.csam import CSAM
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, losses, make, weights, wrappers
from tests.optim.test_degenerate import Poison

D, H = 300, 120


@pytest.fixture(autouse=True)
def small_layers_count(monkeypatch):
    monkeypatch.setattr(_watched, "LARGE", 16_384)  # so that layers which are quick to test are worth it


def network(bias=True, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    body = [nn.Linear(D, H, bias=bias), nn.Tanh(), nn.Linear(H, 160, bias=bias), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*body, nn.Linear(160, 3, bias=bias)).to(dtype)


def data(n=16, n_steps=20, seed=1, shape=()):
    draw = torch.Generator().manual_seed(seed)
    return [(torch.randn(n, *shape, D, generator=draw), torch.randint(3, (n,), generator=draw)) for _ in range(n_steps)]


def asked(method, model):
    """An optimizer that was asked for the low-rank path."""
    optimizer = make(method, model)
    optimizer.low_rank = True
    return optimizer


def run(model, optimizer, batches, low_rank, evaluate=None):
    optimizer.low_rank = low_rank
    torch.manual_seed(0)
    for x, y in batches:
        x = x.to(next(model.parameters()).dtype)
        optimizer.step(lambda x=x, y=y: F.cross_entropy((evaluate or model)(x), y, reduction="none"))
    return optimizer


def compare(make_model, method, batches, evaluate=None, expected=2, atol=1e-6):
    results = []
    for low_rank in (True, False):
        model = make_model()
        optimizer = make(method, model)
        run(model, optimizer, batches, low_rank, evaluate and (lambda x, model=model: evaluate(model, x)))
        assert optimizer.facts.low_rank == (expected if low_rank else 0)
        results.append((weights(model), optimizer.facts))
    torch.testing.assert_close(results[0][0], results[1][0], atol=atol, rtol=0)
    for fact in ("loss", "perturbed_loss", "grad_norm", "perturbed_grad_norm", "eps_norm"):
        assert getattr(results[0][1], fact) == pytest.approx(getattr(results[1][1], fact), rel=2e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("method", ["sam:rho=0.5", "csam:rho=0.5", "usam:rho=0.1", "ssam:rho=0.5", "csam:stable=true"])
def test_it_is_the_generic_path(method, bias):
    compare(lambda: network(bias), f"{method},lr=0.01", data())


def test_with_adamw():
    """AdamW divides by the gradient's own size, so rounding weighs more where that is tiny."""
    compare(lambda: network(), "csam:rho=0.5,base=adamw,lr=0.0001", data(), atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_in_place_activations(shape, bias):
    """They overwrite the outputs of the layer before, whose product is reused all the same."""
    torch.manual_seed(0)
    body = [nn.Linear(D, H, bias), nn.ReLU(inplace=True), nn.Linear(H, 160, bias), nn.ReLU(True), nn.Linear(160, 3)]
    model = nn.Sequential(*body, *([nn.Flatten(), nn.Linear(12, 3)] if shape else []))
    compare(lambda: copy.deepcopy(model), "csam:rho=0.5,lr=0.01", data(6, shape=shape))


def test_it_is_exact_in_double_precision():
    compare(lambda: network(dtype=torch.float64), "csam:rho=1,lr=0.1", data(), atol=1e-12)


def test_the_comparison_can_fail():
    """A radius that is one percent longer is told apart."""
    results = []
    for low_rank, rho in ((True, 0.5), (False, 0.505)):
        model = network()
        run(model, make(f"sam:rho={rho},lr=0.01", model), data(), low_rank)
        results.append(weights(model))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(*results, atol=1e-6, rtol=0)


def test_more_than_one_row_per_example():
    compare(lambda: network(), "csam:rho=0.5,lr=0.01", data(6, shape=(4,)), evaluate=lambda m, x: m(x).mean(1))


def test_a_layer_that_is_used_twice():
    compare(lambda: network(), "csam:rho=0.5,lr=0.01", data(8), evaluate=lambda m, x: m(x) + m(-x))


def test_a_weight_that_is_also_used_in_another_way():
    compare(
        lambda: network(),
        "csam:rho=0.5,lr=0.01",
        data(8),
        evaluate=lambda m, x: m(x) + 1e-3 * (m[0].weight ** 2).sum(),
        expected=1,
    )


@pytest.mark.parametrize("method", wrappers())
def test_nobody_takes_it_who_does_not_ask(method):
    """The default in a user's loop is the plain path."""
    model = network()
    optimizer = make(method, model)
    x, y = data(8, 1)[0]
    optimizer.step(losses(model, x, y))
    assert not optimizer.low_rank
    assert optimizer.facts.low_rank == 0


@pytest.mark.parametrize("bias", [True, False])
def test_closures_that_call_backward_take_the_plain_path(bias):
    found = []
    for low_rank in (True, False):
        model = network(bias)
        optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model)
        optimizer.low_rank = low_rank
        torch.manual_seed(0)
        for x, y in data(8, 3):

            def closure(model=model, optimizer=optimizer, x=x, y=y):
                loss = optimizer.loss(model(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)
        assert optimizer.facts.low_rank == 0
        found.append(weights(model))
    torch.testing.assert_close(*found, atol=1e-6, rtol=0)


def test_groups_with_their_own_radius():
    results = []
    for low_rank in (True, False):
        model = network()
        groups = [{"params": model[0].parameters(), "rho": 1.0}, {"params": list(model.parameters())[2:]}]
        optimizer = SAM(torch.optim.SGD(groups, lr=0.1), model, rho=0.1)
        run(model, optimizer, data(8, 5), low_rank)
        results.append(weights(model))
    torch.testing.assert_close(*results, atol=1e-6, rtol=0)


def test_weights_never_move_and_no_copy_is_made():
    model = network()
    optimizer = asked("csam", model)
    x, y = data(8, 1)[0]
    alias, before, seen = model[0].weight.detach(), model[0].weight.detach().clone(), []
    model[0].register_forward_hook(lambda m, args, out: seen.append(torch.equal(alias, before)))
    optimizer.step(lambda: F.cross_entropy(model(x), y, reduction="none"))
    assert seen == [True, True]
    assert optimizer.facts.low_rank == 2
    assert model[0].weight.data_ptr() == alias.data_ptr()
    assert sum(place.numel() for place in optimizer._places) < 1000
    assert type(model[0].weight) is nn.Parameter


def test_it_is_not_taken_where_it_does_not_pay_or_cannot_be():
    many = data(128, 1)  # rows · (in + out) > in · out
    for method, batches, expected in [
        ("csam", data(16, 1), 2),
        ("csam", many, 0),
        ("asam", data(16, 1), 0),
        ("gsam", data(16, 1), 0),
        ("aesam", data(16, 1), 0),
        ("csam:ascent=vasso", data(16, 1), 0),
        ("csam:every=2", data(16, 2), 0),  # the second step does not climb
    ]:
        model = network()
        assert run(model, make(method, model), batches, True).facts.low_rank == expected, method
    hooked = network()
    hooked[0].weight.register_hook(lambda grad: grad)
    assert run(hooked, make("csam", hooked), data(16, 1), True).facts.low_rank == 1
    half = network()
    optimizer = asked("csam", half)
    x, y = data(16, 1)[0]

    def closure():
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(half(x).float(), y, reduction="none")

    optimizer.step(closure)
    assert optimizer.facts.low_rank == 0


@pytest.mark.parametrize("failing", [1, 2])
def test_a_closure_that_raises_leaves_no_trace(failing):
    model = network()
    optimizer = make("csam", model)
    run(model, optimizer, data(8, 2), True)
    before = weights(model)
    x, y = data(8, 1)[0]
    calls = []

    def closure():
        calls.append(1)
        out = model(x)
        if len(calls) == failing:
            raise KeyError("lost")
        return F.cross_entropy(out, y, reduction="none")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert_same(weights(model), before)
    assert all(type(parameter) is nn.Parameter for parameter in model.parameters())


def test_copies_take_it_too():
    model = network()
    optimizer = make("csam", model)
    run(model, optimizer, data(8, 2), True)
    other, copied = copy.deepcopy((model, optimizer))
    run(model, optimizer, data(8, 2), True)
    run(other, copied, data(8, 2), True)
    assert copied.facts.low_rank == 2
    assert_same(weights(model), weights(other))


def test_a_scalar_without_backward_is_enough_for_sam():
    results = []
    for scalar in (True, False):
        model = network()
        optimizer = asked("sam:rho=0.5,lr=0.01", model)
        torch.manual_seed(0)
        for x, y in data(8, 3):
            reduction = "mean" if scalar else "none"
            optimizer.step(lambda m=model, x=x, y=y, r=reduction: F.cross_entropy(m(x), y, reduction=r))
        assert optimizer.facts.low_rank == 2
        results.append(weights(model))
    torch.testing.assert_close(*results, atol=1e-7, rtol=0)


@pytest.mark.parametrize("broken", [1, 2])
def test_a_gradient_that_is_not_finite_is_refused(broken):
    model = network()
    optimizer = asked("csam", model)
    x, y = data(8, 1)[0]
    before, calls = weights(model), []

    def closure():
        calls.append(1)
        out = F.cross_entropy(model(x), y, reduction="none")
        return LossTerms(out + Poison.apply(out, torch.nan), log_py=-out) if len(calls) == broken else out

    with pytest.raises(DivergedError, match="Expected a finite gradient norm"):
        optimizer.step(closure)
    assert_same(weights(model), before)


def test_parts_take_it_too():
    results = []
    for low_rank in (True, False):
        model = network().eval()
        optimizer = make("csam:rho=0.5,lr=0.01,m=4", model)
        optimizer.low_rank = low_rank
        for x, y in data(12, 4):
            optimizer.step(losses(model, x, y))
        assert optimizer.facts.low_rank == (2 if low_rank else 0)
        results.append(weights(model))
    torch.testing.assert_close(*results, atol=1e-6, rtol=0)


def test_layers_that_are_cheap_to_move_are_moved(monkeypatch):
    monkeypatch.undo()
    model = nn.Sequential(nn.Linear(D, 256), nn.Tanh(), nn.Linear(256, 200), nn.Tanh(), nn.Linear(200, 3))
    assert run(model, make("sam", model), data(8, 1), True).facts.low_rank == 1


def attacked(model, x):
    """Logits at inputs that were moved against the labels first, as adversarial training does inside a closure."""
    x = x.clone().requires_grad_()
    slope = torch.autograd.grad(model(x).logsumexp(1).sum(), x)[0]
    return model((x + 0.1 * slope.sign()).detach())


@pytest.mark.parametrize("method", ["sam:rho=0.5,lr=0.01", "csam:rho=0.5,lr=0.01"])
def test_what_a_closure_differentiates_for_itself_is_no_part_of_the_gradient(method):
    compare(network, method, data(), attacked)


def test_nothing_of_a_step_waits_for_the_garbage_collector(monkeypatch):
    """Layers hold inputs and products; if they stayed until a collection, those would add up over steps."""
    x, y = data(n_steps=1)[0]
    model = network()
    optimizer = asked("csam:rho=0.5,lr=0.01", model)
    seen = []
    gather = _low_rank.Layer.gather
    monkeypatch.setattr(_low_rank.Layer, "gather", lambda self: (seen.append(weakref.ref(self)), gather(self))[1])
    gc.collect()
    gc.disable()
    try:
        optimizer.step(lambda: F.cross_entropy(model(x), y, reduction="none"))
        assert optimizer.facts.low_rank == 2
        assert [layer() for layer in seen] == [None, None]
    finally:
        gc.enable()
