"""Cases at the edge have one defined outcome."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.errors import DivergedError, InputError, UnknownNameError
from surefoot.optim import Parts, Plain
from surefoot.optim.csam import CSAM
from surefoot.optim.sam import SAM
from surefoot.optim.vasso import VASSO
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, batches, losses, make, mlp, names, weights, wrappers

BY_HAND = [name for name in wrappers() if name not in ("bsam", "csam", "esam")]  # no examples in the toy below


def toy(value=(1.0, 2.0), dtype=torch.float32):
    return nn.Parameter(torch.tensor(value, dtype=dtype))


@pytest.mark.parametrize("name", names())
def test_a_gradient_of_exactly_zero(name):
    """The reference in JAX divides by zero here."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = make(f"{name}:{'' if name in ('adamw', 'bsam', 'gd', 'muon') else 'weight_decay=0'}", model)
    before = weights(model)
    for _ in range(2):
        optimizer.step(
            Parts(lambda part: LossTerms(zero := 0.0 * model(torch.ones(4, 3))[part].sum(-1), log_py=zero), n=4)
        )
    after = weights(model)
    assert all(tensor.isfinite().all() for tensor in after)
    if name not in ("adamw", "bsam", "muon"):  # their decay acts without a gradient
        assert_same(after, before)


@pytest.mark.parametrize("name", [name for name in BY_HAND if name != "muon"])
def test_one_parameter_with_one_entry(name):
    w = nn.ParameterList([nn.Parameter(torch.tensor([2.0]))])
    optimizer = make(f"{name}:lr=0.01", w)
    for _ in range(3):
        optimizer.step(Parts(lambda part: (0.5 * w[0] ** 2).expand(4)[part], n=4))
    assert 0 < w[0].item() < 2


@pytest.mark.parametrize("broken", [1, 2])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("what", ["loss", "gradient"])
@pytest.mark.parametrize("name", ["sam", "csam", "vasso", "gsam", "looksam", "aesam", "sgd"])
def test_what_is_not_finite_is_refused(name, what, value, broken):
    model = mlp()
    optimizer = make(name, model)
    x, y = batches(1, shape=(12,))[0]
    optimizer.step(losses(model, x, y))
    if name == "looksam":  # come to the next step that climbs
        for _ in range(4):
            optimizer.step(losses(model, x, y))
    before, state = weights(model), str(optimizer.state_dict())
    calls = []

    def closure():
        calls.append(1)
        out = F.cross_entropy(model(x), y, reduction="none")
        if len(calls) != broken:
            return out
        return LossTerms(out * value if what == "loss" else out + Poison.apply(out, value), log_py=-out)

    try:
        optimizer.step(closure)
    except DivergedError:
        assert_same(weights(model), before)
        assert str(optimizer.state_dict()) == state
    else:
        assert len(calls) < broken


class Poison(torch.autograd.Function):
    """Zero forward, and a value of one's choice backward: a finite loss whose gradient is not."""

    @staticmethod
    def forward(ctx, x, value):
        ctx.value = value
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx, grad):
        return torch.full_like(grad, ctx.value), None


@pytest.mark.parametrize("explicit", [True, False])
def test_steps_can_be_skipped_instead_and_it_is_said_once(explicit):
    w = toy()
    optimizer = VASSO(torch.optim.SGD([w], lr=0.1, momentum=0.9), nonfinite="skip")
    optimizer.step(lambda: w**2)
    before, state = w.detach().clone(), str(optimizer.state_dict())

    def bad():
        if not explicit:
            return optimizer.step(lambda: w**2 * torch.nan)
        optimizer.zero_grad()
        (w**2 * torch.nan).sum().backward()
        with optimizer.perturbed():
            (w**2).sum().backward()
        return optimizer.step()

    with pytest.warns(UserWarning, match="A step was skipped, and later ones like it will be without a word"):
        bad()
    assert optimizer.facts.skipped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bad()
    assert torch.equal(w, before)
    assert str(optimizer.state_dict()) == state
    optimizer.step(lambda: w**2)
    assert not torch.equal(w, before)
    assert not optimizer.facts.skipped


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    w = toy((3.0, 4.0), dtype)
    optimizer = SAM(torch.optim.SGD([w], lr=0.5), rho=1.0)
    optimizer.step(lambda: w**2)  # mean: g = w, ‖g‖ = 5
    torch.testing.assert_close(w.detach(), torch.tensor([1.2, 1.6], dtype=dtype))


def test_a_large_half_precision_gradient_does_not_overflow_its_norm():
    w = nn.Parameter(torch.zeros(4096, dtype=torch.float16))
    optimizer = SAM(torch.optim.SGD([w], lr=0.0), rho=64.0)
    w.grad = torch.full_like(w, 2000.0)  # the norm, 128000, is no float16
    with optimizer.perturbed():
        assert w[0].item() == pytest.approx(1.0, rel=1e-3)
        w.sum().backward()


