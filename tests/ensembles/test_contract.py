"""What every registered ensemble must do; a new one is found here without an edit."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from surefoot.assembly import assemble, splits_of
from surefoot.data.fashion import fashion
from surefoot.ensembles import build_ensemble
from surefoot.errors import InputError, OptionError
from surefoot.experiment import run
from surefoot.method import parse_method, split_methods
from surefoot.models import build_model
from surefoot.optim import build_optimizer
from surefoot.records import RunFolder
from surefoot.registry import ENSEMBLES, LOSSES, MODELS, OPTIMIZERS
from surefoot.schema import MethodSpec, PartSpec, RunSpec, Splits, Tracking
from surefoot.studies.compare import make_spec
from surefoot.trained import measure
from tests.conftest import RunCommand
from tests.runs import content

NAMES = [part.name for part in ENSEMBLES]
SMALL = {"deep": "deep:members=2", "snapshot": "snapshot:cycles=2", "bsam_posterior": "bsam_posterior:samples=3"}
OPTIMIZER = {"bsam_posterior": ("bsam:n_train=320,lr=0.5",)}


class Killed(Exception):
    pass


def optimizers(name: str) -> tuple[str, ...]:
    return OPTIMIZER.get(name, ("sgd", "sam", "csam"))


def method_of(name: str, optimizer: str | None = None) -> str:
    return f"{SMALL.get(name, name)} + {optimizer or optimizers(name)[-1]}"


def spec_on(small_npz: Path | str, method: str, **settings: object) -> RunSpec:
    settings = {"epochs": 3, "batch_size": 30, "model": "mlp:width=8", **settings}
    return make_spec(method, data=f"npz:{small_npz}", **settings)


def nll(folder: RunFolder, split: str = "train") -> float:
    predictions = folder.predictions(split)
    logits, labels = torch.from_numpy(predictions.logits), torch.from_numpy(predictions.labels)
    return nn.functional.cross_entropy(logits.double(), labels).item()


@pytest.fixture(scope="module")
def some_fashion(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Real pictures, standardised as all of them are, but few: 8 steps of 40 make an epoch."""
    whole = fashion()
    arrays = {}
    for name, n in (("train", 320), ("calibration", 100), ("test", 100)):
        split = whole[name]
        arrays[f"x_{name}"], arrays[f"y_{name}"] = split.inputs[:n].numpy(), split.labels[:n].numpy()
    path = tmp_path_factory.mktemp("fashion") / "some.npz"
    np.savez(path, **arrays)
    return f"{path},inputs=raw"


@pytest.mark.parametrize(("name", "optimizer"), [(name, optimizer) for name in NAMES for optimizer in optimizers(name)])
def test_every_ensemble_lowers_its_loss_on_real_pictures(
    name: str, optimizer: str, some_fashion: str, tmp_path: Path
) -> None:
    """32 steps; then the training examples' NLL is lower than before the first."""
    settings = {"epochs": 4, "batch_size": 40, "model": "mlp:width=32", "schedule": "constant"}
    folder = run(spec_on(some_fashion, method_of(name, optimizer), **settings), tmp_path)
    untrained = folder.steps()[0]["train/loss"]
    assert nll(folder) < 0.95 * untrained
    assert nll(folder, "test") < untrained
    assert len([record for record in folder.steps() if "loss" in record]) >= 32


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["cnn:width=2", "mlp:width=8"])
def test_a_killed_run_goes_on_to_the_same_bits(name: str, model: str, small_npz: Path, tmp_path: Path) -> None:
    """Killed in the middle, at the end of a training or a cycle, and at the very end."""
    spec = spec_on(small_npz, method_of(name), model=model)
    whole = content(run(spec, tmp_path / "whole").path)
    n_steps = 9 * build_ensemble(spec.method.ensemble).trainings
    stops = {4, 9, n_steps - 1, n_steps}

    def kill(step: int, n: int, loss: float) -> None:
        assert n == n_steps
        if step in stops:
            stops.discard(step)
            raise Killed

    every = 0 if model.startswith("mlp") else 1e9  # with a checkpoint after every step, or from the last training's end
    for _ in range(len(stops)):
        with pytest.raises(Killed):
            run(spec, tmp_path / "killed", checkpoint_every=every, on_progress=kill)
    run(spec, tmp_path / "killed")
    assert content(tmp_path / "killed") == whole


