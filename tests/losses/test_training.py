"""Every loss in the loop: it learns, with every optimizer; what it draws is shared; what it remembers is saved."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from surefoot.data.fashion import fashion
from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.losses._base import Batch, Scene
from surefoot.losses._cw import smallest_change
from surefoot.losses._heads import TwoHeads
from surefoot.losses._inputs import InputRange
from surefoot.losses.ar_adals import ARAdaLS, divide
from surefoot.losses.balcal import BalCAL
from surefoot.losses.crl import CRL
from surefoot.losses.dece import dece_of
from surefoot.losses.meta_calibration import MetaCalibration, soft_labels, virtual_step
from surefoot.method import parse_method
from surefoot.models.cnn import cnn
from surefoot.optim import build_optimizer
from surefoot.records import RunFolder
from surefoot.registry import LOSSES, MODELS, OPTIMIZERS
from surefoot.schema import RunSpec, Split, Splits
from surefoot.seeding import generator
from surefoot.studies.compare import make_spec
from surefoot.training import Trainee, fit
from surefoot.training.eigenbasis import join_basis
from surefoot.training.schedule import make_schedule
from tests.losses.cases import NAMES, added, make
from tests.oracles import losses as oracle
from tests.runs import content

VARIANTS = [
    *NAMES,
    "mit:where=stages",
    "mmce:form=weighted_as_coded",
    "mmce:form=squared",
    "mdca:gamma=1",
    "calmo:robust=0",
    "calmo:smooth=0",
    "margin_tail:form=bounded,warmup=0",
    "margin_tail:form=log_moment,warmup=0",
    "margin_tail:form=moment,warmup=0",
    "margin_tail:robust=attack,smoothness=kl,warmup=0",
    "margin_tail:robust=l2,smoothness=difference,warmup=0",
    "meta_calibration:smoothing=class",
    "meta_calibration:smoothing=scalar",
    "meta_calibration:smoothing=l2",
    "ar_adals:attack=cw,steps=3,searches=2",
]


@pytest.fixture(scope="module")
def some_fashion() -> Splits:
    """Real pictures, but few: 8 steps of 40 make an epoch."""
    whole = fashion()
    few = [Split(split.inputs[:n], split.labels[:n]) for split, n in ((whole.train, 320), (whole.calibration, 200))]
    return Splits(*few, few[1], whole.class_names, "some fashion")


class Memory(RunFolder):
    """Keeps the records, and nothing else."""

    run_id = "none"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.kept: list[dict[str, float]] = []

    def append_steps(self, records: object, *, sync: bool = False) -> int:  # also before the end, on a slow machine
        self.kept.extend(records)
        return 0

    def hash_of_steps(self, size: int) -> str:
        return ""


def train(method: str, splits: Splits, path: Path, epochs: int = 4, model: str = "mlp:width=16") -> Trainee:
    spec = parse_method(method, {"lr": 0.05})
    torch.manual_seed(0)
    loss = LOSSES.build(spec.loss)
    net = loss.attach(MODELS.build(MODELS.parse(model), splits.input_shape, splits.n_classes), splits, seed())
    optimizer = build_optimizer(spec, net)
    join_basis(optimizer, net, splits.train, loss)
    trainee = Trainee(net, loss, optimizer, make_schedule("constant", optimizer, 100))
    path.mkdir(exist_ok=True)
    folder = Memory(path)
    fit(trainee, splits, folder, epochs=epochs, batch_size=40, seed=0, checkpoint_every=1e9)
    assert len(folder.kept) == 8 * epochs
    assert all(torch.tensor([record["loss"] for record in folder.kept]).isfinite())
    return trainee


def seed() -> torch.Generator:
    return generator(0, "loss")


@pytest.mark.parametrize("optimizer", ["sgd", "sam", "csam"])
@pytest.mark.parametrize("loss", VARIANTS)
def test_every_loss_is_lowered_on_real_pictures(
    loss: str, optimizer: str, some_fashion: Splits, tmp_path: Path
) -> None:
    """32 steps; then the loss, with all that it remembers by now, is lower than at the weights of the start."""
    trainee = train(f"{loss} + {optimizer}", some_fashion, tmp_path)
    torch.manual_seed(0)
    at_start = MODELS.build(MODELS.parse("mlp:width=16"), some_fashion.input_shape, 10)
    at_start = make(loss).attach(at_start, some_fashion, seed())
    values = []
    for model in (at_start, trainee.model):
        batch = Batch(some_fashion.train.inputs[:200], some_fashion.train.labels[:200], torch.arange(200))
        batch = trainee.loss.prepare(model, batch, scene_of(some_fashion, model, 99))
        values.append(added(trainee.loss.evaluate(model, batch)[0]).item())
    assert values[1] < 0.99 * values[0]


@pytest.mark.parametrize("optimizer", [part.name for part in OPTIMIZERS])
@pytest.mark.parametrize("loss", ["mixup", "crl", "balcal", "calmo", "meta_calibration"])
def test_losses_that_need_more_than_logits_go_with_every_optimizer(
    loss: str, optimizer: str, some_fashion: Splits, tmp_path: Path
) -> None:
    train(f"{loss} + {optimizer}", some_fashion, tmp_path, epochs=1, model="mlp:width=10,depth=1")


@pytest.mark.parametrize("loss", VARIANTS)
@pytest.mark.parametrize("optimizer", ["sam:m=20", "esam"])
def test_losses_work_on_parts_of_a_batch(loss: str, optimizer: str, some_fashion: Splits, tmp_path: Path) -> None:
    train(f"{loss} + {optimizer}", some_fashion, tmp_path, epochs=1)


@pytest.mark.parametrize("loss", VARIANTS)
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bits(loss: str, small_npz: Path, tmp_path: Path) -> None:
    spec: RunSpec = make_spec(
        f"{loss} + csam", data=f"npz:{small_npz}", model="cnn:width=4,dropout=0.2", epochs=3, batch_size=30
    )
    run(spec, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(step: int, n_steps: int, loss: float) -> None:
        if step == 4:  # in the middle of the second epoch
            raise Killed

    with pytest.raises(Killed):
        run(spec, tmp_path / "killed", checkpoint_every=0, on_progress=kill)
    run(spec, tmp_path / "killed")
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def scene_of(splits: Splits, model: nn.Module, step: int = 0) -> Scene:
    def logits(name: str) -> Tensor:
        return model.eval()(splits[name].inputs).detach()

    return Scene(splits, generator(0, f"loss/{step}"), logits, 0.1)


def first_batch(splits: Splits) -> Batch:
    return Batch(splits.train.inputs[:12], splits.train.labels[:12], torch.arange(12))


@pytest.mark.parametrize("text", VARIANTS)
def test_draws_depend_on_seed_and_step_and_are_shared_by_all_looks(text: str, small_splits: Splits) -> None:
    def prepared(step: int) -> tuple[object, nn.Module, Batch]:
        torch.manual_seed(0)
        loss = make(text)
        model = loss.attach(cnn(small_splits.input_shape, 3, width=4), small_splits, seed())
        return loss, model, loss.prepare(model, first_batch(small_splits), scene_of(small_splits, model, step))

    loss, model, batch = prepared(0)
    _, _, again = prepared(0)
    _, _, later = prepared(1)
    state = torch.get_rng_state()
    assert batch.drawn.keys() == again.drawn.keys()
    assert all(torch.equal(batch.drawn[key], again.drawn[key]) for key in batch.drawn)
    if batch.drawn:
        assert any(not torch.equal(batch.drawn[key], later.drawn[key]) for key in batch.drawn)
    model.eval()  # running statistics would move between the two looks
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    terms, outputs = loss.evaluate(model, batch)
    other, _ = loss.evaluate(model, batch)
    assert torch.equal(added(terms), added(other))
    assert terms.per_example.shape == (12,)
    assert len(outputs) == 12
    assert torch.equal(torch.get_rng_state(), state)
    for key, value in loss.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("text", VARIANTS)
def test_weight_gradients_are_those_of_finite_differences(text: str, small_splits: Splits) -> None:
    torch.manual_seed(0)
    loss = make(text)
    smooth = MODELS.build(MODELS.parse("mlp:width=6,activation=tanh"), small_splits.input_shape, 3)
    model = loss.attach(smooth, small_splits, seed())
    batch = loss.prepare(model, first_batch(small_splits), scene_of(small_splits, model))
    model.double().eval(), loss.double()
    drawn = {key: value.double() if value.is_floating_point() else value for key, value in batch.drawn.items()}
    batch = Batch(batch.inputs.double(), batch.labels, batch.indices, drawn)
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(added(loss.evaluate(model, batch)[0]), weights, allow_unused=True)
    directions = [torch.randn_like(weight) for weight in weights]
    slope = sum((g * d).sum() for g, d in zip(grads, directions, strict=True) if g is not None)
    values = []
    for h in (1e-6, -2e-6):
        with torch.no_grad():
            for weight, direction in zip(weights, directions, strict=True):
                weight.add_(direction, alpha=h)
        values.append(added(loss.evaluate(model, batch)[0]).item())
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(float(slope), rel=2e-4, abs=2e-6)


@pytest.mark.parametrize("text", VARIANTS)
def test_a_network_that_has_run_away_gives_a_finite_loss(text: str, small_splits: Splits) -> None:
    torch.manual_seed(0)
    loss = make(text)
    model = loss.attach(
        MODELS.build(MODELS.parse("mlp:width=8"), small_splits.input_shape, 3), small_splits, generator(0, "loss")
    )
    with torch.no_grad():
        layers = [module for module in model.modules() if isinstance(module, nn.Linear) and module.out_features == 3]
        layers[0].weight.mul_(1e4)
    batch = loss.prepare(model, first_batch(small_splits), scene_of(small_splits, model))
    value = added(loss.evaluate(model.train(), batch)[0])
    value.backward()
    assert value.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_histories_are_counted_once_per_step(some_fashion: Splits, tmp_path: Path) -> None:
    for optimizer in ("sgd", "sam", "sam:m=8", "esam"):
        trainee = train(f"crl + {optimizer}", some_fashion, tmp_path / optimizer, epochs=3)
        loss = trainee.loss
        assert isinstance(loss, CRL)
        assert loss.epochs == 3
        assert 0 <= loss.counts.min() <= loss.counts.max() <= 3
        assert len(loss.counts.unique()) > 1


def test_the_second_head_belongs_to_the_network(some_fashion: Splits, tmp_path: Path) -> None:
    trainee = train("balcal + sgd", some_fashion, tmp_path, epochs=6, model="cnn:width=4")
    model = trainee.model
    assert isinstance(model, TwoHeads)
    assert isinstance(trainee.loss, BalCAL)
    assert trainee.loss.seen.isnan().all()
    assert 0 <= model.share.item() <= 1
    assert model.share.item() != pytest.approx(0.8)
    assert "share" in model.state_dict()
    x = some_fashion.test.inputs[:5]
    own, fixed = model.eval().heads(x)
    torch.testing.assert_close(model(x), model.share * own + (1 - model.share) * fixed)
    assert fixed.softmax(1).max() < 0.2525


@pytest.mark.parametrize("smoothing", ["scalar", "class", "pairs", "l2"])
def test_meta_gradient_is_that_of_a_real_step_of_the_last_layer(smoothing: str, small_splits: Splits) -> None:
    """Smooth or penalise a little more or less, step, look at held-out data: the slope that Adam is given."""
    torch.manual_seed(0)
    double = [Split(split.inputs.double(), split.labels) for split in (small_splits.train, small_splits.calibration)]
    splits = Splits(*double, double[1], small_splits.class_names, "double")
    model = MODELS.build(MODELS.parse("mlp:width=8,activation=tanh"), (1, 6, 6), 3).double()
    loss = make(f"meta_calibration:smoothing={smoothing}").double()
    assert isinstance(loss, MetaCalibration)
    loss.attach(model, splits, seed())
    loss.double()
    learned = loss.decay if smoothing == "l2" else loss.amount
    learned.fill_(0.1)
    batch = first_batch(splits)
    rows = torch.randperm(60, generator=generator(0, "loss/0"))[:12]
    held_out = splits.calibration.inputs[rows], splits.calibration.labels[rows]

    def outer(value: Tensor) -> float:
        stepped = copy.deepcopy(model)
        last = list(stepped[-1].parameters())
        optimizer = torch.optim.SGD(last, lr=0.1)
        if smoothing == "l2":
            inner = nn.functional.cross_entropy(stepped(batch.inputs), batch.labels)
            inner = inner + sum(
                (w * theta**2).sum() / 12 for w, theta in zip((value[:24].view(3, 8), value[24:]), last, strict=True)
            )
        else:
            soft = soft_labels(value, loss.target, 3)[batch.labels]
            inner = nn.functional.cross_entropy(stepped(batch.inputs), soft)
        inner.backward()
        optimizer.step()
        logits = stepped(held_out[0])
        return (nn.functional.cross_entropy(logits, held_out[1]) + 0.5 * dece_of(logits, held_out[1])).item()

    h = 1e-5
    start = learned.clone()
    wanted = [
        (outer(start + h * unit) - outer(start - h * unit)) / (2 * h)
        for unit in torch.eye(len(start), dtype=torch.float64)
    ]
    loss.prepare(model, batch, scene_of(splits, model))
    found = loss.first[: len(start)] / 0.1
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-4, atol=1e-9)
    first_step = 1e-3 * found / (found.abs() + 1e-8)  # of Adam
    torch.testing.assert_close(learned, start - first_step, rtol=0, atol=1e-9)
    penalty = loss.evaluate(model, batch)[0].penalty
    if smoothing == "l2":
        assert penalty is not None
        thetas = [theta for part in model[-1].parameters() for theta in part.flatten().tolist()]
        written = sum(w * theta**2 for w, theta in zip(learned.tolist(), thetas, strict=True)) / len(batch)
        assert penalty.item() == pytest.approx(written, rel=1e-9)
    else:
        assert penalty is None


def test_meta_calibration_smooths_a_network_that_is_far_too_sure(small_splits: Splits) -> None:
    torch.manual_seed(0)
    loss = make("meta_calibration:rate=0.01")
    assert isinstance(loss, MetaCalibration)
    model = loss.attach(MODELS.build(MODELS.parse("mlp:width=8"), (1, 6, 6), 3), small_splits, seed())
    with torch.no_grad():
        model[-1].weight.mul_(10)
    batch = first_batch(small_splits)
    for step in range(30):
        assert loss.prepare(model, batch, scene_of(small_splits, model, step)) is batch
    assert loss.steps == 30
    assert 0.05 < loss.amount.mean() <= 0.5


def test_the_attack_is_its_written_out_twin_and_finds_the_distance_to_a_plane() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 3).double()
    x, y = torch.rand(30, 5, dtype=torch.float64) * 4 - 2, torch.arange(30) % 3
    x[0, :] = 2.0  # at the edge of the range
    one = Split(torch.tensor([[-2.0] * 5, [2.0] * 5], dtype=torch.float64), torch.zeros(2).long())
    box = InputRange()
    box.fit(Splits(one, one, one, ("a", "b", "c"), "range"))
    found = smallest_change(layer, x, y, box, steps=40, searches=4)
    rows, biases = layer.weight.tolist(), layer.bias.tolist()
    written = [
        oracle.cw_of_a_linear_model(rows, biases, row, label, -2.0, 2.0, 40, 4)
        for row, label in zip(x.tolist(), y.tolist(), strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(written, dtype=torch.float64), rtol=1e-6, atol=1e-9)
    weight = layer.weight.detach()
    gaps = torch.stack([weight[label] - weight for label in y])
    exact = ((layer(x).detach().gather(1, y[:, None]) - layer(x).detach()) / gaps.norm(dim=2)).clamp(min=0) / 4
    exact = exact.masked_fill(nn.functional.one_hot(y, 3).bool(), torch.inf).amin(1)
    assert (found[exact == 0] == 0).all()
    inside = (exact > 0) & found.isfinite()
    assert inside.sum() > 5
    assert (found[inside] >= exact[inside] - 1e-9).all()  # no attack is shorter than the way to the plane
    assert (found[inside] / exact[inside]).median() < 1.15


def test_equally_robust_examples_are_ranked_when_it_is_time(small_splits: Splits) -> None:
    torch.manual_seed(0)
    model = MODELS.build(MODELS.parse("mlp:width=8"), (1, 6, 6), 3)
    distances = {}
    for attack in ("radius", "cw"):
        loss = make(f"ar_adals:groups=3,attack={attack},every=0")
        assert isinstance(loss, ARAdaLS)
        loss.attach(model, small_splits, seed())
        loss.epoch_end(model, scene_of(small_splits, model))
        distances[attack] = loss.distances(model, small_splits.train)
        ranked = divide(distances[attack], 3)
        assert torch.equal(loss.group, ranked)
        other = MODELS.build(MODELS.parse("mlp:width=8"), (1, 6, 6), 3)
        before = loss.q.clone()
        loss.epoch_end(other, scene_of(small_splits, other))
        assert torch.equal(loss.group, ranked)  # once
        assert not torch.equal(loss.q, before)  # but still followed
    radius, attacked = distances["radius"], distances["cw"]
    assert torch.equal(radius < 0, attacked == 0)  # wrong as they are
    right = radius > 0
    assert spearmanr(radius[right], attacked[right]).statistic > 0.8  # two ways to look at the same thing


def test_the_virtual_step_is_a_step_of_sgd(small_splits: Splits) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    h, others, soft = torch.randn(7, 5), torch.randn(4, 5), torch.rand(7, 3).softmax(1)
    found = virtual_step(layer, h, soft, others, lr=0.3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.3)
    nn.functional.cross_entropy(layer(h), soft).backward()
    optimizer.step()
    torch.testing.assert_close(found, layer(others))


@pytest.mark.parametrize(
    ("text", "calls", "gradient"),
    [
        ("ce", 1, 0),
        ("mixup", 1, 0),
        ("mit", 2, 0),
        ("calmo", 5, 1.5),
        ("calmo:smooth=0", 5, 0),
        ("calmo:robust=0", 1, 1.5),
        ("margin_tail", 1, 0),
        ("margin_tail:warmup=0", 1, 1.5),
        ("margin_tail:warmup=0,robust=attack,steps=2,beta=0", 4, 0),
        ("margin_tail:warmup=0,eps=0,smoothness=difference", 2, 0),
    ],
)
def test_a_loss_knows_its_cost(text: str, calls: int, gradient: float, small_splits: Splits) -> None:
    """Passes are counted as the network is called; the margin's gradient adds what it costs by itself."""
    loss = make(text)
    model = loss.attach(MODELS.build(MODELS.parse("mlp:width=4"), (1, 6, 6), 3), small_splits, seed())
    batch = loss.prepare(model, first_batch(small_splits), scene_of(small_splits, model))
    seen: list[int] = []
    model.register_forward_hook(lambda *args: seen.append(1))
    loss.evaluate(model, batch)
    assert len(seen) == calls
    assert loss.passes == calls + gradient


