"""Every loss against numbers worked out by hand or by its authors' code on the same input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.calibrators.temperature import fit_temperature
from surefoot.losses import adafocal, ar_adals, balcal, cpc, crl, dece, mdca, mit, mixup, mmce
from surefoot.losses._base import Batch
from surefoot.losses._heads import simplex
from surefoot.losses._inputs import margins
from surefoot.losses.margin_tail import log_moment, tail_of
from surefoot.metrics.ece import ece
from surefoot.optim.amp import AMP
from surefoot.optim.csam import damp
from surefoot.schema import Predictions
from tests.losses.cases import Y, Z, make, total

CE = total(make("ce"), Z, Y).item()
VALUES = {
    "ce": 1.705537,
    "mse": 1.920000,
    "mse:over=sum": 5.760000,
    "brier": 0.715623,
    "entropy:beta=0.1": 1.636283,
    "entropy:beta=1": 1.013001,
    "entropy:beta=0.1,hinge=1": 1.738666,
    "entropy:beta=0.1,over=mean": 1.682453,
    "entropy:beta=1,over=mean": 1.474692,
    "label_smoothing:alpha=0.05": 1.708870,
    "label_smoothing:alpha=0.1": 1.712204,
    "label_smoothing:alpha=0.15": 1.715537,  # 0.1 on the K − 1 others is 0.1·K/(K − 1) here
    "mbls:margin=10": 1.705537,
    "mbls:margin=6": 1.705537,
    "mbls:margin=2": 1.751370,
    "mbls:margin=1": 1.788870,
    "mbls:margin=2,over=sum": 1.843037,
    "acls:margin=10": 1.705537,
    "acls:margin=2": 1.744600,
    "acls:margin=1": 1.869912,
    "acls:margin=2,shift_invariant=true": 1.975850,
    "cpc": 2.707016,
    "cpc:form=as_defined": 2.900608,
    "mdca": 1.885757,
    "mdca:gamma=1": 1.660769,
    "mdca:classes=top": 1.782671,
    "focal:gamma=0": 1.705537,
    "focal:gamma=1": 1.480550,
    "focal:gamma=2": 1.372548,
    "focal:gamma=3": 1.312681,
    "focal:gamma=5": 1.250887,
    "flsd": 1.296919,
    "dual_focal:gamma=1": 1.621388,
    "dual_focal:gamma=2": 1.567177,
    "dual_focal:gamma=3": 1.527524,
    "dual_focal:gamma=5": 1.468945,
    "adafocal": 1.480550,
    "adafocal:gamma=-1": 1.930525,
    "adafocal:gamma=-2": 2.272498,
    "mmce:form=squared,weight=1": 1.776446,
    "mmce:weight=2": 3.412890,
    "mmce:form=weighted_as_coded,weight=2": 3.508586,
    "dece": 1.976859,
    "margin_tail:warmup=0": 1.902860,
    "margin_tail:warmup=0,form=bounded": 1.767973,
    "margin_tail:warmup=0,form=log_moment": 2.068070,
    "margin_tail:warmup=1": 1.705537,
}


@pytest.mark.parametrize("text", VALUES)
def test_value(text: str) -> None:
    assert total(make(text), Z, Y).item() == pytest.approx(VALUES[text], abs=1e-6)


def close(value: Tensor | float, wanted: float | list[float], tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(
        torch.as_tensor(value).double(), torch.tensor(wanted, dtype=torch.float64), atol=tolerance, rtol=0
    )


def test_the_input_itself() -> None:
    probs = Z.softmax(1)
    close(probs[range(4), Y], [0.785597, 0.367165, 0.006377, 0.592201])
    close(margins(Z, Y), [1.5, 0.1, -5, 0.5])
    close(make("ce")(Z, Y).per_example, [0.241311, 1.001943, 5.054985, 0.523909])
    close(make("ce")(Z, Y).per_example.sum(), 6.822148)
    close(make("mse")(Z, Y).per_example, [0.75, 0.18, 6.0, 0.75])


PARTS = {
    "MbLS penalty": (lambda: 10 * (total(make("mbls:margin=2"), Z, Y) - CE), 0.458333),
    "ACLS R, M = 2": (lambda: 10 * (total(make("acls:margin=2"), Z, Y) - CE), 0.390625),
    "ACLS R, M = 1": (lambda: 10 * (total(make("acls:margin=1"), Z, Y) - CE), 1.643750),
    "ACLS R, shift invariant": (
        lambda: 10 * (total(make("acls:margin=2,shift_invariant=true"), Z, Y) - CE),
        2.703125,
    ),
    "BDC": (lambda: cpc.bdc(Z, Y).mean(), 1.147393),
    "BEC": (lambda: cpc.bec(Z, Y).mean(), 1.080331),
    "BEC as reused": (lambda: 0.5 * cpc.bec(Z, Y).mean() + 0.5 * math.log(2), 0.886739),
    "MDCA": (lambda: mdca.mdca_of(Z.softmax(1), Y), 0.180219),
    "DCA": (lambda: mdca.dca_of(Z.softmax(1), Y), 0.077134),
    "DECE": (lambda: dece.dece_of(Z, Y), 0.542644),
    "tail 1": (lambda: tail_of(margins(Z, Y), 3, "moment", -100).mean(), 37.536914),
    "tail 2": (lambda: log_moment(margins(Z, Y)), 3.625325),
    "tail 3": (lambda: tail_of(margins(Z, Y), 3).mean(), 1.973234),
    "tail 4": (lambda: tail_of(margins(Z, Y), 3, "bounded").mean(), 0.624357),
    "tail 5": (lambda: tail_of(margins(Z, Y), 3, "moment").mean(), 7.822681),
    "1 − p_y": (lambda: 1 - Z.softmax(1)[range(4), Y].mean(), 0.562165),
}


@pytest.mark.parametrize("name", PARTS)
def test_part(name: str) -> None:
    made, wanted = PARTS[name]
    close(made(), wanted, 2e-6)


def test_mmce() -> None:
    conf, predicted = Z.softmax(1).max(1)
    correct = predicted == Y
    close(mmce.mmce_squared(conf, correct), 0.070909)
    close(mmce.mmce_squared(conf, correct).sqrt(), 0.266288)
    close(mmce.mmce_weighted(conf, correct), 0.853676)
    close(mmce.mmce_weighted(conf, correct, as_coded=True), 0.901524)
    close(mmce.mmce_weighted(conf, correct | True), 0.0)
    close(mmce.mmce_weighted(conf, correct & False), 0.0)


def test_cpc_needs_three_classes() -> None:
    with pytest.raises(Exception, match="at least 3 classes for cpc, but got 2"):
        make("cpc")(Z[:, :2], torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize(("confidence", "wanted"), [("top", 0.455451), ("entropy", 0.554018), ("margin", 0.570200)])
def test_crl(confidence: str, wanted: float) -> None:
    loss = make(f"crl:confidence={confidence}")
    assert isinstance(loss, crl.CRL)
    loss.counts, loss.epochs = torch.tensor([3, 1, 0, 2]), torch.tensor(4)
    close(loss.history(torch.arange(4)), [0.75, 0.25, 0.0, 0.5])
    terms, outputs = loss.evaluate(nn.Identity(), Batch(Z, Y, torch.arange(4)))
    close(terms.penalty, wanted)
    close(terms.per_example.mean() + terms.penalty, 1.705537 + wanted, 2e-6)
    loss.observe(Batch(Z, Y, torch.arange(4)), outputs)
    assert loss.counts.tolist() == [4, 2, 0, 3]


def test_crl_when_every_example_was_always_right() -> None:
    """The authors' code divides zero by zero here."""
    loss = crl.CRL()
    loss.counts, loss.epochs = torch.full((4,), 3), torch.tensor(3)
    close(loss.evaluate(nn.Identity(), Batch(Z, Y, torch.arange(4)))[0].penalty, 0.0)


