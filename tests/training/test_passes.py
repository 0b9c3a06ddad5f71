"""Steps in lower precision, in pieces and compiled: the same training, to what each of them promises."""

from functools import partial

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.records import RunFolder

SMALL = {"data": "digits", "model": "cnn", "epochs": 1, "method": "csam"}


def logits(path):
    return RunFolder(path).predictions("test").logits


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "run"
    sf.train(out=path, **SMALL)
    return path


def test_products_in_bf16_leave_weights_in_float32(plain, tmp_path, monkeypatch):
    seen = set()
    product = torch.nn.functional.linear

    def watch(inputs, *rest):
        found = product(inputs, *rest)
        if torch.is_grad_enabled():
            seen.add(found.dtype)
        return found

    monkeypatch.setattr(torch.nn.functional, "linear", watch)
    run = sf.train(out=tmp_path / "run", precision="bf16", **SMALL)
    assert seen == {torch.bfloat16}
    assert {weight.dtype for weight in run.model().parameters()} == {torch.float32}
    difference = np.abs(logits(plain) - logits(tmp_path / "run")).mean()
    assert 0 < difference < 0.1


@pytest.mark.parametrize("pieces", [2, 5])
def test_pieces_add_up_to_the_batch(pieces, tmp_path):
    """Without BatchNorm, which normalises by the piece."""
    small = SMALL | {"model": "mlp:width=16"}
    sf.train(out=tmp_path / "whole", **small)
    sf.train(out=tmp_path / "pieces", accumulate=pieces, **small)
    np.testing.assert_allclose(logits(tmp_path / "whole"), logits(tmp_path / "pieces"), atol=1e-4)


def test_fewer_examples_are_in_memory_at_once(tmp_path, monkeypatch):
    sizes = []
    forward = torch.nn.Linear.forward

    def watch(layer, inputs):
        if torch.is_grad_enabled():
            sizes.append(len(inputs))
        return forward(layer, inputs)

    monkeypatch.setattr(torch.nn.Linear, "forward", watch)
    sf.train(out=tmp_path / "run", accumulate=4, **SMALL | {"batch_size": 64})
    assert max(sizes) <= 16


def test_a_compiled_network_trains_alike(plain, tmp_path, monkeypatch):
    """With a backend that needs no compiler; what is compiled is what torch.compile traces."""
    traced = []

    def trace(module, inputs):
        traced.append(module)
        return module.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=trace))
    run = sf.train(out=tmp_path / "run", compile=True, **SMALL)
    assert traced
    np.testing.assert_allclose(logits(plain), logits(tmp_path / "run"), atol=1e-4)
    assert not any("_orig_mod" in name for name in run.model().state_dict())