@pytest.mark.parametrize("name", NAMES)
def test_a_watched_run_is_the_same_and_trackers_see_the_network_in_training(
    name: str, small_npz: Path, tmp_path: Path
) -> None:
    spec = spec_on(small_npz, method_of(name), epochs=2)
    trackers = ("gn_sharpness:every=3,examples=24", "margins:every=3", "objective:every=3", "step_facts:every=3")
    plain = run(spec, tmp_path / "plain")
    watched = run(spec, tmp_path / "watched", tracking=Tracking(trackers))
    for split in ("train", "test"):
        assert np.array_equal(watched.predictions(split).logits, plain.predictions(split).logits)
    seen = [record for record in watched.steps() if "tracker" in record]
    assert {record["tracker"] for record in seen} == {"quality", "gn_sharpness", "margins", "objective", "step_facts"}
    assert not [record for record in seen if "failed" in record]
    later = measure(watched.path, ["gn_sharpness:every=1,examples=24"])
    (last,) = (r for r in seen if r["tracker"] == "gn_sharpness" and r["step"] == later[0]["step"])
    assert later[0]["gn_sharpness/value"] == pytest.approx(last["gn_sharpness/value"], rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_cost_is_counted_in_passes(name: str, small_npz: Path, tmp_path: Path) -> None:
    """Six steps of a two-pass optimizer, times what the ensemble multiplies."""
    factor = {"deep": 2, "batch_ensemble": 4, "rank1": 4, "mimo": 4, "vi": 2}.get(name, 1)
    folder = run(spec_on(small_npz, method_of(name), epochs=2), tmp_path)
    done = folder.done()
    assert done is not None
    assert done["passes"] == 6 * 2 * factor


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["resnet8", "wrn:depth=10,width=1", "vit_tiny:patch=3,depth=1,width=8", "pyramidnet"])
def test_every_ensemble_goes_around_other_networks(name: str, model: str, small_npz: Path) -> None:
    """Assembled, evaluated and differentiated once."""
    if model == "pyramidnet":
        model = "pyramidnet:depth=20,alpha=6"
    spec = spec_on(small_npz, method_of(name), model=model)
    splits = splits_of(spec)
    trainee = assemble(spec, splits, build_ensemble(spec.method.ensemble))
    logits = trainee.model.eval()(splits.test.inputs[:4])
    assert logits.shape == (4, 3)
    logits.logsumexp(1).sum().backward()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["mmce", "mixup", "crl", "adafocal", "ar_adals", "balcal"])
def test_ensembles_combine_with_losses_or_say_why_not(name: str, loss: str, small_npz: Path, tmp_path: Path) -> None:
    refused = {
        "mimo": ("mixup", "crl", "ar_adals", "balcal"),
        "batch_ensemble": ("balcal",),
        "rank1": ("balcal",),
    }
    spec = spec_on(small_npz, f"{loss} + {method_of(name)}", epochs=1)
    if loss in refused.get(name, ()):
        with pytest.raises(InputError, match=f"for {name}, but"):
            run(spec, tmp_path)
        return
    folder = run(spec, tmp_path)
    assert all(np.isfinite(record["loss"]) for record in folder.steps() if "loss" in record)


@pytest.mark.parametrize("name", ["batch_ensemble", "rank1", "vi", "mimo"])
def test_meta_calibration_needs_a_last_layer_of_its_own(name: str, small_npz: Path) -> None:
    spec = spec_on(small_npz, f"meta_calibration + {name}")
    with pytest.raises(InputError, match=f"for {name}, but got"):
        assemble(spec, splits_of(spec), build_ensemble(spec.method.ensemble))


@pytest.mark.parametrize("optimizer", [part.name for part in OPTIMIZERS])
def test_members_that_share_a_network_go_with_every_optimizer(optimizer: str, small_npz: Path, tmp_path: Path) -> None:
    run(spec_on(small_npz, f"batch_ensemble:members=2 + {optimizer}", epochs=1), tmp_path / "whole")
    if OPTIMIZERS[optimizer].options.get("m"):
        run(spec_on(small_npz, f"rank1:members=2 + {optimizer}:m=10", epochs=1), tmp_path / "parts")


@pytest.mark.parametrize("name", ["vi", "rank1", "mc_dropout"])
def test_both_passes_of_a_step_draw_the_same_numbers(name: str, small_npz: Path, tmp_path: Path) -> None:
    """With a climb of zero the second pass is the first one: SAM is SGD, whatever was drawn."""
    weights = []
    for optimizer in ("sgd", "sam:rho=0"):
        folder = run(spec_on(small_npz, f"{name} + {optimizer}"), tmp_path / optimizer)
        (kept,) = folder.checkpoints.glob("step-*")
        weights.append(load_file(kept / "model.safetensors"))
    for key, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][key], rtol=1e-5, atol=1e-6)


