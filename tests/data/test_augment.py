"""Augmentations: each against a slow twin, and all of them as part of a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.assembly import assemble, splits_of
from surefoot.data._arrays import splits_from_arrays
from surefoot.data.augment import black_pixel, build_augment
from surefoot.ensembles import build_ensemble
from surefoot.errors import InputError, OptionError, UnknownNameError
from surefoot.experiment import run, run_id
from surefoot.losses._mixing import beta_source
from surefoot.method import read_augment
from surefoot.records import RunFolder
from surefoot.registry import AUGMENTATIONS
from surefoot.schema import RunSpec, Splits
from surefoot.seeding import generator
from surefoot.studies.compare import make_spec
from surefoot.training import fit
from tests.conftest import RunCommand
from tests.oracles import augment as slow
from tests.runs import content

N, SHAPE = 40, (3, 7, 5)
BLACK = torch.tensor([-1.0, -2.0, -3.0]).view(3, 1, 1)


@pytest.fixture
def images() -> Tensor:
    return torch.randn(N, *SHAPE, generator=generator(0, "images"))


def apply(text: str, images: Tensor, seed: int = 0) -> Tensor:
    changed: Tensor = AUGMENTATIONS.build(AUGMENTATIONS.parse(text))(images, BLACK, generator(seed, "augment"))
    return changed


def one_by_one(images: Tensor, change: Callable[..., Any], *draws: Tensor) -> Tensor:
    rows = zip(images.numpy(), *(draw.tolist() for draw in draws), strict=True)
    return torch.from_numpy(np.stack([change(image, *drawn) for image, *drawn in rows]))


@pytest.mark.parametrize("padding", [1, 4, 9])
def test_crop_is_its_slow_twin(padding: int, images: Tensor) -> None:
    top, left = torch.randint(2 * padding + 1, (2, N), generator=generator(0, "augment"))
    black = BLACK.flatten().numpy()
    expected = one_by_one(images, lambda image, y, x: slow.crop(image, black, padding, y, x), top, left)
    assert torch.equal(apply(f"crop:padding={padding}", images), expected)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_flip_is_its_slow_twin(p: float, images: Tensor) -> None:
    chosen = torch.rand(N, generator=generator(0, "augment")) < p
    assert torch.equal(apply(f"flip:p={p}", images), one_by_one(images, slow.flip, chosen))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_cutout_is_its_slow_twin(size: int, images: Tensor) -> None:
    draw = generator(0, "augment")
    y, x = (torch.randint(length, (N, 1), generator=draw)[:, 0] for length in SHAPE[1:])
    expected = one_by_one(images, lambda image, i, j: slow.cutout(image, size, i, j), y, x)
    assert torch.equal(apply(f"cutout:size={size}", images), expected)


@pytest.mark.parametrize("text", ["crop:padding=0", "flip:p=0", "cutout:size=0"])
def test_nothing_to_do_changes_nothing(text: str, images: Tensor) -> None:
    assert torch.equal(apply(text, images), images)


@pytest.mark.parametrize("name", [part.name for part in AUGMENTATIONS])
def test_every_augmentation_draws_from_its_generator_alone_and_leaves_its_input(name: str) -> None:
    images = torch.randn(N, 3, 32, 32, generator=generator(0, "images"))
    before, state = images.clone(), torch.get_rng_state()
    changed = apply(name, images)
    assert (changed.shape, changed.dtype) == (images.shape, images.dtype)
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(apply(name, images), changed)
    assert not torch.equal(apply(name, images, seed=1), changed)


def test_all_places_of_a_crop_are_equally_likely() -> None:
    """One bright pixel in the middle says where the window was: 9 places, χ² with 8 degrees of freedom."""
    n = 9000
    images = torch.zeros(n, 3, 3, 3)
    images[:, :, 1, 1] = 1
    counts = apply("crop:padding=1", images)[:, 0].flatten(1).argmax(1).bincount(minlength=9)
    assert ((counts - n / 9) ** 2 / (n / 9)).sum() < 26.1  # the 99.9 % quantile


def test_the_frame_is_a_black_pixel() -> None:
    pixels = (torch.arange(5 * 6 * 6 * 3) % 250).reshape(5, 6, 6, 3).to(torch.uint8).numpy()
    arrays = {"x_train": pixels, "y_train": np.arange(5) % 2, "x_test": pixels, "y_test": np.arange(5) % 2}
    splits = splits_from_arrays({**arrays, "x_calibration": pixels, "y_calibration": np.arange(5) % 2}, origin="made")
    assert pixels[0, 0, 0, 0] == 0
    assert black_pixel(splits)[0, 0, 0] == splits.train.inputs[0, 0, 0, 0]
    assert torch.equal(black_pixel(dataclasses.replace(splits, scaling=None)), torch.zeros(3, 1, 1))
    cropped = build_augment(read_augment("crop:padding=9"), splits)(
        splits.train.inputs[:1].expand(99, -1, -1, -1), generator(0, "x")
    )
    assert any(torch.equal(image, black_pixel(splits).expand(3, 6, 6)) for image in cropped)


def test_words_are_read_in_their_order() -> None:
    assert read_augment("none") == read_augment("") == ()
    assert read_augment("standard") == read_augment("crop + flip") == read_augment("crop:padding=4+flip:p=0.5")
    assert [part.name for part in read_augment("cutout:8 + standard")] == ["cutout", "crop", "flip"]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("crop:padding=-1", OptionError, "padding ≥ 0, but got -1"),
        ("flip:p=1.5", OptionError, "p between 0 and 1, but got 1.5"),
        ("cutout:size=-2", OptionError, "size ≥ 0, but got -2"),
        ("crpo", UnknownNameError, "Unknown augmentation 'crpo'. Did you mean 'crop'"),
    ],
)
def test_what_cannot_be_is_refused(text: str, error: type[Exception], says: str, small_splits: Splits) -> None:
    with pytest.raises(error, match=says):
        build_augment(read_augment(text), small_splits)


def spec_on(small_npz: Path, method: str = "sgd", **settings: Any) -> RunSpec:
    settings = {"epochs": 2, "batch_size": 16, "model": "cnn:width=2", "augment": "standard + cutout:2", **settings}
    return make_spec(method, data=f"npz:{small_npz}", **settings)


def test_inputs_that_are_no_images_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 2
    np.savez(tmp_path / "table.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(InputError, match=r"Expected images .* but got inputs of shape \(4,\)\. Leave --augment out\."):
        run(spec_on(tmp_path / "table.npz", model="mlp"), tmp_path / "run")
    assert not (tmp_path / "run" / "spec.json").exists()


def test_augmentation_is_part_of_a_runs_name(small_npz: Path) -> None:
    plain = spec_on(small_npz, augment="none")
    augmented = spec_on(small_npz)
    assert RunSpec.from_json(json.loads(json.dumps(augmented.to_json()))) == augmented
    assert run_id(plain) != run_id(augmented) != run_id(spec_on(small_npz, augment="standard"))


@pytest.mark.parametrize("method", ["sgd", "mixup + csam"])
def test_an_interrupted_run_draws_the_same(method: str, small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, method)
    run(spec, tmp_path / "whole")

    def stop(step: int, n_steps: int, loss: float) -> None:
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path / "stopped", checkpoint_every=0, on_progress=stop)
    run(spec, tmp_path / "stopped")
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")
    run(spec_on(small_npz, method, augment="none"), tmp_path / "plain")
    weights = "predictions/test.npz"
    assert content(tmp_path / "plain")[weights] != content(tmp_path / "whole")[weights]


def what_the_network_saw(spec: RunSpec, folder: Path) -> list[Tensor]:
    """Train, and keep the inputs of every pass in training mode."""
    splits, seen = splits_of(spec), []
    trainee = assemble(spec, splits, build_ensemble(spec.method.ensemble))
    trainee.model.register_forward_pre_hook(
        lambda module, args: seen.append(args[0].clone()) if module.training else None
    )
    fit(trainee, splits, RunFolder(folder), epochs=spec.epochs, batch_size=spec.batch_size, seed=spec.seed)
    return seen


def test_both_passes_see_the_same_augmented_inputs_and_other_ones_in_every_epoch(
    small_npz: Path, tmp_path: Path
) -> None:
    spec = spec_on(small_npz, "sam", batch_size=90)
    first, again, second, _ = what_the_network_saw(spec, tmp_path)
    assert torch.equal(first, again)
    splits = splits_of(spec)
    order = [torch.randperm(90, generator=generator(spec.seed, f"order/{epoch}")) for epoch in range(2)]
    for step, inputs in enumerate((first, second)):
        raw = splits.train.inputs[order[step]]
        assert torch.equal(inputs, build_augment(spec.augment, splits)(raw, generator(spec.seed, f"augment/{step}")))
        assert not torch.equal(inputs, raw)


def test_mixup_mixes_what_was_augmented(small_npz: Path, tmp_path: Path) -> None:
    """The draws of mixup are the same with and without augmentation, and both passes see the same mixture."""
    spec = spec_on(small_npz, "mixup + sam", batch_size=90, epochs=1)
    first, again = what_the_network_saw(spec, tmp_path)
    assert torch.equal(first, again)
    splits = splits_of(spec)
    raw = splits.train.inputs[torch.randperm(90, generator=generator(spec.seed, "order/0"))]
    inputs = build_augment(spec.augment, splits)(raw, generator(spec.seed, "augment/0"))
    draw = generator(spec.seed, "loss/0")
    share = torch.tensor(beta_source(draw).beta(1.0, 1.0), dtype=torch.float32)
    partners = inputs[torch.randperm(90, generator=draw)]
    assert torch.equal(first, share * inputs + (1 - share) * partners)


def test_the_command_line_augments(run_command: RunCommand, small_npz: Path, tmp_path: Path) -> None:
    words = ("--data", f"npz:{small_npz}", "--model", "cnn:width=2", "--epochs", "1", "--augment", "crop:1 + flip")
    assert run_command("train", "--out", "run", *words).returncode == 0
    assert RunFolder(tmp_path / "run").spec.augmentation == "crop:padding=1 + flip:p=0.5"
    done = run_command("compare", "--methods", "sgd", "--seeds", "1", "--jobs", "1", *words)
    assert done.returncode == 0, done.stderr
    assert "augmented by crop:padding=1 + flip:p=0.5" in (tmp_path / "surefoot-runs" / "report.html").read_text()
    done = run_command("train", "--out", "other", *words[:-1], "crpo")
    assert (done.returncode, "Did you mean 'crop'" in done.stderr) == (2, True)
