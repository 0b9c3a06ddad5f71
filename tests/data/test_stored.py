"""Inputs that stay in their files are the same as those in memory, row by row and run by run."""

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

import surefoot as sf
from surefoot.data import hf, image_folder
from surefoot.data.stored import Stored, batches_of, set_load_workers
from surefoot.data.streamed import Streamed
from surefoot.errors import InputError
from surefoot.moment import Horizon
from surefoot.ranks import ALONE
from surefoot.records import RunFolder
from surefoot.training.feed import Feed
from tests.data.pictures import write_folders, write_parquet

SETTINGS = {"model": "mlp:width=8", "epochs": 2, "batch_size": 16, "augment": "flip", "keep_checkpoints": 1}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_folders(tmp_path_factory.mktemp("pictures"))


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("saved"))


def test_a_stream_has_the_rows_of_the_data_set(saved):
    here, there = (hf(name=str(saved), streaming=streamed) for streamed in (False, True))
    assert isinstance(there.train.inputs, Streamed)
    assert there.input_shape == here.input_shape
    for split in ("train", "calibration", "test"):
        assert torch.equal(there[split].labels, here[split].labels)
        np.testing.assert_allclose(
            there[split].inputs[:], here[split].inputs, atol=1e-5
        )  # the scaling is summed otherwise
    with pytest.raises(InputError, match="Expected inputs in the order in which they are streamed"):
        there.train.inputs[torch.tensor([3, 1])]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_of_a_stream_has_every_example_once(saved, workers):
    set_load_workers(workers)
    train = hf(name=str(saved), streaming=True).train
    length = Horizon.of(len(train), epochs=1, batch_size=16)
    whole, other = (list(Feed(train, length, ALONE).epoch(seed, 0)) for seed in (0, 1))
    places = torch.cat([fed.rows for fed in whole])
    assert places.sort().values.tolist() == list(range(len(train)))
    assert places.tolist() != torch.cat([fed.rows for fed in other]).tolist()
    everything = train.inputs[:]
    assert all(torch.equal(fed.inputs, everything[fed.rows]) for fed in whole)
    rest = list(Feed(train, length, ALONE).epoch(0, 0, position=2))
    assert [fed.rows.tolist() for fed in rest] == [fed.rows.tolist() for fed in whole[2:]]


def test_a_run_on_a_stream_goes_on_to_the_same_bits(saved, tmp_path):
    settings = {"model": "mlp:width=8", "epochs": 2, "batch_size": 16, "augment": "flip", "checkpoint_every": 0}
    settings |= {"data": f"hf:name={saved},streaming=true"}
    sf.train(out=tmp_path / "whole", load_workers=0, **settings)
    stop = f"tests.training.stopping:Stop:step=5,marker={tmp_path / 'stopped'}"
    with pytest.raises(KeyboardInterrupt):
        sf.train(out=tmp_path / "halved", track=stop, **settings)
    assert RunFolder(tmp_path / "halved").done() is None
    sf.train(out=tmp_path / "halved", load_workers=2, **settings)
    whole, halved = (RunFolder(tmp_path / name).predictions("test").logits for name in ("whole", "halved"))
    assert np.array_equal(whole, halved)
