"""Measuring leaves any network as it was, and takes no network for another one."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module
from torch.nn.utils import prune

from surefoot.certificate import certify, step_checks
from surefoot.curvature.gauss_newton import GaussNewton, fastest_form, is_forward_exact
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.jacobian import jacobian_grams
from surefoot.curvature.objective import cross_entropy, substituted
from surefoot.curvature.path import ascent_path
from surefoot.curvature.perceptron import is_perceptron, record_layers
from surefoot.curvature.rayleigh import batch_sharpness
from surefoot.curvature.sharpness import Sharpness, gauss_newton_top_eigenvalue
from surefoot.errors import InputError
from surefoot.margins.lipschitz import certified_margin, margin_lipschitz
from surefoot.margins.robust import is_linear, linear_margin
from surefoot.schema import Split
from surefoot.structure import rough_part, sequence
from surefoot.trackers import Watch
from tests.curvature.problems import NETWORKS, Squashed, problem
from tests.oracles.dense_curvature import dense_jacobian, dense_softmax_gauss_newton

FORMS = ("reverse", "forward")


def registered(model: nn.Module) -> list[tuple[str, int, bool, bytes]]:
    """Every place where a weight is registered: which object, whether a Parameter, and its bits."""
    named = model.named_parameters(remove_duplicate=False)
    return [(name, id(p), type(p) is nn.Parameter, p.detach().numpy().tobytes()) for name, p in named]


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_are_the_same_objects_and_bits_after_every_measurement(network: str) -> None:
    model, x, y = problem(network)
    before, buffers = registered(model), {name: b.clone() for name, b in model.named_buffers()}
    attributes = [set(vars(module)) for module in model.modules()]
    for form in FORMS:
        operator = GaussNewton(model, x, y, form=form)
        operator @ torch.ones(operator.shape[0], dtype=torch.float64)
        assert registered(model) == before
    if network != "attention":  # LayerNorm's Jacobians take seconds
        jacobian_grams(model, x)
    gauss_newton_top_eigenvalue(model, x, y)
    batch_sharpness(model, [(x, y)])
    ascent_path(model, x, y, rho=0.1, ts=torch.tensor([0.0, 1.0]))
    assert registered(model) == before
    assert all(torch.equal(buffers[name], b) for name, b in model.named_buffers())
    assert [set(vars(module)) for module in model.modules()] == attributes


def test_other_tensors_take_the_place_of_a_weight_wherever_it_is_registered_and_go_again() -> None:
    model, x, _ = problem("shared")
    before, params = registered(model), list(model.parameters())
    zeros = [torch.zeros_like(p) for p in params]
    with substituted(model, params, zeros):
        assert not model(x).any()
        assert model.again.weight is model.first.weight is model.listed[0].weight
    assert registered(model) == before
    with pytest.raises(ZeroDivisionError), substituted(model, params, zeros):
        raise ZeroDivisionError
    assert registered(model) == before


@pytest.mark.parametrize("network", ["shared", "tied", "parametrized", "conv"])
def test_a_training_is_the_same_with_trackers(network: str) -> None:
    """Bit for bit, and what the optimizer moves is what the network computes with."""

    def train(watch: bool) -> tuple[list[bytes], list[dict[str, object]]]:
        model, x, y = problem(network, n=24)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        often = "gn_sharpness:every=1,jacobian:every=2,kappa:every=3,path:every=4,batch_sharpness:every=2"
        tracker = Watch(often, train=(x[:16], y[:16]), test=(x[16:], y[16:]), optimizer=optimizer)
        for step in range(1, 7):
            optimizer.zero_grad()
            F.cross_entropy(model(x[:16]), y[:16]).backward()
            optimizer.step()
            if watch:
                tracker(step, model, (x[:16], y[:16]))
        owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
        assert {where[1] for where in registered(model)} == owned
        return [p.detach().numpy().tobytes() for p in model.parameters()], tracker.records

    (plain, _), (watched, records) = train(False), train(True)
    assert watched == plain
    assert [record["failed"] for record in records if "failed" in record] == []


class Unregistered(nn.Module):
    """A weight reached by a list of one's own, which no substitution finds."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 2)
        self.hidden = [self.conv.weight]
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.conv2d(x.unflatten(1, (1, 3, 3)), self.hidden[0], self.conv.bias).tanh().flatten(1))