def test_flsd_and_dual_focal_see_what_they_should() -> None:
    ce = make("ce")(Z, Y).per_example
    ratio = make("flsd")(Z, Y).per_example / ce
    close(ratio.log() / (1 - (-ce).exp()).log(), [3, 3, 5, 3])
    base = make("dual_focal:gamma=1")(Z, Y).per_example / ce
    close(base - 1 + (-ce).exp(), [0.175290, 0.332225, 0, 0.359188])


@pytest.mark.parametrize(("p", "gamma"), [(0.2, 4.85), (0.25, 3.07)])
def test_flsd_thresholds_have_the_slope_of_cross_entropy(p: float, gamma: float) -> None:
    logits = torch.tensor([[math.log(p), math.log(1 - p)]], dtype=torch.float64, requires_grad=True)
    norms = []
    for text in (f"focal:gamma={gamma}", "ce"):
        (grad,) = torch.autograd.grad(total(make(text), logits, torch.tensor([0])), logits)
        norms.append(grad.norm().item())
    assert norms[0] / norms[1] == pytest.approx(1, abs=2e-3)


def test_adafocal_with_bins() -> None:
    loss = make("adafocal:bins=5")
    loss.gammas.copy_(torch.tensor([2, 1, 0.5, -0.2, -0.5]))
    close(total(loss, Z, Y), 1.557580)


