from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.models import build_model
from surefoot.models._transformer import Attention
from surefoot.registry import MODELS
from surefoot.schema import PartSpec, Split, Splits
from surefoot.seeding import seed_everything
from surefoot.studies.compare import make_spec


def splits_for(name: str, small_splits: Splits) -> Splits:
    """The small pictures, or inputs of the shape that a part says it needs."""
    facts = MODELS[name].facts
    if "example_shape" not in facts:
        return small_splits
    generator = torch.Generator().manual_seed(0)
    shape = (9, *facts["example_shape"])
    tokens = torch.randint(3, shape, generator=generator).float()
    inputs = tokens if facts.get("tokens") else torch.randn(shape, generator=generator)
    split = Split(inputs, torch.arange(9) % 3)
    return Splits(split, split, split, ("a", "b", "c"), name)


@pytest.mark.parametrize("name", [part.name for part in MODELS])
def test_contract(name: str, small_splits: Splits) -> None:
    splits = splits_for(name, small_splits)

    def make() -> nn.Module:
        seed_everything(0, "init")
        return build_model(MODELS.parse(name), splits)

    model, twin = make(), make()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    logits = model(splits.train.inputs[:8])
    assert logits.shape == (8, 3)
    logits.logsumexp(1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", [part.name for part in MODELS if not part.facts.get("tokens")])
def test_stages_are_the_network(name: str, small_splits: Splits) -> None:
    splits = splits_for(name, small_splits)
    model = build_model(MODELS.parse(name), splits).eval()
    x = splits.train.inputs[:4]
    wanted = model(x)
    for stage in model.stages:
        x = stage(x)
    assert torch.equal(x, wanted)


CIFAR, LARGE = (3, 32, 32), (3, 224, 224)


@pytest.mark.parametrize(
    ("text", "shape", "n_classes", "count"),
    [
        ("mlp:activation=tanh", CIFAR, 10, 656_810),
        ("mlp:activation=tanh", CIFAR, 100, 674_900),
        ("resnet20", CIFAR, 10, 269_722),
        ("resnet20", CIFAR, 100, 275_572),
        ("resnet20:shortcut=conv", CIFAR, 10, 272_474),
        ("resnet56", CIFAR, 10, 853_018),
        ("resnet56", CIFAR, 100, 858_868),
        ("resnet56:shortcut=conv", CIFAR, 10, 855_770),
        ("resnet110", CIFAR, 10, 1_727_962),
        ("wrn", CIFAR, 10, 36_479_194),
        ("wrn", CIFAR, 100, 36_536_884),
        ("pyramidnet:alpha=270", CIFAR, 10, 28_485_477),
        ("pyramidnet:alpha=270", CIFAR, 100, 28_511_307),
        ("pyramidnet:alpha=48", CIFAR, 10, 1_772_706),
        ("pyramidnet:alpha=48", CIFAR, 100, 1_778_556),
        ("pyramidnet:alpha=84", CIFAR, 10, 3_904_446),
        ("pyramidnet:alpha=84", CIFAR, 100, 3_913_536),
        ("resnet18", CIFAR, 10, 11_173_962),
        ("resnet18", CIFAR, 100, 11_220_132),
        ("resnet18", CIFAR, 200, 11_271_432),
        ("resnet18:stem=imagenet", LARGE, 200, 11_279_112),
        ("resnet18:stem=imagenet", LARGE, 1000, 11_689_512),
        ("resnet50", LARGE, 1000, 25_557_032),
        ("vit_s16", LARGE, 1000, 22_050_664),
        ("vit_s32", LARGE, 1000, 22_878_952),
    ],
)
def test_parameter_counts(text: str, shape: tuple[int, ...], n_classes: int, count: int) -> None:
    with torch.device("meta"):
        model = MODELS.build(MODELS.parse(text), shape, n_classes)
        logits = model(torch.empty(2, *shape))
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert logits.shape == (2, n_classes)


def test_the_last_width_of_a_pyramid() -> None:
    for alpha, width in ((48, 64), (84, 100), (270, 286)):
        with torch.device("meta"):
            model = MODELS.build(MODELS.parse(f"pyramidnet:alpha={alpha}"), CIFAR, 10)
        assert model[-1][-1].in_features == width


@pytest.mark.parametrize("name", ["vit_tiny", "resnet8", "cnn", "mlp:activation=tanh"])
def test_input_gradients_can_be_differentiated(name: str) -> None:
    """Fused attention has no second derivative on the CPU; what is written out here agrees with finite differences."""
    torch.manual_seed(0)
    text = f"{name}:width=8,depth=1,heads=2,patch=2" if name == "vit_tiny" else name
    model = MODELS.build(MODELS.parse(text), (1, 4, 4), 3).double().eval()
    x = torch.randn(2, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 1, 4, 4, dtype=torch.float64)

    def gradient(x: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad((model(x) ** 2).sum(), x, create_graph=True)
        return grad

    (product,) = torch.autograd.grad(gradient(x), x, v)
    h = 1e-6
    difference = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
    torch.testing.assert_close(product, difference.detach(), atol=1e-5, rtol=1e-5)


def test_attention_is_torchs_attention() -> None:
    torch.manual_seed(0)
    ours = Attention(8, 2)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    theirs.load_state_dict({
        "in_proj_weight": ours.qkv.weight,
        "in_proj_bias": ours.qkv.bias,
        "out_proj.weight": ours.out.weight,
        "out_proj.bias": ours.out.bias,
    })
    x = torch.randn(3, 5, 8)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    torch.testing.assert_close(ours(x), theirs(x, x, x, need_weights=False)[0])
    torch.testing.assert_close(ours(x, hidden), theirs(x, x, x, key_padding_mask=hidden, need_weights=False)[0])
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    ours.causal = True
    torch.testing.assert_close(ours(x), theirs(x, x, x, attn_mask=mask, need_weights=False)[0])


def test_padding_does_not_matter_to_a_text() -> None:
    torch.manual_seed(0)
    model = MODELS.build(MODELS.parse("text_transformer:vocabulary=9"), (6,), 3).eval()
    short = torch.tensor([[4, 7, 2, 0, 0, 0]])
    torch.testing.assert_close(model(short), model(short[:, :4]))
    assert model(torch.zeros(1, 6)).isfinite().all()
    with pytest.raises(InputError, match=r"tokens in 0…8, but got 4 to 9\. Set vocabulary="):
        model(torch.tensor([[4, 9]]))


def test_characters_do_not_see_what_comes_after() -> None:
    torch.manual_seed(0)
    model = MODELS.build(MODELS.parse("char_lm"), (6,), 5).eval()
    text = torch.tensor([[1, 2, 3, 4, 0, 1]])
    other = text.clone()
    other[0, 3:] = 2
    before, after = model.everywhere(text), model.everywhere(other)
    assert before.shape == (1, 6, 5)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])
    assert torch.equal(model(text), before[:, -1])