class Single(nn.Module):
    """A network with a branch on values, which vmap cannot take."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(9, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x).tanh() * (2.0 if x.abs().sum().item() > 0 else 1.0))


def coupled() -> nn.Module:
    """BatchNorm that keeps no statistics: examples see one another in evaluation mode, too."""
    image = nn.Unflatten(1, (1, 3, 3))
    norm = nn.BatchNorm2d(2, track_running_stats=False)
    return nn.Sequential(image, nn.Conv2d(1, 2, 2), norm, nn.Tanh(), nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize("make", [Unregistered, Single, coupled])
def test_what_forward_mode_and_vmap_cannot_do_is_done_by_plain_autograd(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = make().double()
    x, y = torch.randn(6, 9, dtype=torch.float64), torch.arange(6) % 3
    jacobian = torch.stack([
        torch.stack([
            torch.cat([g.reshape(-1) for g in torch.autograd.grad(z, list(model.parameters()), retain_graph=True)])
            for z in row
        ])
        for row in model(x)
    ])
    torch.testing.assert_close(jacobian_grams(model, x, chunk=4), jacobian @ jacobian.mT)
    assert is_forward_exact(model, x, y) == (make is not Unregistered)
    if make is Unregistered:
        assert fastest_form(model, x, y) == "reverse"
    probs = model(x).softmax(1).detach()
    middle = torch.diag_embed(probs) - probs[:, :, None] * probs[:, None, :]
    dense = torch.einsum("nkd,nkl,nle->de", jacobian, middle, jacobian) / 6
    top = torch.linalg.eigvalsh(dense)[-1].item()
    assert gauss_newton_top_eigenvalue(model, x, y, tol=1e-9).value == pytest.approx(top, rel=1e-6)


class Scaled(nn.Sequential):
    """Three times what the sequence gives."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * super().forward(x)


class Renamed(nn.Sequential):
    """A sequence with more methods, which runs as any other."""

    @property
    def stages(self) -> list[nn.Module]:
        return list(self)


