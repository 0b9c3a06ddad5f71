"""Inputs that stay in their files are the same as those in memory, row by row and run by run."""

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

import surefoot as sf
from surefoot.data import hf, image_folder
from surefoot.data.stored import Stored, batches_of, set_load_workers
from surefoot.errors import InputError
from surefoot.records import RunFolder

SETTINGS = {"model": "mlp:width=8", "epochs": 2, "batch_size": 16, "augment": "flip", "keep_checkpoints": 1}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Two classes of small pictures, one a little brighter."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for part, n in (("train", 40), ("test", 10)):
        for label, name in enumerate(("dark", "light")):
            folder = root / part / name
            folder.mkdir(parents=True)
            for number in range(n):
                pixels = rng.integers(0, 200, (8, 8, 3)) + 40 * label
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    return root


@pytest.fixture(autouse=True)
def _no_workers():
    yield
    set_load_workers(0)


def test_rows_are_those_in_memory(pictures):
    here = image_folder(path=str(pictures), size=8)
    there = image_folder(path=str(pictures), size=8, in_memory=False)
    assert isinstance(there.train.inputs, Stored)
    assert there.input_shape == here.input_shape == (3, 8, 8)
    assert there.scaling == here.scaling
    for split in ("train", "calibration", "test"):
        assert torch.equal(there[split].labels, here[split].labels)
        for rows in (slice(3, 7), torch.tensor([5, 0]), slice(None)):
            assert torch.equal(there[split].inputs[rows], here[split].inputs[rows])
        assert torch.equal(there[split].first(4).inputs.to("cpu"), here[split].inputs[:4])


def test_a_folder_is_known_by_its_names_and_sizes(pictures, tmp_path):
    first = image_folder(path=str(pictures), size=8, in_memory=False).fingerprint
    assert image_folder(path=str(pictures), size=8, in_memory=False).fingerprint == first
    assert image_folder(path=str(pictures), size=4, in_memory=False).fingerprint != first
    assert image_folder(path=str(pictures), size=8, n_train=30, in_memory=False).fingerprint != first


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(pictures, workers):
    set_load_workers(workers)
    inputs = image_folder(path=str(pictures), size=8, in_memory=False).train.inputs
    parts = [torch.tensor([4, 2]), torch.tensor([0]), slice(1, 3)]
    state = torch.get_rng_state()
    found = list(batches_of(inputs, parts))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, inputs[rows]) for each, rows in zip(found, parts, strict=True))


def test_a_run_is_the_same_from_memory_from_files_and_with_workers(pictures, tmp_path):
    for name, how in {"memory": "", "files": ",in_memory=false", "workers": ",in_memory=false"}.items():
        data = f"image_folder:path={pictures},size=8{how}"
        workers = 2 if name == "workers" else 0
        sf.train(out=tmp_path / name, method="mc_dropout + csam", data=data, load_workers=workers, **SETTINGS)
    memory, files, workers = (RunFolder(tmp_path / name) for name in ("memory", "files", "workers"))
    for other in (files, workers):
        assert np.array_equal(memory.predictions("test").logits, other.predictions("test").logits)
    assert files.run_id == workers.run_id


def test_a_run_goes_on_in_the_middle_of_an_epoch(pictures, tmp_path):
    settings = {**SETTINGS, "data": f"image_folder:path={pictures},size=8,in_memory=false", "checkpoint_every": 0}
    sf.train(out=tmp_path / "whole", **settings)
    stop = f"tests.training.stopping:Stop:step=6,marker={tmp_path / 'stopped'}"
    with pytest.raises(KeyboardInterrupt):
        sf.train(out=tmp_path / "halved", track=stop, **settings)
    assert RunFolder(tmp_path / "halved").done() is None
    sf.train(out=tmp_path / "halved", **settings)
    whole, halved = (RunFolder(tmp_path / name).predictions("test").logits for name in ("whole", "halved"))
    assert np.array_equal(whole, halved)


def test_what_needs_all_inputs_is_refused(pictures):
    splits = image_folder(path=str(pictures), size=8, in_memory=False)
    with pytest.raises(InputError, match=r"Expected all inputs in memory for torch\.cat"):
        torch.cat([splits.train.inputs])
    with pytest.raises(InputError, match=r"Expected all inputs in memory for inputs\.amin"):
        splits.train.inputs.amin()
    with pytest.raises(InputError, match="Expected --load-workers ≥ 0, but got -1"):
        set_load_workers(-1)


def test_pictures_of_the_library_datasets_stay_on_disk(tmp_path):
    rng = np.random.default_rng(0)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    parts = {}
    for part, n in (("train", 30), ("test", 10)):
        rows = {
            "image": [Image.fromarray(rng.integers(0, 255, (6, 6, 3), np.uint8)) for _ in range(n)],
            "label": [number % 2 for number in range(n)],
        }
        parts[part] = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    here, there = (hf(name=str(tmp_path / "saved"), in_memory=kept) for kept in (True, False))
    assert isinstance(there.train.inputs, Stored)
    assert torch.equal(there.train.inputs[:], here.train.inputs)
    set_load_workers(2)
    assert torch.equal(torch.cat(list(batches_of(there.test.inputs, [slice(0, 4), slice(4, 10)]))), here.test.inputs)