class Unstaged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(1)).tanh()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mit:where=stages", "Expected a network with stages for mit:where=stages, but Unstaged has none"),
        ("balcal", "Expected a network with stages for a second head, but Unstaged has none"),
        ("meta_calibration", "Expected the last nn.Linear of Unstaged to give the logits"),
    ],
)
def test_networks_that_do_not_fit_are_refused(text: str, says: str, small_splits: Splits) -> None:
    with pytest.raises(InputError, match=says):
        make(text).attach(Unstaged(), small_splits, seed())


@pytest.mark.parametrize("text", ["mixup", "mit", "calmo", "margin_tail", "ar_adals"])
def test_tokens_cannot_be_mixed(text: str, small_splits: Splits) -> None:
    model = MODELS.build(MODELS.parse("text_transformer"), (5,), 3)
    with pytest.raises(InputError, match=r"the network reads tokens\. Choose another loss for text"):
        make(text).attach(model, small_splits, seed())


def test_a_batch_without_draws_is_refused(small_splits: Splits) -> None:
    with pytest.raises(InputError, match=r"with 'share' drawn, but it has none\. Pass it through loss.prepare"):
        make("mixup").evaluate(nn.Flatten(), first_batch(small_splits))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("entropy:beta=-1", "Expected beta ≥ 0, but got -1"),
        ("mbls:alpha=-1", "Expected alpha ≥ 0 and margin ≥ 0"),
        ("acls:margin=-1", "Expected weights and margin ≥ 0"),
        ("focal:gamma=-1", "Expected gamma ≥ 0"),
        ("flsd:threshold=2", r"threshold in \[0, 1\]"),
        ("dual_focal:gamma=-1", "Expected gamma ≥ 0"),
        ("mdca:beta=-1", "Expected beta ≥ 0"),
        ("mmce:weight=-1", "Expected weight ≥ 0"),
        ("crl:weight=-1", "Expected weight ≥ 0"),
        ("adafocal:bins=0", "Expected bins ≥ 1"),
        ("mixup:alpha=0", "Expected alpha > 0"),
        ("mit:margin=1", r"margin in \[0, 1\)"),
        ("dece:bins=0", "bins ≥ 1"),
        ("meta_calibration:rate=-1", "Expected rate ≥ 0"),
        ("balcal:delta=0", r"delta in \(0, 1\]"),
        ("ar_adals:groups=0", "Expected groups ≥ 1"),
        ("ar_adals:attack=cw,steps=0", "Expected every ≥ 0, steps ≥ 1 and searches ≥ 1, but got 1, 0 and 4"),
        ("calmo:steps=0", "steps ≥ 1"),
        ("margin_tail:eps=-1", "Expected alpha, beta, eps"),
    ],
)
def test_options_without_meaning_are_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make(text)