def test_the_test_of_shared_numbers_can_fail(small_npz: Path, tmp_path: Path) -> None:
    one, other = (
        run(spec_on(small_npz, "mc_dropout + sgd", seed=seed), tmp_path / str(seed)).predictions("test")
        for seed in (0, 1)
    )
    assert not np.allclose(one.logits, other.logits, atol=1e-3)


def test_ensembles_of_one_are_single_networks(small_npz: Path, tmp_path: Path) -> None:
    def logits(method: str, **settings: object) -> np.ndarray:
        where = tmp_path / method.replace(" ", "")
        return run(spec_on(small_npz, method, **settings), where).predictions("test").logits

    single = logits("csam")
    assert np.array_equal(logits("deep:members=1 + csam"), single)
    assert np.array_equal(logits("snapshot:cycles=1 + csam"), single)
    constant = logits("sgd", schedule="constant")
    assert np.array_equal(logits("swa:start=1,lr=1 + sgd"), constant)
    shuffled = logits("mimo:members=1,repetitions=1 + sgd", schedule="constant")
    log_probs = torch.from_numpy(constant).log_softmax(-1).numpy()
    np.testing.assert_allclose(shuffled, log_probs, rtol=1e-3, atol=1e-4)


def test_members_of_a_deep_ensemble_are_runs_of_their_own(small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, "deep:members=3 + sgd", model="cnn:width=2")
    folder = run(spec, tmp_path / "deep")
    (kept,) = folder.checkpoints.glob("step-*")
    files = sorted(kept.glob("member-*.safetensors"))
    assert len(files) == 3
    splits = splits_of(spec)
    probs = []
    for file in files:
        network = build_model(spec.model, splits)
        network.load_state_dict(load_file(file))
        probs.append(network.eval()(splits.test.inputs).softmax(-1).detach())
    mean = torch.stack(probs).mean(0)
    found = torch.from_numpy(folder.predictions("test").logits)
    torch.testing.assert_close(found.softmax(-1), mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.exp(), mean, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(probs[0], probs[1], atol=1e-3)
    alone = run(dataclasses.replace(spec, method=parse_method("sgd")), tmp_path / "alone")
    (own,) = alone.checkpoints.glob("step-*")
    first = load_file(files[0])
    assert all(torch.equal(value, first[name]) for name, value in load_file(own / "model.safetensors").items())
    assert {record["member"] for record in folder.steps()} == {0, 1, 2}
    assert "member" not in alone.steps()[0]


def test_averaged_weights_are_those_of_the_epochs(small_npz: Path, tmp_path: Path) -> None:
    """The same run's weights after each epoch, taken down from its checkpoints, and their mean."""
    spec = spec_on(small_npz, "swa:start=0.5 + sgd", epochs=4)
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def take(step: int, n_steps: int, loss: float) -> None:
        for kept in (tmp_path / "checkpoint").glob("step-*"):
            seen[int(kept.name.removeprefix("step-"))] = load_file(kept / "model.safetensors")

    folder = run(spec, tmp_path, checkpoint_every=0, on_progress=take)
    (kept,) = folder.checkpoints.glob("step-*")
    seen[12] = load_file(kept / "model.safetensors")
    mean = load_file(kept / "member-0000.safetensors")
    for name, value in mean.items():
        torch.testing.assert_close(value, (seen[6][name] + seen[9][name] + seen[12][name]) / 3)
    rates = [record["lr"] for record in folder.steps() if "lr" in record]
    assert rates == pytest.approx([0.1] * 6 + [0.05] * 6)


def test_factors_of_members_have_a_learning_rate_of_their_own_and_no_decay(small_splits: Splits) -> None:
    method = parse_method("batch_ensemble:fast_lr=0.5 + csam:base=sgd,lr=0.2")
    ensemble = build_ensemble(method.ensemble)
    plain = build_model(MODELS.parse("cnn:width=2"), small_splits)
    model = ensemble.wrap(plain, torch.Generator())
    groups = build_optimizer(method, model).param_groups
    told = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    assert len(told) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        kind = name.rpartition(".")[2]
        if kind in ("r", "s"):
            assert told[id(parameter)] == (0.1, 0.0)
        elif parameter.shape == (4, 3):  # the members' biases
            assert told[id(parameter)] == (0.1, 5e-4)
        else:
            assert told[id(parameter)] == (0.2, 5e-4)


@pytest.mark.parametrize(
    ("method", "settings", "says"),
    [
        ("deep:members=0 + sgd", {}, "Expected members ≥ 1, but got 0"),
        ("mc_dropout:p=0 + sgd", {}, r"Expected p in \(0, 1\), but got 0"),
        ("mc_dropout:samples=0 + sgd", {}, "Expected samples ≥ 1"),
        ("snapshot:cycles=100 + sgd", {}, "Expected at most one cycle per step, but got 100 for 9"),
        ("snapshot:cycles=3,keep=4 + sgd", {}, "Expected keep in 1…3"),
        ("swa:start=2 + sgd", {}, r"Expected start in \[0, 1\]"),
        ("vi:prior_std=0 + sgd", {}, "Expected std > 0 and prior_std > 0"),
        ("vi:anneal=2 + sgd", {}, r"Expected anneal in \[0, 1\]"),
        ("rank1:anneal=-1 + sgd", {}, r"Expected anneal in \[0, 1\]"),
        ("batch_ensemble:std=-1 + sgd", {}, "Expected std ≥ 0 and fast_lr ≥ 0"),
        ("bsam_posterior + sam", {}, "Expected bsam as the optimizer of bsam_posterior, but got SAM"),
        ("mc_dropout + sgd", {"model": "mlp:depth=0"}, "Expected a place for dropout"),
    ],
)
def test_what_cannot_work_is_refused_before_it_starts(
    method: str, settings: dict[str, object], says: str, small_npz: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=says):
        run(spec_on(small_npz, method, **settings), tmp_path / "run")
    assert not (tmp_path / "run" / "spec.json").exists()


def test_text_goes_with_all_but_mimo(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for split in ("train", "calibration", "test"):
        arrays[f"x_{split}"] = rng.integers(0, 20, (24, 6)).astype(np.float32)
        arrays[f"y_{split}"] = np.arange(24) % 3
    np.savez(tmp_path / "text.npz", **arrays)
    for name in NAMES:
        data = f"{tmp_path / 'text.npz'},inputs=raw"
        spec = spec_on(data, method_of(name), model="text_transformer:width=8,heads=2,vocabulary=20")
        spec = dataclasses.replace(spec, epochs=1, batch_size=12)
        if name == "mimo":
            with pytest.raises(InputError, match="the network reads tokens"):
                run(spec, tmp_path / name)
        else:
            ensemble = build_ensemble(spec.method.ensemble)
            if name != "snapshot":
                assert assemble(spec, splits_of(spec), ensemble).model is not None


def test_methods_are_read_with_their_ensemble() -> None:
    text = (
        "sgd,deep:members=3 + sgd,focal:gamma=3 + batch_ensemble:members=2,init=signs + csam:rho=0.1,mc_dropout + csam"
    )
    methods = [parse_method(piece) for piece in split_methods(text)]
    assert [method.ensemble.name if method.ensemble else None for method in methods] == [
        None,
        "deep",
        "batch_ensemble",
        "mc_dropout",
    ]
    assert methods[2].name == "focal + batch_ensemble + csam"
    assert methods[2].options["init"] == "signs"
    assert parse_method("bsam_posterior").optimizer.name == "bsam"
    with pytest.raises(InputError, match="at most one ensemble"):
        parse_method("deep + swa")
    with pytest.raises(OptionError, match=r"Unknown option 'member' for 'deep'.*Did you mean 'members'"):
        parse_method("deep:member=3")
    names = [part.name for kind in (ENSEMBLES, LOSSES, OPTIMIZERS) for part in kind]
    assert len(names) == len(set(names))


def test_a_spec_with_or_without_an_ensemble_can_be_read_back() -> None:
    parts = MethodSpec("sgd", PartSpec("ce"), PartSpec("sgd", {"lr": 0.1})), PartSpec("npz"), PartSpec("mlp")
    spec = RunSpec(*parts)
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    other = dataclasses.replace(spec, method=parse_method("deep + sgd"))
    assert RunSpec.from_json(json.loads(json.dumps(other.to_json()))) == other
    assert other.run_id("f", "0.1.0") != spec.run_id("f", "0.1.0")


def test_ensembles_on_the_command_line_and_on_the_page(
    run_command: RunCommand, small_npz: Path, tmp_path: Path
) -> None:
    methods = "sgd,deep:members=2 + sgd,mc_dropout + csam"
    common = ("--data", f"npz:{small_npz}", "--model", "mlp:width=4", "--epochs", "1", "--batch-size", "30")
    done = run_command("compare", "--methods", methods, "--seeds", "1", "--jobs", "1", *common, "--out", "runs")
    assert done.returncode == 0, done.stderr
    assert "mc_dropout + csam" in done.stdout
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "deep:members=2" in page
    assert "mc_dropout:p=0.1,samples=5,where=auto" in page
    trained = run_command("train", "--method", "focal + swa + sam", *common, "--out", "one")
    assert trained.returncode == 0, trained.stderr
    listed = run_command("list", "ensembles")
    assert all(name in listed.stdout for name in NAMES)
