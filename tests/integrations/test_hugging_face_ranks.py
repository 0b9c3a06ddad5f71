"""Two processes under torchrun: Trainer and accelerate leave the same weights on both, those of the joint batch."""

import pytest
import torch

from tests.integrations.berts import bert, by_model, optimizer, plain_loop, rows
from tests.integrations.hugging_face_ranks import CASES
from tests.optim.distributed.launch import ROOT, torchrun
from tests.optim.problems import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    done = torchrun(2, ROOT / "tests" / "integrations" / "hugging_face_ranks.py", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(folder / f"rank{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("case", CASES)
def test_the_ranks_end_with_the_same_weights(case, ended):
    first, second = (on_rank[case] for on_rank in ended)
    assert_same(first, second)
    assert not torch.equal(first[0], next(bert().parameters()))


@pytest.mark.parametrize("case", ["sam, synchronised", "csam, synchronised"])
def test_ranks_that_climb_together_are_one_process_on_the_joint_batch(case, ended):
    """Whatever the Trainer multiplies the losses by: a rank's batch is one of two micro-batches."""
    name, other = case.split(",")[0], bert()
    loss = {"loss": by_model} if name == "sam" else {}
    joint = plain_loop(other, optimizer(name, other), n=2, data=rows(16), **loss)
    torch.testing.assert_close(ended[0][case], joint, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["synchronised", "rank"])
def test_both_forms_of_accelerates_loop_are_the_same_training(mode, ended):
    assert_same(ended[0][f"closure, {mode}"], ended[0][f"explicit, {mode}"])
