"""One rule for batches: an epoch's are of one size, so no step and no moment is unlike the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import surefoot.experiment as experiment
from surefoot.batches import batches, count_batches
from surefoot.ensembles.swa import update_batch_norm
from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.losses._base import Batch, Scene
from surefoot.moment import Horizon
from surefoot.optim import Parts
from surefoot.optim.sam import SAM
from surefoot.records import RunFolder
from surefoot.schema import Tracking
from surefoot.studies.compare import make_spec
from tests.conftest import small_arrays


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 128, 1000])
def test_batches_are_all_there_and_of_one_size(size: int) -> None:
    for n in range(1, 300):
        found = list(batches(n, size))
        assert [i for part in found for i in range(n)[part]] == list(range(n))
        sizes = [part.stop - part.start for part in found]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) > 1 or size == 1 or n == 1
        assert max(sizes) <= max(size, 3 if size == 2 else 0)
        if size != 2:
            assert len(sizes) == -(-n // size) == count_batches(n, size)


def test_nothing_to_divide_is_refused() -> None:
    with pytest.raises(InputError, match="Expected examples ≥ 1 and batch size ≥ 1, but got 0 and 16"):
        count_batches(0, 16)


def test_the_length_of_a_run_is_that_of_whole_batches() -> None:
    assert Horizon.of(5000, epochs=2, batch_size=128).n_steps == 80
    assert Horizon.of(5000, epochs=2, batch_size=128).batch_size == 125
    assert Horizon.of(17, epochs=1, batch_size=16).steps_per_epoch == 2  # none of the examples is left out


METHODS = ["sgd", "sam:m=4", "meta_calibration", "deep:members=2", "snapshot", "swa", "mimo", "batch_ensemble", "crl"]


@pytest.mark.parametrize("method", METHODS)
def test_no_step_of_a_training_is_made_of_what_is_left_over(
    method: str, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """90 examples in batches of 29: not 29, 29, 29 and 3."""
    spec = make_spec(method, data=f"npz:{small_npz}", model="mlp:width=8", epochs=2, batch_size=29)
    sizes, seen = [], []

    def spy(trainee: experiment.Trainee, *args: object, **settings: object) -> None:
        prepare = trainee.loss.prepare

        def look(model: nn.Module, batch: Batch, scene: Scene) -> Batch:
            sizes.append(len(batch))
            seen.extend(batch.indices.tolist())
            return prepare(model, batch, scene)

        monkeypatch.setattr(trainee.loss, "prepare", look)
        fit(trainee, *args, **settings)  # type: ignore[arg-type]

    fit = experiment.fit
    monkeypatch.setattr(experiment, "fit", spy)
    run(spec, tmp_path / "run")
    trainings = 2 if method.startswith("deep") else 1
    assert sizes == [22, 23, 22, 23] * 2 * trainings
    assert np.bincount(seen).tolist() == [2 * trainings] * 90


def test_a_moment_behind_an_epochs_last_batch_is_like_any_other(tmp_path: Path) -> None:
    """130 examples in batches of 64 would end every epoch with a step of two examples."""
    np.savez(tmp_path / "data.npz", **small_arrays(n_train=130))
    rate = {"method": "sgd:lr=0.5,momentum=0", "schedule": "constant"}
    spec = make_spec(**rate, data=f"npz:{tmp_path}/data.npz", model="mlp:width=8", epochs=60, batch_size=64)
    folder = run(spec, tmp_path / "run", tracking=Tracking(("quality:every=1",)))
    losses = [record["train/loss"] for record in folder.steps() if record.get("tracker") == "quality"]
    change = np.diff(losses)[30:].reshape(-1, 3)  # three steps an epoch, the first ten epochs left out
    moved = np.abs(change).mean(0)
    assert moved.max() < 3 * moved.min()


@pytest.mark.parametrize("n", [33, 17, 3])
def test_no_part_of_a_batch_climbs_on_its_own_example(n: int) -> None:
    """33 examples in parts of 16: not 16, 16 and 1."""
    x, w, asked = torch.randn(n), nn.Parameter(torch.tensor([3.0])), []

    def losses(part: slice) -> torch.Tensor:
        asked.append(len(x[part]))
        return (w * x[part]) ** 2

    SAM(torch.optim.SGD([w], lr=0.1), rho=0.1, m=min(16, n - 1)).step(Parts(losses, n=n))
    assert max(asked) - min(asked) <= 1
    assert min(asked) > 1


def test_statistics_of_averaged_weights_count_every_example_once() -> None:
    x = torch.randn(130, 4) + torch.arange(130)[:, None] / 10
    model = nn.Sequential(nn.BatchNorm1d(4, momentum=0.3))
    update_batch_norm(model, [x[:64], x[64:128], x[128:]])
    torch.testing.assert_close(model[0].running_mean, x.mean(0))
    assert model[0].momentum == 0.3


def test_batch_sharpness_is_that_of_the_batches_of_the_training(small_npz: Path, tmp_path: Path) -> None:
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=1, batch_size=29)
    folder = run(spec, tmp_path / "run", tracking=Tracking(("batch_sharpness:every=1,batches=2",)))
    found = [record for record in folder.steps() if record.get("tracker") == "batch_sharpness"]
    assert [record["batch_sharpness/batch_size"] for record in found] == [23] * 5


def test_a_folder_from_before_a_rule_changed_is_not_taken_for_the_run_of_today(
    small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=1, batch_size=29)
    with monkeypatch.context() as before:
        before.setattr(experiment, "EDITION", experiment.EDITION - 1)
        run(spec, tmp_path / "run")
    old = RunFolder(tmp_path / "run").run_id
    assert experiment.run_id(spec) != old
    with pytest.raises(InputError, match=f"it holds another one \\({old}\\)"):
        run(spec, tmp_path / "run")