@pytest.mark.parametrize(
    ("gamma", "gap", "wanted"),
    [
        (1, 0.1, 1.105171),
        (1, -0.1, 0.904837),
        (0.21, -0.1, -0.2),
        (-0.2, 0.1, 0.2),
        (-0.2, -0.1, -0.221034),
        (-1.9, -0.1, -2),
        (19.5, 0.1, 20),
    ],
)
def test_adafocal_update(gamma: float, gap: float, wanted: float) -> None:
    moved = adafocal.AdaFocal().follow(torch.tensor(gamma, dtype=torch.float64), torch.tensor(gap, dtype=torch.float64))
    close(moved, wanted)


def test_mixup() -> None:
    partner = Y[[1, 2, 3, 0]]
    terms = mixup.mixed_cross_entropy(Z, Y, partner, torch.full((4,), 0.3, dtype=torch.float64))
    close(terms.per_example.mean(), 2.685537)


def test_mit() -> None:
    high, low = torch.full((4,), 0.7, dtype=torch.float64), torch.full((4,), 0.2, dtype=torch.float64)
    a, b = mit.unmix(Z, Z.flip(0), high, low)
    close(a[0], [3.8, -0.1, -2.2])
    close(b[0], [-2.2, 1.9, 1.8])
    close(0.5 * F.cross_entropy(a, Y) + 0.5 * F.cross_entropy(b, torch.tensor([2, 1, 1, 0])), 2.320126)


def test_mit_sees_clean_logits_through_a_linear_network() -> None:
    class Staged(nn.Sequential):
        @property
        def stages(self) -> list[nn.Module]:
            return list(self)

    torch.manual_seed(0)
    model = Staged(nn.Linear(5, 4), nn.Linear(4, 3)).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    for where, n in (("logits", 1), ("stages", 2)):
        shares = torch.tensor([[0.8, 0.1], [0.9, 0.3]], dtype=torch.float64)[:n].expand(4, n, 2)
        drawn = {"partner_inputs": x.roll(1, 0), "partner_labels": Y.roll(1), "shares": shares}
        terms, outputs = mit.MIT(where=where).evaluate(model, Batch(x, Y, Y, drawn))
        torch.testing.assert_close(outputs, model(x))
        partners = F.cross_entropy(model(x.roll(1, 0)), Y.roll(1))
        close(terms.per_example.mean().detach(), (0.5 * F.cross_entropy(model(x), Y) + 0.5 * partners).item())


def test_balcal() -> None:
    fixed = torch.tensor([[0.9, -0.2, -0.7], [-0.1, -0.3, 0.4], [0.8, -0.5, -0.3], [-0.6, 0.5, 0.1]]).double()
    longer = balcal.class_balance(Y, 3)
    close(longer, [1.154701, 0.816497, 1.154701])
    close(balcal.balanced(Z, fixed * longer.double(), Y, 0.8).per_example.mean(), 1.544219)
    close(balcal.balanced(Z, fixed, Y, 0.8).per_example.mean(), 1.546425)


