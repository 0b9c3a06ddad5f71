"""How optimizers are made, loaded and given parameters."""

import inspect
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from surefoot.errors import InputError
from surefoot.optim import Plain, Wrapper
from surefoot.optim.bsam import BSAM
from surefoot.optim.csam import CSAM
from surefoot.optim.gsam import GSAM
from surefoot.optim.sam import SAM
from surefoot.registry import OPTIMIZERS
from tests.optim.problems import assert_same, batches, losses, make, mlp, net, train, weights, wrappers

CLASSES = {
    part.name: type(make(part.name, mlp())) for part in OPTIMIZERS if part.facts["passes"] != 1 or "wraps" in part.facts
}
AROUND = [name for name in CLASSES if name != "bsam"]


def defaults(function):
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if p.default is not p.empty}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_declared_once(name):
    """By name it is the class itself: there is no second signature that could differ."""
    assert OPTIMIZERS[name].build is CLASSES[name]


def test_a_class_by_default_is_the_method_by_default():
    results = []
    for by_name in (True, False):
        model = net()
        optimizer = make("csam", model) if by_name else CSAM(make("sgd", model).base, model)
        torch.manual_seed(0)
        train(model, optimizer, batches(3))
        results.append(weights(model))
    assert_same(*results)


@pytest.mark.parametrize("name", AROUND)
@pytest.mark.parametrize("form", ["positional", "keyword", "partial"])
def test_parameters_and_the_bases_class_are_accepted(name, form):
    """``SAM(params, torch.optim.SGD, lr=…)``: the form of every other SAM."""
    model, cls = mlp(), CLASSES[name]
    options = {"momentum": 0.9, "nonfinite": "skip"}
    if "rho" in defaults(cls):
        options["rho"] = 0.07
    if form == "positional":
        optimizer = cls(model.parameters(), torch.optim.SGD, lr=0.03, **options)
    elif form == "keyword":
        optimizer = cls(model.parameters(), base_optimizer=torch.optim.SGD, lr=0.03, model=model, **options)
    else:
        optimizer = cls([{"params": model.parameters()}], partial(torch.optim.SGD, lr=0.03), **options)
    assert type(optimizer) is cls
    assert type(optimizer.base) is torch.optim.SGD
    group = optimizer.param_groups[0]
    assert (group["lr"], group["momentum"], optimizer.nonfinite) == (0.03, 0.9, "skip")
    assert optimizer.model is (model if form == "keyword" else None)
    assert group.get("rho") == options.get("rho")


def test_both_forms_make_the_same_steps():
    results = []
    for form in (0, 1):
        model = net()
        if form:
            optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.1, adaptive=False, lr=0.1, momentum=0.9)
        else:
            optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.1)
        torch.manual_seed(0)
        train(model, optimizer, batches(3))
        results.append(weights(model))
    assert_same(*results)


@pytest.mark.parametrize("name", AROUND)
def test_parameters_alone_are_answered_with_what_to_write(name):
    cls = CLASSES[name]
    with pytest.raises(
        InputError, match=rf"but got parameters. Write {cls.__name__}\(torch.optim.SGD\(params, lr=0.1\), m"
    ):
        cls(mlp().parameters(), lr=0.1)


