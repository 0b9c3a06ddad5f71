"""Replicas under DDP: each launch starts real processes once and runs many checks on them."""

import pytest
import torch

from surefoot.errors import InputError
from surefoot.optim.csam import CSAM
from surefoot.optim.looksam import LookSAM
from surefoot.optim.sam import SAM
from surefoot.optim.vasso import VASSO
from tests.optim.distributed.launch import find, said_by_all, verify
from tests.optim.problems import mlp

ON_TWO = list(find(["ddp_checks", "ddp_trouble", "replay_checks"]))
ON_FOUR = [
    "ddp_checks:no_message_in_the_clean_pass",
    "ddp_checks:ranks_stay_alike",
    "ddp_checks:synchronised_is_one_process_on_the_joint_batch",
    "ddp_checks:rank_is_one_process_with_parts",
    "ddp_checks:decisions_are_alike",
    "ddp_trouble:unused_parameters",
    "ddp_trouble:nan_on_one_rank",
    "fsdp_checks:norms_on_a_mesh_of_two_dimensions",
]


@pytest.fixture(scope="module")
def two():
    return said_by_all(2, ON_TWO)


@pytest.fixture(scope="module")
def four():
    return said_by_all(4, ON_FOUR)


@pytest.mark.parametrize("name", ON_TWO)
def test_on_two_processes(name, two):
    verify(two, name)


@pytest.mark.parametrize("name", ON_FOUR)
def test_on_four_processes(name, four):
    verify(four, name)


def base():
    return torch.optim.SGD(mlp().parameters(), lr=0.1)


@pytest.mark.parametrize("make", [VASSO, LookSAM, lambda base, **kw: CSAM(base, ascent="fsam", **kw)])
def test_methods_that_remember_gradients_climb_together(make):
    """Otherwise every rank would remember something else, and a checkpoint would be valid on one rank only."""
    assert make(base()).perturbation == "synchronised"
    with pytest.raises(InputError, match="Expected rules that remember no gradients where ranks climb on their own"):
        make(base(), perturbation="rank")


def test_wrong_options_are_refused():
    assert SAM(base()).perturbation == "rank"
    with pytest.raises(InputError, match='Expected perturbation to be "rank" or "synchronised", but got \'each\''):
        SAM(base(), perturbation="each")
    with pytest.raises(InputError, match="Expected parts of m = 4 examples to climb each on their own"):
        SAM(base(), m=4, perturbation="synchronised")