class Squared(nn.Linear):
    """A layer that is not linear."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).square()


def plain() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def scaled() -> nn.Module:
    return Scaled(*plain())


def nested() -> nn.Module:
    return nn.Sequential(Scaled(*plain()[:2]), plain()[2])


def squared() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), Squared(5, 3)).double()


def hooked(at: int | None) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        model = plain()
        (model if at is None else model[at]).register_forward_hook(lambda module, args, out: out * out)
        return model

    return make


def prepared() -> nn.Module:
    model = plain()
    model[1].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return model


def patched() -> nn.Module:
    model = plain()
    model[1].forward = types.MethodType(lambda module, x: x.sin() * 2, model[1])
    return model


def weight_normed() -> nn.Module:
    model = plain()
    nn.utils.parametrizations.weight_norm(model[0])
    return model


def parametrized() -> nn.Module:
    model = plain()
    nn.utils.parametrize.register_parametrization(model[0], "weight", Squashed())
    return model


def pruned() -> nn.Module:
    model = plain()
    prune.random_unstructured(model[0], "weight", amount=0.5)
    return model


def borrowed() -> nn.Module:
    model = plain()
    fixed = 2 * model[0].weight.detach()
    del model[0].weight
    model[0].weight = fixed
    return model


def additional() -> nn.Module:
    model = plain()
    model.temperature = nn.Parameter(torch.ones(2, dtype=torch.float64))  # of no use to the network
    return model


DISGUISED = {
    "own forward": scaled,
    "own forward inside": nested,
    "own layer": squared,
    "hook": hooked(1),
    "hook on the whole": hooked(None),
    "pre-hook": prepared,
    "patched": patched,
    "weight norm": weight_normed,
    "parametrized": parametrized,
    "pruned": pruned,
    "borrowed weight": borrowed,
    "another weight": additional,
}


def data(n: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 4, generator=generator, dtype=torch.float64), torch.arange(n) % 3


def check_against_autograd(model: nn.Module) -> None:
    """Every quick way against products that record the network itself."""
    x, y = data()
    top = torch.linalg.eigvalsh(GaussNewton(model, x, y, form="reverse").dense())[-1].item()
    assert gauss_newton_top_eigenvalue(model, x, y, tol=1e-9).value == pytest.approx(top, rel=1e-6)
    hessian = Hessian(model, x, y)
    g, bent = hessian.gradient, hessian.dense()
    expected = (g @ bent @ g / g.square().sum()).item()
    assert batch_sharpness(model, [(x, y)]).value == pytest.approx(expected, rel=1e-9)
    rows = [torch.autograd.grad(z, list(model.parameters()), retain_graph=True, allow_unused=True) for z in model(x)[0]]
    zero = [torch.zeros_like(p) for p in model.parameters()]
    first = torch.stack([
        torch.cat([(o if g is None else g).flatten() for g, o in zip(r, zero, strict=True)]) for r in rows
    ])
    torch.testing.assert_close(jacobian_grams(model, x)[0], first @ first.T)


@pytest.mark.parametrize("name", DISGUISED)
def test_a_network_that_only_looks_like_a_chain_is_measured_as_what_it_is(name: str) -> None:
    model = DISGUISED[name]()
    assert not is_perceptron(model)
    check_against_autograd(model)


@pytest.mark.parametrize("name", ["own forward", "own layer", "hook", "pre-hook", "parametrized"])
def test_it_also_agrees_with_the_dense_oracle(name: str) -> None:
    model, (x, y) = DISGUISED[name](), data()
    top = torch.linalg.eigvalsh(dense_softmax_gauss_newton(model, x))[-1].item()
    assert gauss_newton_top_eigenvalue(model, x, y, tol=1e-9).value == pytest.approx(top, rel=1e-6)
    jacobian = dense_jacobian(model, x)
    torch.testing.assert_close(jacobian_grams(model, x), jacobian @ jacobian.mT)


def test_hooks_that_come_later_are_seen() -> None:
    model, (x, y) = plain(), data()
    follow = Sharpness("gn", tol=1e-9)
    follow.measure(model, x, y)
    handle = model[1].register_forward_hook(lambda module, args, out: out * 3)
    tripled = torch.linalg.eigvalsh(dense_softmax_gauss_newton(model, x))[-1].item()
    assert follow.measure(model, x, y).value == pytest.approx(tripled, rel=1e-6)
    with pytest.raises(InputError, match="has a forward of its own or hooks"):
        record_layers(model, x)
    handle.remove()
    again = torch.linalg.eigvalsh(dense_softmax_gauss_newton(model, x))[-1].item()
    assert follow.measure(model, x, y).value == pytest.approx(again, rel=1e-6)
    assert again != pytest.approx(tripled, rel=0.1)


@pytest.fixture
def global_hook() -> Iterator[None]:
    handle = torch_module.register_module_forward_hook(
        lambda module, args, out: out * 2 if isinstance(module, nn.Tanh) else out
    )
    yield
    handle.remove()


def test_hooks_on_all_modules_are_seen(global_hook: None) -> None:
    assert not is_perceptron(plain())
    assert rough_part(plain()) == "Sequential"
    check_against_autograd(plain())


def test_a_class_that_was_patched_is_not_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_perceptron(plain())
    monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x.relu())
    assert sequence(plain()) is None
    check_against_autograd(plain())


@pytest.mark.parametrize("kind", ["weight", "module"])
def test_hooks_on_gradients_do_not_bend_the_loss(kind: str) -> None:
    """Clipping in a hook changes what a step does, not the curvature, and a hook that logs sees the training alone."""
    (x, y), model, seen = data(), DISGUISED["parametrized"](), []
    expected = {form: GaussNewton(model, x, y, form=form).dense() for form in FORMS} | {
        "hessian": Hessian(model, x, y).dense()
    }

    def clip(*given: Tensor) -> Tensor | tuple[Tensor, ...]:
        seen.append(given)
        return given[0] * 0.25 if kind == "weight" else (given[1][0] * 0.25,)

    if kind == "weight":
        for p in model.parameters():
            p.register_hook(clip)
    else:
        model[1].register_full_backward_hook(lambda module, inward, outward: clip(module, inward))
    for form in FORMS:
        torch.testing.assert_close(GaussNewton(model, x, y, form=form).dense(), expected[form])
    torch.testing.assert_close(Hessian(model, x, y).dense(), expected["hessian"])
    assert seen == []
    cross_entropy(model(x), y).mean().backward()
    assert seen  # they are back


def test_a_subclass_that_runs_as_a_sequence_stays_quick() -> None:
    assert is_perceptron(Renamed(nn.Linear(4, 5), nn.Tanh(), Renamed(nn.Linear(5, 3))))


@pytest.mark.parametrize("name", [name for name in DISGUISED if name not in ("borrowed weight", "another weight")])
def test_there_is_no_certificate_for_a_network_that_only_looks_like_a_perceptron(name: str) -> None:
    model, (x, y) = DISGUISED[name](), data()
    with pytest.raises(InputError, match="without hooks, but got"):
        certified_margin(model, x, y, epsilon=0.1)
    if name == "pruned":
        return  # torch cannot copy it, and certify copies
    checks = certify(model, Split(x, y), epsilon=0.3)
    assert [check.name for check in checks if check.violated] == []
    assert not any(check.applies for check in checks if "B.8" in check.name)


def test_a_linear_layer_with_something_around_it_is_not_linear() -> None:
    torch.manual_seed(0)
    x, y = data()
    assert is_linear(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    cubed = nn.Sequential(nn.Linear(4, 3)).double()
    cubed.register_forward_hook(lambda module, args, out: out**3)
    for model in (cubed, Scaled(nn.Linear(4, 3)).double()):
        assert not is_linear(model)
        with pytest.raises(InputError, match="Expected a linear model"):
            linear_margin(model, x, y, epsilon=0.1)


def test_a_layer_that_sees_a_part_of_the_input_has_no_certificate() -> None:
    """Applied to rows of four, its √4 is too small for linf balls of all twenty inputs."""
    model = nn.Sequential(nn.Linear(4, 2), nn.Flatten(), nn.Linear(10, 3))
    with pytest.raises(InputError, match="There is no certificate"):
        margin_lipschitz(model, torch.tensor([0]), norm="linf")
    for steep in (nn.Softplus(threshold=0.1), nn.ELU(alpha=-3.0), nn.LeakyReLU(-2.0)):
        with pytest.raises(InputError, match=f"but got {type(steep).__name__}"):
            margin_lipschitz(nn.Sequential(nn.Linear(4, 2), steep, nn.Linear(2, 2)), torch.tensor([0]))


class Functional(nn.Module):
    """A network whose activation is a function in its forward."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.head, self.activation = nn.Linear(4, 5), nn.Linear(5, 3), activation

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.activation(self.inner(x)))


KINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "F.relu": F.relu,
    "torch.relu": torch.relu,
    "clamp": lambda x: x.clamp(min=0),
    "abs": torch.abs,
    "max_pool": lambda x: F.max_pool1d(x[:, None], 3, stride=1, padding=1)[:, 0],
}


@pytest.mark.parametrize("name", KINKS)
def test_lemmas_that_need_two_derivatives_do_not_apply_where_a_kink_may_hide(name: str) -> None:
    torch.manual_seed(0)
    model, (x, y) = Functional(KINKS[name]).double(), data(4)
    checks = {check.name: check for check in step_checks(model, x, y, rho=0.1)}
    assert not checks["lemma 2"].applies
    assert not checks["equation 2"].applies
    assert checks["lemma 2"].why == "needs two derivatives, but Functional has kinks or is not known to have none"


@pytest.mark.parametrize(
    ("layer", "rough"),
    [(nn.Tanh(), ""), (nn.GELU(), ""), (nn.BatchNorm1d(5), ""), (nn.ReLU(), "ReLU"), (nn.ELU(), "ELU"),
     (nn.MaxPool1d(1), "MaxPool1d"), (nn.Softplus(), "Softplus"), (Squared(5, 5), "Squared")],
)  # fmt: skip
def test_only_layers_known_to_be_smooth_are_smooth(layer: nn.Module, rough: str) -> None:
    assert rough_part(nn.Sequential(nn.Linear(4, 5), layer, nn.Linear(5, 3))) == rough
