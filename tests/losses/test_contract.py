from __future__ import annotations

import pytest
import torch

from surefoot.errors import OptionError
from tests.losses.cases import NAMES, Y, Z, make, total


@pytest.mark.parametrize("name", NAMES)
def test_gradient(name: str) -> None:
    loss = make(name)
    assert torch.autograd.gradcheck(lambda z: total(loss, z, Y), Z.clone().requires_grad_())


@pytest.mark.parametrize("name", NAMES)
def test_order_of_examples_does_not_matter(name: str) -> None:
    order = torch.tensor([2, 0, 3, 1])
    assert total(make(name), Z[order], Y[order]).item() == pytest.approx(total(make(name), Z, Y).item(), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_finite_at_extreme_logits(name: str) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    value = total(make(name), logits, torch.tensor([0, 0]))
    value.backward()
    assert value.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_terms_say_how_sure_the_model_is(name: str) -> None:
    terms = make(name)(Z, Y)
    assert terms.per_example.shape == Y.shape
    assert torch.allclose(terms.log_py, Z.log_softmax(1)[torch.arange(4), Y])


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_leaves_state_alone_and_state_can_be_saved(name: str) -> None:
    loss = make(name)
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    loss(Z, Y)
    assert all(torch.equal(value, before[key]) for key, value in loss.state_dict().items())
    make(name).load_state_dict(loss.state_dict())


def test_alpha_is_a_share() -> None:
    with pytest.raises(OptionError, match=r"Expected alpha in \[0, 1\], but got 5"):
        make("label_smoothing:alpha=5")