def test_tiny_gradients_still_climb_by_rho():
    w = nn.Parameter(torch.zeros(2))
    optimizer = SAM(torch.optim.SGD([w], lr=0.0), rho=0.5)
    w.grad = torch.tensor([3e-9, 4e-9])
    with optimizer.perturbed():
        torch.testing.assert_close(w.detach(), torch.tensor([0.3, 0.4]), atol=1e-3, rtol=0)
        w.sum().backward()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64])
@pytest.mark.parametrize("late", [True, False])
def test_parameters_that_are_not_real_are_refused(dtype, late):
    odd = torch.ones(2, dtype=dtype)
    odd.requires_grad = dtype.is_complex
    plain = Plain(torch.optim.SGD([toy()], lr=0.1))
    with pytest.raises(InputError, match="Expected parameters of a real floating type, but got torch"):
        plain.add_param_group({"params": [odd]}) if late else SAM(torch.optim.SGD([odd], lr=0.1))


def test_sparse_gradients_are_refused():
    model = nn.Embedding(5, 3, sparse=True)
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model)
    before = weights(model)
    with pytest.raises(InputError, match="Expected dense gradients, but got a sparse one"):
        optimizer.step(lambda: model(torch.tensor([1, 2])).sum(-1))
    assert_same(weights(model), before)


def test_an_empty_parameter_list_is_torchs_error():
    with pytest.raises(ValueError, match="empty parameter list"):
        SAM(torch.optim.SGD([], lr=0.1))


def test_all_parameters_frozen_makes_no_step():
    w = toy()
    w.requires_grad_(False)
    optimizer = SAM(torch.optim.SGD([w], lr=0.1))
    with pytest.raises(RuntimeError, match="does not require grad"):
        optimizer.step(lambda: w**2)


def test_a_scalar_where_examples_are_needed_says_what_to_return():
    w = toy()
    optimizer = CSAM(torch.optim.SGD([w], lr=0.1))
    with pytest.raises(
        InputError, match=r'Expected one loss per example, but got a scalar. Return cross_entropy.*"none"'
    ):
        optimizer.step(lambda: (w**2).mean())
    with pytest.raises(InputError, match="Expected the closure to return losses, but got float"):
        optimizer.step(lambda: 0.5)
    with pytest.raises(InputError, match="Expected the closure to return losses, but got NoneType"):
        optimizer.step(lambda: None)


def test_a_scalar_without_backward_is_enough_for_sam():
    w = toy((3.0,))
    optimizer = SAM(torch.optim.SGD([w], lr=0.5), rho=1.0)
    optimizer.step(lambda: (0.5 * w**2).sum())
    assert w.item() == 1.0


def test_wrong_options_are_refused():
    base = torch.optim.SGD([toy()], lr=0.1)
    with pytest.raises(InputError, match="Expected rho ≥ 0, but got -1"):
        SAM(base, rho=-1)
    with pytest.raises(InputError, match="Expected rho ≥ 0, but got nan"):
        SAM(base, rho=float("nan"))
    with pytest.raises(InputError, match="Expected gamma ≥ 0"):
        CSAM(base, gamma=-1)
    with pytest.raises(InputError, match="Expected m ≥ 1"):
        SAM(base, m=0)
    with pytest.raises(InputError, match='Expected nonfinite to be "raise" or "skip"'):
        SAM(base, nonfinite="ignore")
    with pytest.raises(UnknownNameError, match=r"Unknown ascent 'uphill'. Write ascent=amp or ascent=asam or"):
        CSAM(base, ascent="uphill")
    with pytest.raises(InputError, match="Expected an ascent without memory"):
        CSAM(base, ascent="vasso", m=4)
    with pytest.raises(InputError, match="Expected a plain torch optimizer as base, but got SAM"):
        SAM(SAM(base))
    with pytest.raises(InputError, match="Expected a closure that can evaluate parts of 4 examples, but got function"):
        SAM(base, m=4).step(lambda: toy())


def test_climbing_without_a_gradient_is_refused():
    optimizer = SAM(torch.optim.SGD([toy()], lr=0.1))
    with pytest.raises(InputError, match="Expected gradients to climb along, but got none"), optimizer.perturbed():
        pass


def test_a_part_that_is_not_finite_is_refused_too():
    model = mlp()
    optimizer = make("sam:m=4", model)
    x, y = batches(1, shape=(12,))[0]
    before = weights(model)

    def evaluate(part):
        out = F.cross_entropy(model(x[part]), y[part], reduction="none")
        return out + Poison.apply(out, torch.nan) if part.start == 4 else out

    with pytest.raises(DivergedError, match="Expected a finite gradient norm"):
        optimizer.step(Parts(evaluate, n=len(y)))
    assert_same(weights(model), before)


def test_the_radius_holds_for_a_gradient_that_was_clipped_before_the_climb():
    w = toy((3.0, 4.0))
    optimizer = SAM(torch.optim.SGD([w], lr=0.0), rho=0.5)
    optimizer.zero_grad()
    (0.5 * w**2).sum().backward()
    assert optimizer.climbs
    nn.utils.clip_grad_norm_([w], 0.1)
    with optimizer.perturbed():
        torch.testing.assert_close(w.detach(), torch.tensor([3.3, 4.4]))
        w.sum().backward()