@pytest.mark.parametrize(("k", "highest"), [(10, 0.252), (100, 0.027)])
def test_the_simplex_head_cannot_be_sure(k: int, highest: float) -> None:
    frame = simplex(k, k, torch.Generator().manual_seed(0))
    gram = frame.T @ frame
    torch.testing.assert_close(gram.diag(), torch.ones(k))
    torch.testing.assert_close(gram[0, 1:], torch.full((k - 1,), -1 / (k - 1)), atol=1e-6, rtol=0)
    assert gram.softmax(1).max().item() == pytest.approx(highest, abs=5e-4)


def test_balcal_share_balances_confidence_and_accuracy() -> None:
    generator = torch.Generator().manual_seed(0)
    own = 6 * torch.randn(500, 5, generator=generator)
    own[torch.arange(500), labels := torch.randint(5, (500,), generator=generator)] += 6
    fixed = own / 20
    share = balcal.choose_share(own, fixed, labels, 0.95)
    conf, predicted = (share * own + (1 - share) * fixed).softmax(1).max(1)
    assert 0 < share < 1
    assert conf.mean().item() == pytest.approx(0.95 * (predicted == labels).float().mean().item(), abs=1e-3)
    assert balcal.choose_share(fixed, fixed, labels, 0.95) == 1  # not too sure as it is


def test_ar_adals() -> None:
    terms = ar_adals.smoothed(Z, Y, torch.tensor([0, 0.1, 0.2, 0.05], dtype=torch.float64))
    close(terms.per_example.mean(), 1.603870)
    close(ar_adals.smoothing_of(torch.tensor(0.9), 3), 0.15)
    close(ar_adals.follow(torch.tensor([1.0]), torch.tensor([0.08]), 0.1, 3), [0.992])


@pytest.mark.parametrize(("gamma", "wanted"), [(0, 1.705537), (0.5, 1.663179), (1, 1.630280), (2, 1.584819)])
def test_csam_outer_loss(gamma: float, wanted: float) -> None:
    loss = make("ce")(Z, Y).per_example
    close(damp(loss, loss, gamma).mean(), wanted)