@pytest.mark.parametrize("name", ["text_transformer", "char_lm"])
def test_text_can_be_learned(name: str) -> None:
    """The class is the last token but one."""
    torch.manual_seed(0)
    tokens = torch.randint(1, 8, (128, 5))
    labels = tokens[:, 3] % 3
    model = MODELS.build(MODELS.parse(f"{name}:vocabulary=8,width=32,depth=1"), (5,), 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens.float()), labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3


@pytest.mark.parametrize(
    ("text", "shape", "says"),
    [
        ("cnn", (10,), "Use --model mlp"),
        ("resnet20", (10,), "images .* for resnet20"),
        ("wrn:depth=20", CIFAR, "Expected depth 10, 16, 22, 28"),
        ("pyramidnet:depth=100", CIFAR, "Expected depth 8, 14"),
        ("vit_s16", (1, 28, 28), r"multiples of the patch for vit_s16, but got 28×28 and 16"),
        ("vit_tiny:width=10", CIFAR, "multiple of heads, but got 10 and 4"),
        ("text_transformer", CIFAR, "rows of tokens for text_transformer"),
        ("char_lm:heads=3", (8,), "width a multiple of heads"),
    ],
)
def test_networks_that_cannot_be_made(text: str, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        MODELS.build(MODELS.parse(text), shape, 3)


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


def test_a_run_on_text_from_npz_to_measures(tmp_path: Path) -> None:
    """Tokens go through the same data, loop, trackers and metrics as pictures."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 96), ("test", 48)):
        labels = rng.integers(0, 3, n)
        arrays[f"x_{split}"], arrays[f"y_{split}"] = 1 + labels[:, None] + rng.integers(0, 3, (n, 6)), labels
    np.savez(tmp_path / "text.npz", **arrays)
    model = "text_transformer:vocabulary=8,width=16,depth=1"
    data = f"npz:{tmp_path / 'text.npz'},inputs=raw"
    spec = make_spec("focal + csam:base=adamw,lr=0.01,rho=0.05", data=data, model=model, epochs=6, batch_size=16)
    folder = run(spec, tmp_path / "run")
    tracked = [record["test/loss"] for record in folder.steps() if record.get("tracker") == "quality"]
    assert tracked[-1] < 0.8 * tracked[0]
    assert {record["metric"] for record in folder.measures()} >= {"ece", "nll"}