def test_other_ways_to_mistake_it():
    model = mlp()
    base = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match=r"adaptive=True. Write ASAM\(…\), from surefoot.optim"):
        SAM(model.parameters(), torch.optim.SGD, lr=0.1, adaptive=True)
    with pytest.raises(InputError, match="Expected a model beside the base, but got float"):
        SAM(base, 0.1)
    with pytest.raises(InputError, match="Expected a model beside the base, but got AdamW"):
        SAM(base, torch.optim.AdamW)
    with pytest.raises(InputError, match="Expected no base for BSAM, which is its own, but got SGD"):
        BSAM(model.parameters(), torch.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'learning_rate'"):
        SAM(model.parameters(), torch.optim.SGD, learning_rate=0.1)
    assert SAM(base=base, model=model).model is model


def test_signatures_are_those_of_the_classes():
    assert list(inspect.signature(SAM).parameters) == [
        *("base", "model", "rho", "every", "m", "stable", "nonfinite", "perturbation")
    ]


def test_lbfgs_is_refused_as_a_base():
    base = torch.optim.LBFGS(mlp().parameters())
    for cls in (SAM, Plain):
        with pytest.raises(InputError, match="Expected a base that steps on the gradients in place, but got LBFGS"):
            cls(base)


@pytest.mark.parametrize("late", [True, False])
def test_a_base_that_maximises_is_refused(late):
    w = nn.Parameter(torch.ones(1))
    group = {"params": [nn.Parameter(torch.ones(1))], "maximize": True}
    optimizer = SAM(torch.optim.SGD([w], lr=0.1))
    with pytest.raises(InputError, match="Expected a base that minimises, but got maximize=True"):
        optimizer.add_param_group(group) if late else SAM(torch.optim.SGD([w], lr=0.1, maximize=True))
    Plain(torch.optim.SGD([w], lr=0.1, maximize=True)).step(lambda: w**2)  # one pass climbs as it should
    assert w.item() > 1


@pytest.mark.parametrize("rho", [-0.5, float("nan")])
def test_a_group_with_a_radius_below_zero_is_refused(rho):
    w, other = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    with pytest.raises(InputError, match="Expected rho ≥ 0, but got"):
        SAM(torch.optim.SGD([{"params": [w], "rho": rho}], lr=0.1))
    optimizer = SAM(torch.optim.SGD([w], lr=0.1))
    with pytest.raises(InputError, match="Expected rho ≥ 0, but got"):
        optimizer.add_param_group({"params": [other], "rho": rho})
    optimizer.param_groups[0]["rho"] = rho  # by a schedule of one's own, say
    with pytest.raises(InputError, match="Expected rho ≥ 0, but got"):
        optimizer.step(lambda: w**2)
    with pytest.raises(InputError, match="Expected rho ≥ 0, but got"):
        optimizer.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("cls", [Plain, SAM, CSAM, GSAM])
def test_a_group_that_is_refused_is_not_added(cls):
    w = nn.Parameter(torch.ones(1))
    optimizer = cls(torch.optim.SGD([w], lr=0.1))
    groups = [
        {"params": [nn.Parameter(torch.ones(1)), torch.ones(1, dtype=torch.int64)]},
        {"params": torch.ones(1, dtype=torch.complex64)},
        {"params": [w]},
    ]
    if cls is not Plain:
        groups += [{"params": [nn.Parameter(torch.ones(1))], "rho": -1.0}]
    for group in groups:
        with pytest.raises((InputError, ValueError), match=r"Expected|some parameters appear in more than one"):
            optimizer.add_param_group(group)
        assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": (p for p in [nn.Parameter(torch.ones(1))])})
    assert len(optimizer.param_groups) == 2
    assert len(optimizer.param_groups[1]["params"]) == 1


@pytest.mark.parametrize("name", [name for name in wrappers() if name != "bsam"])
def test_a_plain_checkpoint_is_taken_up_and_goes_on(name):
    model = net()
    plain = make("sgd", model)
    train(model, plain, batches(2))
    state = plain.base.state_dict()
    optimizer = make(f"{name}:rho=0.03", model)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["rho"] == 0.03
    before = weights(model)
    train(model, optimizer, batches(2))
    assert any(not torch.equal(a, b) for a, b in zip(weights(model), before, strict=True))


def test_groups_keep_their_own_radius_when_a_plain_checkpoint_is_loaded():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    plain = torch.optim.SGD([{"params": [a]}, {"params": [b]}], lr=0.3)
    optimizer = SAM(torch.optim.SGD([{"params": [a], "rho": 0.7}, {"params": [b]}], lr=0.1), rho=0.1)
    optimizer.load_state_dict(plain.state_dict())
    assert [(group["rho"], group["lr"]) for group in optimizer.param_groups] == [(0.7, 0.3), (0.1, 0.3)]


@pytest.mark.parametrize("max_lr", [0.05, 1.0])
def test_the_radius_of_gsam_stays_within_its_bounds_under_one_cycle(max_lr):
    """The learning rate that it is made with is not the largest one."""
    w = nn.Parameter(torch.ones(3))
    optimizer = GSAM(torch.optim.SGD([w], lr=0.1), rho=0.05, rho_min=0.01)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=max_lr, total_steps=20)
    seen = []
    for _ in range(19):
        optimizer.step(lambda: w**2)
        seen.append(optimizer.radius(optimizer.param_groups[0]))
        schedule.step()
    assert min(seen) >= 0.01
    assert max(seen) <= 0.05
    if max_lr == 1.0:
        assert max(seen) == pytest.approx(0.05)
        assert seen[0] < 0.02
    with pytest.raises(InputError, match=r"Expected rho_min between 0 and rho = 0\.05, but got 0\.1"):
        GSAM(torch.optim.SGD([w], lr=0.1), rho=0.05, rho_min=0.1)


@pytest.mark.parametrize("form", ["closure", "scaler", "explicit"])
def test_a_clipping_hook_may_return_the_norm(form):
    """It sees the gradient that is stepped on."""
    model = mlp()
    base = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = CSAM(base, model, rho=0.5)
    params, norms = list(model.parameters()), []

    def clip(which, args, kwargs):
        assert which is optimizer
        norms.append(nn.utils.clip_grad_norm_(params, 0.01))
        return norms[-1]

    handle = optimizer.register_step_pre_hook(clip)
    x, y = batches(1, shape=(12,))[0]
    before = torch.cat([p.detach().flatten().clone() for p in params])
    if form == "explicit":
        optimizer.loss(model(x), y).backward()
        with optimizer.perturbed():
            optimizer.loss(model(x), y).backward()
        optimizer.step()
    else:
        optimizer.step(losses(model, x, y), scaler=torch.amp.GradScaler("cpu") if form == "scaler" else None)
    moved = torch.cat([p.detach().flatten() for p in params]) - before
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert len(norms) == 1
    handle.remove()
    optimizer.step(losses(model, x, y))
    assert len(norms) == 1


def test_every_class_is_a_wrapper():
    assert all(issubclass(cls, Wrapper) for cls in CLASSES.values())