@pytest.mark.parametrize(("p", "ratio"), [(0.5000001, 0.821), (0.7, 0.675), (0.9, 0.553), (0.99, 0.505)])
def test_csam_slope(p: float, ratio: float) -> None:
    log_p = torch.tensor([math.log(p)], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(damp(-log_p, -log_p, 1.0).sum(), log_p)
    assert -slope.item() == pytest.approx(ratio, abs=5e-4)


def test_amp() -> None:
    """Each tensor has a ball of its own; one ball for all would give v = 0.089."""
    w = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    v = nn.Parameter(torch.tensor([0.1], dtype=torch.float64))
    optimizer = AMP(torch.optim.SGD([w, v], lr=0.1))
    optimizer.step(lambda: (0.5 * (w.square().sum() + v.square().sum())).reshape(1))
    close(w.detach(), [2.67, 3.56])
    close(v.detach(), [0.08])


def test_amp_with_two_ascent_steps() -> None:
    w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = AMP(torch.optim.SGD([w], lr=0.1), rho=10.0, zeta=0.5, steps=2)
    optimizer.step(lambda: 0.5 * w**2)  # ε: 0.5, then 0.5 + 0.5 · 1.5 = 1.25; step 0.1 · 2.25
    close(w.detach(), [0.775])
    assert optimizer.facts is not None
    assert optimizer.facts.passes == 3


def calmo_parts(model: nn.Module, x: Tensor, **options: float) -> list[float]:
    """CE, KL, smoothness and total."""
    batch = Batch(x, Y, torch.arange(4))
    values = []
    for robust, smooth in ((0, 0), (1, 0), (0, 1), (0.5, 0.01)):
        text = ",".join(f"{key}={value!r}" for key, value in {"robust": robust, "smooth": smooth, **options}.items())
        values.append(make(f"calmo:{text}").evaluate(model, batch)[0].per_example.mean().item())
    return [values[0], values[1] - values[0], values[2] - values[0], values[3]]


class Scaled(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


@pytest.mark.parametrize(
    ("scale", "steps", "divergence", "smooth", "whole"),
    [
        (1.0, 3, 0.00017986, 2, 1.725627),
        (10.0, 3, 0.01816796, 200, 3.714621),
        (1.0, 10, 0.00031992, 2, None),
        (10.0, 10, 0.03234128, 200, None),
    ],
)
def test_calmo_on_a_linear_network(
    scale: float, steps: int, divergence: float, smooth: float, whole: float | None
) -> None:
    ce, divergence_found, smooth_found, total_found = calmo_parts(Scaled(scale), Z / scale, steps=steps)
    assert ce == pytest.approx(1.705537, abs=1e-6)
    assert divergence_found == pytest.approx(divergence, abs=1e-8)
    assert smooth_found == pytest.approx(smooth, abs=1e-6)
    if whole is not None:
        assert total_found == pytest.approx(whole, abs=1e-6)


def test_calmo_on_a_tanh_network() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Tanh(), nn.Linear(3, 3, bias=False)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1, -1], [0.5, 2], [-1.5, 0.5]]))
        model[2].weight.copy_(torch.tensor([[1, 0, -1], [-1, 1, 0.5], [0, -1, 2]]))
    x = torch.tensor([[0.2, 0.7], [0.9, 0.1], [0.4, 0.4], [0.6, 0.8]], dtype=torch.float64)
    ce, divergence, smooth, whole = calmo_parts(model, x)
    assert ce == pytest.approx(1.805137, abs=1e-6)
    assert divergence == pytest.approx(0.00178458, abs=1e-8)
    assert smooth == pytest.approx(17.975856, abs=1e-5)
    assert whole == pytest.approx(1.985788, abs=1e-6)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [("moment,floor=-100", 70.300282), ("log_moment", 4.252776), ("softplus", 2.398592), ("bounded", 0.730001)],
)
@pytest.mark.parametrize("robust", ["linf", "attack"])
def test_tails_of_robust_margins(form: str, wanted: float, robust: str) -> None:
    """For z = 10x an attacker of radius 8/255 takes 0.627451 from every margin, exactly."""
    loss = make(f"margin_tail:alpha=1,beta=0,eps={8 / 255!r},warmup=0,robust={robust},form={form}")
    terms, _ = loss.evaluate(Scaled(10.0), Batch(Z / 10, Y, torch.arange(4)))
    whole = terms.per_example.mean() + (0 if terms.penalty is None else terms.penalty)
    assert whole.item() - CE == pytest.approx(wanted, abs=2e-6)


def test_smoothness_of_margins() -> None:
    """‖∇ₓm‖² = 200 for z = 10x; a difference in a random direction sees a share of it, 1/d on average."""
    batch = Batch(Z / 10, Y, torch.arange(4), {"direction": torch.tensor([[1.0, 0, 0]] * 4).double()})
    for smoothness, wanted in (("gradient", 200.0), ("difference", 50.0)):  # two rows feel the direction, 10² each
        loss = make(f"margin_tail:alpha=0,beta=1,eps=0,warmup=0,smoothness={smoothness}")
        found = loss.evaluate(Scaled(10.0), batch)[0].per_example.mean().item() - CE
        assert found == pytest.approx(wanted, abs=1e-3)


def test_certificates_hold_on_random_logits() -> None:
    """1 − p_y ≤ form 4 ≤ min(1, (K−1)e^{−m}), and CE ≤ form 3."""
    generator = torch.Generator().manual_seed(0)
    for k in (2, 3, 10, 100):
        z = 4 * torch.randn(2000, k, generator=generator, dtype=torch.float64)
        y = torch.randint(k, (2000,), generator=generator)
        m, log_py = margins(z, y), z.log_softmax(1)[torch.arange(2000), y]
        bounded = tail_of(m, k, "bounded")
        assert (-torch.expm1(log_py) <= bounded + 1e-12).all()
        assert (bounded <= ((k - 1) * (-m).exp()).clamp(max=1) + 1e-12).all()
        assert (-log_py <= tail_of(m, k) + 1e-12).all()


