from __future__ import annotations

import pytest
import torch
from torch import nn

from surefoot.errors import InputError
from surefoot.models import build_model
from surefoot.registry import MODELS
from surefoot.schema import PartSpec, Splits
from surefoot.seeding import seed_everything


@pytest.mark.parametrize("name", [part.name for part in MODELS])
def test_contract(name: str, small_splits: Splits) -> None:
    def make() -> nn.Module:
        seed_everything(0, "init")
        return build_model(MODELS.parse(name), small_splits)

    model, twin = make(), make()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    logits = model(small_splits.train.inputs[:8])
    assert logits.shape == (8, 3)
    logits.logsumexp(1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_parameter_counts() -> None:
    mlp = MODELS.build(MODELS.parse("mlp:activation=tanh"), (3, 32, 32), 100)
    assert sum(parameter.numel() for parameter in mlp.parameters()) == 674_900


def test_a_users_net_without_arguments(tmp_path, monkeypatch, small_splits: Splits) -> None:
    (tmp_path / "my_models.py").write_text(
        "from torch import nn\n"
        "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))\n"
        "def wrong_out():\n    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))\n"
        "def wrong_in(shape, k):\n    return nn.Sequential(nn.Flatten(), nn.Linear(35, k))\n"
        "def nothing():\n    return None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(build_model(PartSpec("my_models:make"), small_splits), nn.Module)
    for name, says in (
        ("wrong_out", r"3 logits per example, but two examples gave \(2, 4\)"),
        ("wrong_in", r"inputs of shape \(1, 6, 6\), but it failed"),
        ("nothing", "nn.Module, but got NoneType"),
    ):
        with pytest.raises(InputError, match=says):
            build_model(PartSpec(f"my_models:{name}"), small_splits)


def test_cnn_needs_images() -> None:
    with pytest.raises(InputError, match="Use --model mlp"):
        MODELS.build(MODELS.parse("cnn"), (10,), 3)
