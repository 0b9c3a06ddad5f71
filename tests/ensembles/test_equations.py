"""Every ensemble against its definition, written out."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from surefoot.ensembles import deep_predict, log_mean_probs, sample_predict, sampling, total_kl
from surefoot.ensembles._objective import OfMembers, WithKL
from surefoot.ensembles.batch_ensemble import BatchEnsembleNetwork, MemberLayer
from surefoot.ensembles.bsam_posterior import posterior_predict
from surefoot.ensembles.flipout import Flipout, mean_field
from surefoot.ensembles.mc_dropout import DropoutLayer, with_dropout
from surefoot.ensembles.mimo import MIMONetwork, OfInputs, beside_each_other
from surefoot.ensembles.rank1 import Rank1Network, RankOneLayer
from surefoot.ensembles.snapshot import Snapshot
from surefoot.ensembles.swa import SWA, update_batch_norm
from surefoot.errors import InputError, OptionError
from surefoot.losses._base import Batch, Scene
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.mmce import MMCE
from surefoot.models.cnn import cnn
from surefoot.models.mlp import mlp
from surefoot.models.resnet_cifar import resnet8
from surefoot.models.vit import vit_tiny
from surefoot.models.wrn import wrn
from surefoot.moment import Horizon
from surefoot.optim.bsam import BSAM
from surefoot.schema import Split, Splits
from surefoot.seeding import generator
from tests.oracles import ensembles as oracle

X = torch.randn(6, 2, 8, 8, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1, 2])
NETWORKS = {"mlp": mlp, "cnn": cnn, "resnet8": resnet8, "vit_tiny": vit_tiny, "wrn": wrn}
OPTIONS = {"mlp": {"width": 5}, "cnn": {"width": 3}, "wrn": {"depth": 10, "width": 1}, "vit_tiny": {"depth": 1}}


def network(name: str, members: int = 1) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = NETWORKS[name]((2 * members, 8, 8), 3 * members, **OPTIONS.get(name, {}))
    return made.eval()


def no_scene(seed: int = 0) -> Scene:
    return Scene(None, generator(seed, "test"), lambda split: X, 0.1)


def batch_of(x: Tensor = X, y: Tensor = Y) -> Batch:
    return Batch(x, y, torch.arange(len(y)))


def test_probabilities_are_averaged_not_logits() -> None:
    z = torch.randn(4, 5, 3, dtype=torch.float64)
    found = log_mean_probs(z).exp()
    wanted = [oracle.mean_probs([z[m, i].tolist() for m in range(4)]) for i in range(5)]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))
    torch.testing.assert_close(log_mean_probs(z).softmax(-1), found)
    assert not torch.allclose(found, z.mean(0).softmax(-1), atol=1e-3)


def test_the_mean_is_finite_at_extreme_logits() -> None:
    z = torch.tensor([[[1e4, -1e4]], [[1e4, -1e4]]], requires_grad=True)
    log_mean_probs(z).sum().backward()
    assert log_mean_probs(z).isfinite().all()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_networks_trained_apart_are_averaged_in_eval_mode() -> None:
    nets = [cnn((2, 8, 8), 3, width=2, dropout=0.5) for _ in range(3)]
    wanted = torch.stack([net.eval()(X).softmax(-1) for net in nets]).mean(0)
    nets[0].train()
    torch.testing.assert_close(deep_predict(nets, X).exp(), wanted.detach())
    assert nets[0].training
    assert not nets[1].training


def test_a_member_of_a_batch_ensemble_by_hand() -> None:
    """x=(1,2), W=[[1,0],[2,1]], r=(1,−1), s=(0.5,2) gives (−1.5,−4); and the same by W∘(r sᵀ)."""
    weight = [[1.0, 2.0], [0.0, 1.0]]
    assert oracle.linear([1.0, 2.0], oracle.member_weight(weight, [1.0, -1.0], [0.5, 2.0])) == [-1.5, -4.0]
    torch.manual_seed(0)
    both = BatchEnsembleNetwork(nn.Linear(4, 3), members=2)
    layer = both.network
    assert isinstance(layer, MemberLayer)
    assert layer.bias is not None
    layer.bias.data = torch.randn(2, 3)
    x = torch.randn(5, 4)
    for m in range(2):
        shared = oracle.member_weight(layer.layer.weight.tolist(), layer.r[m].tolist(), layer.s[m].tolist())
        wanted = [oracle.linear(row, shared, layer.bias[m].tolist()) for row in x.tolist()]
        torch.testing.assert_close(both.members(x)[m], torch.tensor(wanted))


def member_of(plain: nn.Module, both: BatchEnsembleNetwork, m: int) -> nn.Module:
    """A network of its own with one member's weights."""
    single = copy.deepcopy(plain)
    layers = [module for module in single.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    shared = [module for module in both.modules() if isinstance(module, MemberLayer)]
    for layer, own in zip(layers, shared, strict=True):
        outer = own.s[m][:, None] * own.r[m][None, :]
        layer.weight.data = own.layer.weight * (outer if layer.weight.ndim == 2 else outer[:, :, None, None])
        if own.bias is not None:
            layer.bias.data = own.bias[m].data
    return single


@pytest.mark.parametrize("name", NETWORKS)
def test_a_batch_ensemble_is_its_members_written_out(name: str) -> None:
    plain = network(name)
    both = BatchEnsembleNetwork(
        copy.deepcopy(plain), members=3, std=0.1, generator=torch.Generator().manual_seed(0)
    ).eval()
    wanted = torch.stack([member_of(plain, both, m)(X) for m in range(3)])
    torch.testing.assert_close(both.members(X), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(both(X).exp(), wanted.softmax(-1).mean(0), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(wanted[0], wanted[1], atol=1e-3)
    loss = OfMembers(CrossEntropy(), 3, "repeat")
    pairs = loss.prepare(both, batch_of(), no_scene())
    terms, _ = loss.evaluate(both, pairs)
    each = torch.stack([F.cross_entropy(wanted[m], Y, reduction="none") for m in range(3)])
    torch.testing.assert_close(terms.per_example, each.flatten(), rtol=1e-4, atol=1e-5)
    rows = torch.tensor([16, 3, 7])  # any part, in any order
    torch.testing.assert_close(
        loss.evaluate(both, pairs[rows])[0].per_example, each.flatten()[rows], rtol=1e-4, atol=1e-5
    )
    assert loss.passes == 3


@pytest.mark.parametrize("name", NETWORKS)
def test_one_member_with_factors_of_one_is_the_plain_network(name: str) -> None:
    plain = network(name)
    torch.testing.assert_close(
        BatchEnsembleNetwork(copy.deepcopy(plain), members=1, std=0.0).eval()(X), plain(X).log_softmax(-1)
    )
    calm = mean_field(copy.deepcopy(plain))
    torch.testing.assert_close(calm.eval()(X), plain(X))
    dropped = with_dropout(copy.deepcopy(plain), where="layers")
    torch.testing.assert_close(dropped.eval()(X), plain(X))
    many = MIMONetwork(network(name), members=1).eval()
    torch.testing.assert_close(many(X), plain(X).log_softmax(-1))


def test_a_batch_can_be_divided_among_members() -> None:
    both = BatchEnsembleNetwork(network("mlp"), members=3)
    loss = OfMembers(CrossEntropy(), 3, "divide")
    pairs = loss.prepare(both, batch_of(), no_scene())
    assert pairs.draw("member").tolist() == [0, 0, 1, 1, 2, 2]
    members = both.members(X)
    wanted = torch.stack([members[m, i] for i, m in enumerate([0, 0, 1, 1, 2, 2])])
    torch.testing.assert_close(loss.evaluate(both, pairs)[1], wanted)
    assert loss.passes == 1


def test_the_network_inside_is_not_called_by_chance() -> None:
    both = BatchEnsembleNetwork(network("mlp"), members=2)
    with pytest.raises(InputError, match="whose turn it is for 6 rows, but it is nobody's"):
        both.network(X)


def test_parameter_counts_of_wrn_28_10() -> None:
    with torch.device("meta"):
        plain = sum(p.numel() for p in wrn((3, 32, 32), 10).parameters())
        shared = sum(p.numel() for p in BatchEnsembleNetwork(wrn((3, 32, 32), 10), members=4).parameters())
        many = sum(p.numel() for p in wrn((9, 32, 32), 30).parameters())
        doubled = mean_field(wrn((3, 32, 32), 10))
        extra = sum(m.rho.numel() for m in doubled.modules() if isinstance(m, Flipout))
    assert shared - plain == 78_354
    assert many - plain == 13_684
    assert extra == pytest.approx(plain, rel=1e-3)


def test_rank_one_factors_are_drawn_for_every_example_and_cut_off() -> None:
    torch.manual_seed(0)
    both = Rank1Network(nn.Linear(4, 3), members=2, std=0.5)
    layer = both.network
    assert isinstance(layer, RankOneLayer)
    layer.r.data[0, 0] = 50.0
    x = torch.randn(5, 4)
    torch.manual_seed(7)
    found = both.members(x)
    torch.manual_seed(7)
    noise_r, noise_s = torch.randn(10, 4), torch.randn(10, 3)
    for row in range(10):
        m, i = divmod(row, 5)
        r, s = (
            [
                min(10.0, max(-10.0, mu + oracle.softplus(rho) * n))
                for mu, rho, n in zip(mus[m].tolist(), rhos[m].tolist(), noise[row].tolist(), strict=True)
            ]
            for mus, rhos, noise in ((layer.r, layer.r_rho, noise_r), (layer.s, layer.s_rho, noise_s))
        )
        weight = oracle.member_weight(layer.layer.weight.tolist(), r, s)
        wanted = oracle.linear(x[i].tolist(), weight, layer.bias[m].tolist())
        torch.testing.assert_close(found[m, i], torch.tensor(wanted))
    assert torch.equal(both.eval().members(x), both.members(x))


def test_posteriors_start_where_the_published_ones_do() -> None:
    both = Rank1Network(nn.Linear(400, 300), members=4, generator=torch.Generator().manual_seed(0))
    layer = both.network
    assert isinstance(layer, RankOneLayer)
    assert layer.r_rho.mean().item() == pytest.approx(-3.437516, abs=0.01)
    assert 0.05 < layer.r_rho.std() < 0.1
    assert layer.r.unique().tolist() == [-1, 1]
    flip = mean_field(nn.Linear(4, 3))
    assert isinstance(flip, Flipout)
    assert flip.rho.unique().item() == pytest.approx(-6.907255, abs=1e-6)
    assert flip.kl().item() / 12 == pytest.approx(4.105220, abs=1e-5)


@pytest.mark.parametrize("kind", ["tied", "zero", "rank1"])
def test_divergences_and_their_gradients_are_those_of_torch(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "rank1":
        model: nn.Module = Rank1Network(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), members=2, std=0.3).double()
        pairs = [
            (mu, rho, torch.ones_like(mu))
            for m in model.modules()
            if isinstance(m, RankOneLayer)
            for mu, rho in ((m.r, m.r_rho), (m.s, m.s_rho))
        ]
    else:
        net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3, 2))
        model = mean_field(net, std=0.3, prior_mean=kind).double()
        pairs = [
            (m.layer.weight, m.rho, m.layer.weight if kind == "tied" else torch.zeros_like(m.rho))
            for m in model.modules()
            if isinstance(m, Flipout)
        ]
    with torch.no_grad():
        for mu, rho, _ in pairs:
            rho.add_(0.3 * torch.randn_like(rho))
            mu.add_(0.1 * torch.randn_like(mu))
    found = total_kl(model)
    wanted = sum(kl_divergence(Normal(mu, F.softplus(rho)), Normal(prior, 0.1)).sum() for mu, rho, prior in pairs)
    assert isinstance(wanted, Tensor)
    torch.testing.assert_close(found, wanted)
    leaves = [leaf for mu, rho, _ in pairs for leaf in (mu, rho)]
    grads, others = (torch.autograd.grad(v, leaves, allow_unused=True) for v in (found, wanted))
    for one, other, leaf in zip(grads, others, leaves, strict=True):
        zero = torch.zeros_like(leaf)
        torch.testing.assert_close(zero if one is None else one, zero if other is None else other)
    names = [name for name, parameter in model.named_parameters() if any(parameter is leaf for leaf in leaves)]

    def divergence(*values: Tensor) -> Tensor:
        named = {f"model.{name}": value for name, value in zip(names, values, strict=True)}
        value: Tensor = torch.func.functional_call(Divergence(model), named, ())
        return value

    start = [model.get_parameter(name).detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(divergence, start)


class Divergence(nn.Module):
    """The divergence as a function of parameters."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor:
        return total_kl(self.model)


def test_flipout_by_hand_and_in_the_mean() -> None:
    torch.manual_seed(0)
    layer = mean_field(nn.Linear(3, 2, bias=False), std=0.4)
    assert isinstance(layer, Flipout)
    x = torch.randn(4, 3)
    torch.manual_seed(5)
    found = layer(x)
    torch.manual_seed(5)
    noise = torch.randn(2, 3)
    flip_in, flip_out = (2.0 * torch.randint(2, (4, fan)) - 1 for fan in (3, 2))
    sigma = [[oracle.softplus(v) for v in row] for row in layer.rho.tolist()]
    for i in range(4):
        flips = flip_in[i].tolist(), flip_out[i].tolist()
        wanted = oracle.flipout(x[i].tolist(), layer.layer.weight.tolist(), sigma, noise.tolist(), *flips)
        torch.testing.assert_close(found[i], torch.tensor(wanted))
    with torch.no_grad():
        draws = torch.stack([layer(x) for _ in range(4000)])
    torch.testing.assert_close(draws.mean(0), layer.layer(x).detach(), atol=0.05, rtol=0)
    spread = (x.square() @ torch.full((3, 2), 0.4**2)).sqrt()
    torch.testing.assert_close(draws.std(0), spread, rtol=0.06, atol=0)


def test_flipout_of_a_convolution_is_that_of_weights_flipped_channel_by_channel() -> None:
    torch.manual_seed(0)
    layer = mean_field(nn.Conv2d(2, 3, 3, stride=2, padding=1), std=0.4)
    assert isinstance(layer, Flipout)
    torch.manual_seed(5)
    found = layer(X)
    torch.manual_seed(5)
    noise = torch.randn(3, 2, 3, 3) * F.softplus(layer.rho)
    flip_in, flip_out = (2.0 * torch.randint(2, (6, fan)) - 1 for fan in (2, 3))
    for i in range(6):
        weight = layer.layer.weight + noise * flip_out[i][:, None, None, None] * flip_in[i][None, :, None, None]
        wanted = F.conv2d(X[i : i + 1], weight, layer.layer.bias, stride=2, padding=1)
        torch.testing.assert_close(found[i : i + 1], wanted, rtol=1e-4, atol=1e-5)


def test_the_divergence_is_weighed_in_and_counted_once_per_step() -> None:
    model = mean_field(network("mlp"))
    loss = WithKL(CrossEntropy(), n_train=50, anneal=4)
    plain = CrossEntropy().evaluate(model, batch_of())[0]
    for beta in (0.0, 0.25, 0.5, 0.75, 1.0, 1.0):
        terms, outputs = loss.evaluate(model, batch_of())
        loss.evaluate(model, batch_of()[:2])
        assert terms.penalty is not None
        assert terms.penalty.item() == pytest.approx(beta * total_kl(model).item() / 50)
        torch.testing.assert_close(terms.per_example, plain.per_example)
        loss.observe(batch_of(), outputs)
    assert WithKL(CrossEntropy(), 50, 0).beta == 1.0


def test_channels_of_several_inputs_are_ordered_by_colour() -> None:
    images = torch.randn(2, 3, 4, 5, 5)  # two rows of three members with four channels
    for row in range(2):
        rows = [[channel.flatten().tolist() for channel in image] for image in images[row]]
        wanted = torch.tensor(oracle.channels_of_mimo(rows)).view(12, 5, 5)
        torch.testing.assert_close(beside_each_other(images)[row], wanted)


def test_mimo_adds_up_the_losses_of_shuffled_members() -> None:
    model = MIMONetwork(network("cnn", 3), members=3).eval()
    loss = OfInputs(CrossEntropy(), members=3, repetitions=2)
    batch = loss.prepare(model, batch_of(), no_scene())
    assert len(batch) == 12
    assert loss.passes == 2
    for m in range(3):  # every member sees every example twice, with its own label
        rows = [next(i for i in range(6) if torch.equal(X[i], image)) for image in batch.inputs[:, m]]
        assert sorted(rows) == sorted([*range(6), *range(6)])
        assert batch.draw("labels")[:, m].tolist() == Y[rows].tolist()
    assert not torch.equal(batch.inputs[:, 0], batch.inputs[:, 1])
    heads = model.network(beside_each_other(batch.inputs)).chunk(3, 1)
    each = [F.cross_entropy(z, y, reduction="none") for z, y in zip(heads, batch.draw("labels").T, strict=True)]
    terms, _ = loss.evaluate(model, batch)
    torch.testing.assert_close(terms.per_example, each[0] + each[1] + each[2])
    torch.testing.assert_close(terms.log_py, -terms.per_example / 3)
    same = model.network(X.repeat_interleave(3, 1)).chunk(3, 1)
    torch.testing.assert_close(model(X).exp(), torch.stack([z.softmax(-1) for z in same]).mean(0))


def test_a_penalty_of_the_batch_counts_for_every_member_of_mimo() -> None:
    model = MIMONetwork(network("mlp", 2), members=2).eval()
    loss = OfInputs(MMCE(), members=2, repetitions=1)
    batch = loss.prepare(model, batch_of(), no_scene())
    terms, _ = loss.evaluate(model, batch)
    flat = MMCE()(model.members(batch.inputs).flatten(0, 1), batch.draw("labels").flatten())
    assert terms.penalty is not None
    torch.testing.assert_close(terms.per_example.mean() + terms.penalty, 2 * (flat.per_example.mean() + flat.penalty))


def test_dropout_draws_in_prediction_while_statistics_hold_still() -> None:
    model = with_dropout(cnn((2, 8, 8), 3, width=3, dropout=0.0), p=0.5).train()
    model(X)
    before = copy.deepcopy(model.state_dict())
    found = sample_predict(model, X, samples=3, seed=4)
    assert torch.equal(found, sample_predict(model, X, samples=3, seed=4))
    assert not torch.equal(found, sample_predict(model, X, samples=3, seed=5))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    features, last = [*model.eval().children()][:-1], model[-1][-1]
    with torch.no_grad():
        pooled = nn.Sequential(*features, model[-1][0])(X)
        wanted = []
        for index in range(3):
            torch.manual_seed(generator(4, f"sample/{index}").initial_seed())
            wanted.append(last(F.dropout(pooled, 0.5)).softmax(-1))
    torch.testing.assert_close(found.exp(), torch.stack(wanted).mean(0))


def test_dropout_finds_its_place() -> None:
    slots = [m for m in with_dropout(network("wrn"), 0.2).modules() if isinstance(m, DropoutLayer)]
    assert [m.inner.p for m in slots] == [0.2] * 3  # one per residual branch
    assert len([m for m in with_dropout(network("mlp")).modules() if isinstance(m, DropoutLayer)]) == 2
    with pytest.raises(InputError, match="Expected a place for dropout"):
        with_dropout(nn.Linear(2, 2))
    with pytest.raises(OptionError, match=r"Expected p in \(0, 1\), but got 1"):
        with_dropout(network("mlp"), p=1.0)


def test_samples_of_a_network_that_does_not_draw_are_refused() -> None:
    with pytest.raises(InputError, match="Expected at least one sample of a network that draws"):
        sample_predict(network("mlp"), X)


def test_drawing_ends_also_after_an_error() -> None:
    model = mean_field(network("mlp"))
    with sampling(model):
        assert not torch.equal(model(X), model(X))
    with pytest.raises(ZeroDivisionError), sampling(model):
        _ = 1 / 0
    assert torch.equal(model(X), model(X))


def test_weights_are_averaged_from_the_start_epoch_on() -> None:
    horizon, swa, model = Horizon(20, 2, 4, 8), SWA(start=0.5), nn.Linear(1, 1, bias=False)
    seen = []
    for step in range(1, 21):
        model.weight.data.fill_(float(step * step))
        if step % 2 == 0 and step // 2 >= 5:
            seen.append(step * step)
        swa.step_end(model, step, horizon)
    assert swa.n == len(seen) == 6
    assert swa.members[0]["weight"].item() == pytest.approx(sum(seen) / 6)


def test_statistics_of_averaged_weights_are_those_of_the_training_data() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=0.3), nn.Dropout(0.9), nn.Linear(3, 2)).train()
    x = torch.randn(10, 3) * 3 + 2
    update_batch_norm(model, [x[:4], x[4:8], x[:1]])
    parts = x[:4].double(), x[4:8].double()
    mean, var = (sum(f(part) for part in parts) / 2 for f in (lambda p: p.mean(0), lambda p: p.var(0)))
    norm = model[0]
    torch.testing.assert_close(norm.running_mean.double(), mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(norm.running_var.double(), var, rtol=1e-5, atol=1e-5)
    assert norm.momentum == 0.3
    assert all(module.training for module in model.modules())
    swa = SWA(start=1.0)
    swa.step_end(model, 2, Horizon(2, 1, 4, 10))
    swa.finish(model, Split(x, torch.zeros(10).long()), Horizon(2, 1, 4, 10))
    # Three batches, of 3, 3 and 4 examples, each with the weight of its size.
    torch.testing.assert_close(swa.members[0]["0.running_mean"].double(), x.double().mean(0), rtol=1e-5, atol=1e-5)
    assert torch.equal(swa.members[0]["2.weight"], model[2].weight)


@pytest.mark.parametrize("epoch", [0, 50, 80, 81, 100, 140, 145, 161, 250])
def test_learning_rates_of_swa(epoch: int) -> None:
    swa, horizon = SWA(start=161 / 300, lr=0.5), Horizon(900, 3, 50, 100)
    assert swa.first_epoch(horizon) == 161
    found = 0.1 * swa.factor(lambda t: 7.0, 3 * epoch + 2, horizon)
    assert found == pytest.approx(oracle.swa_lr(epoch, 161, 0.1, 0.05))


def test_learning_rates_and_members_of_snapshots() -> None:
    snap, horizon = Snapshot(cycles=5, keep=3), Horizon(200, 1, 100, 100)

    def cosine(t: float) -> float:
        return 0.5 * (1 + math.cos(math.pi * t))

    for step in range(200):
        assert 0.2 * snap.factor(cosine, step, horizon) == pytest.approx(oracle.snapshot_lr(0.2, step, 40))
    assert snap.factor(cosine, 200, horizon) == pytest.approx(0)
    model = nn.Linear(1, 1)
    for step in range(1, 201):
        model.weight.data.fill_(float(step))
        snap.step_end(model, step, horizon)
    assert [weights["weight"].item() for weights in snap.members] == [120, 160, 200]
    uneven = Snapshot(cycles=3)
    for step in range(1, 8):
        uneven.step_end(model, step, Horizon(7, 1, 1, 7))
    assert len(uneven.members) == 3


def test_the_posterior_of_bsam_is_sampled_as_defined(small_splits: Splits) -> None:
    torch.manual_seed(0)
    model = mlp((1, 6, 6), 3, width=4)
    optimizer = BSAM(model.parameters(), model, n_train=90, lr=0.1)
    x, y = small_splits.train.inputs[:30], small_splits.train.labels[:30]
    for _ in range(3):
        optimizer.step(lambda: F.cross_entropy(model(x), y, reduction="none"))
    before = copy.deepcopy(model.state_dict())
    found = posterior_predict(optimizer, model, x, samples=3, seed=2)
    probs = []
    for index in range(3):
        draw = generator(2, f"sample/{index}")
        sample = copy.deepcopy(model)
        for own, mean in zip(sample.parameters(), model.parameters(), strict=True):
            precision = optimizer.state[mean]["s"]
            own.data = mean.data + torch.randn(mean.shape, generator=draw) / (90 * precision).sqrt()
        probs.append(sample(x).softmax(-1))
    torch.testing.assert_close(found.exp(), torch.stack(probs).mean(0).detach())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