@pytest.mark.parametrize(
    ("text", "extremes"),
    [
        ("ce", [(0, 0.295990), (0, 0.351382), (0, 0.092670), (0, 0.448801)]),
        ("label_smoothing:alpha=0.1", [(0, 0.295990), (0, 0.351382), (0, 0.092670), (0, 0.448801)]),
        ("mbls:margin=2", [(0, 0.295990), (0, 0.351382), (0, 0.092670), (0, 0.448801)]),
        ("mse", [(0.666667, 0.666667)] * 4),
        ("focal:gamma=3", [None, None, (-0.082653, 0.085836), None]),
        ("entropy:beta=1", [None, None, (-0.070641, 0), None]),
    ],
)
def test_logit_hessian(text: str, extremes: list[tuple[float, float] | None]) -> None:
    loss = make(text)
    for z, y, wanted in zip(Z, Y, extremes, strict=True):
        if wanted is not None:
            hessian = torch.autograd.functional.hessian(lambda row, y=y: total(loss, row[None], y[None]), z)
            eigenvalues = torch.linalg.eigvalsh(hessian)
            close(eigenvalues[[0, -1]], list(wanted))


@pytest.mark.parametrize(
    ("k", "beta", "highest"),
    [(10, 0.1, 0.9996), (10, 0.5, 0.6789), (10, 1, 0.4760), (100, 0.1, 0.9957), (100, 0.5, 0.4536), (100, 1, 0.2756)],
)
def test_entropy_penalty_caps_confidence(k: int, beta: float, highest: float) -> None:
    """The best p_y of a single example, the others being equal."""
    lead = torch.linspace(0, 20, 40_001, dtype=torch.float64)
    logits = torch.cat([lead[:, None], torch.zeros(len(lead), k - 1, dtype=torch.float64)], 1)
    terms = make(f"entropy:beta={beta}")(logits, torch.zeros(len(lead)).long())
    assert terms.log_py.exp()[terms.per_example.argmin()].item() == pytest.approx(highest, abs=1e-4)


@pytest.mark.parametrize(("k", "wanted"), [(10, 0.0213), (100, 0.0071)])
def test_mdca_is_not_zero_by_chance(k: int, wanted: float) -> None:
    generator = torch.Generator().manual_seed(0)
    probs = torch.full((128, k), 1 / k)
    values = [mdca.mdca_of(probs, torch.randint(k, (128,), generator=generator)).item() for _ in range(2000)]
    assert sum(values) / len(values) == pytest.approx(wanted, abs=3e-4)


def test_mse_ends_under_confident() -> None:
    assert torch.eye(10)[0].softmax(0)[0].item() == pytest.approx(math.e / (math.e + 9), abs=1e-6)
    logits = torch.zeros(1, 10, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(200):
        optimizer.zero_grad()
        total(make("mse"), logits, torch.tensor([0])).backward()
        optimizer.step()
    assert logits.softmax(1)[0, 0].item() == pytest.approx(0.232, abs=1e-3)


def test_second_derivatives_of_dece_are_right() -> None:
    """The authors' own sigmoid stores its first derivative as a constant."""

    def smooth(logits: torch.Tensor) -> torch.Tensor:
        return dece.dece_of(logits, Y, sharpness=3.0, temperature=0.1)

    assert torch.autograd.gradgradcheck(smooth, Z.clone().requires_grad_())


def test_refinement_is_the_loss_behind_a_fitted_temperature() -> None:
    labels = np.array([0, 2, 0, 2])
    fitted = fit_temperature(Predictions(Z.numpy(), labels, "calibration"))
    assert 1 / fitted.temperature == pytest.approx(1.489432, abs=1e-6)
    scaled = Z / fitted.temperature
    close(F.cross_entropy(Z, torch.tensor(labels)), 0.580537)
    close(F.cross_entropy(scaled, torch.tensor(labels)), 0.557647)


def test_hard_calibration_error_beside_the_soft_one() -> None:
    close(ece(Z.softmax(1), Y), 0.550384)
