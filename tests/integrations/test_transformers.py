"""Hugging Face's Trainer climbs as a plain loop does, with whatever it adds to a step, and refuses what it cannot."""

import gc
import importlib
import itertools
import re
import sys

import pytest
import torch
from accelerate.state import AcceleratorState
from torch import nn
from torch.nn import functional as F
from transformers import Trainer

from surefoot.errors import DivergedError, InputError
from surefoot.integrations.transformers import SharpnessAwareTrainerMixin
from surefoot.optim import AMP, BSAM, CSAM, SAM, LookSAM, Plain
from tests.blocks import ROOT, blocks_of
from tests.integrations.berts import METHODS, bert, by_logits, by_model, optimizer, plain_loop, rows, trained, trainer
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves
GRID = list(itertools.product(METHODS, (1, 2), (0.0, 0.5), (False, True), (0.0, 0.3)))
BLOCKS = [block.code for block in blocks_of(ROOT / "docs" / "transformers.md") if block.language == "python"]


@pytest.fixture(autouse=True, scope="module")
def quick_collections():
    """Keep what is imported out of the garbage collection with which every training starts."""
    gc.freeze()
    yield
    gc.unfreeze()
    AcceleratorState._reset_state(True)  # whose precision the next one in this process would have


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(("name", "n", "clip", "bf16", "dropout"), GRID)
def test_the_trainer_equals_a_plain_loop(name, n, clip, bf16, dropout, tmp_path):
    model, other = bert(dropout), bert(dropout)
    options = {"gradient_accumulation_steps": n, "max_grad_norm": clip, "bf16": bf16}
    ours = trained(model, tmp_path, optimizer(name, model), **options)
    loss = by_logits if name == "csam" else by_model
    theirs = plain_loop(other, optimizer(name, other), loss=loss, n=n, clip=clip, bf16=bf16)
    assert_same(ours, theirs)
    assert not torch.equal(ours[0], weights(bert())[0])


def test_the_last_step_may_have_fewer_micro_batches(tmp_path):
    for name in ("sam", "csam"):
        model, other = bert(0.3), bert(0.3)
        ours = trained(model, tmp_path, optimizer(name, model), gradient_accumulation_steps=3)
        loss = by_logits if name == "csam" else by_model
        assert_same(ours, plain_loop(other, optimizer(name, other), loss=loss, n=3))


class WithStatistics(nn.Module):
    """A model that is none of transformers', with statistics that move, and that takes no num_items_in_batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.norm, self.head = nn.Embedding(30, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.forwards = 0

    def forward(self, input_ids, labels=None):
        self.forwards += 1
        logits = self.head(self.norm(self.embed(input_ids).mean(1)).relu())
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


@pytest.mark.parametrize("name", METHODS)
def test_two_forwards_per_micro_batch_and_statistics_move_in_one(name, tmp_path):
    model = WithStatistics()
    made = trainer(model, tmp_path, optimizer(name, model), gradient_accumulation_steps=2)
    made.train()
    assert model.forwards == 2 * 4
    assert model.norm.num_batches_tracked == 4
    assert made.state.global_step == 2


def test_methods_that_do_not_always_climb_save_passes(tmp_path):
    model = WithStatistics()
    trainer(model, tmp_path, LookSAM(sgd(model), model, rho=0.1, k=2)).train()
    assert model.forwards == 4 + 2
    model = WithStatistics()
    trainer(model, tmp_path, CSAM(sgd(model), model, rho=0.1, every=2)).train()
    assert model.forwards == 4 + 2
    model = WithStatistics()
    trainer(model, tmp_path, Plain(sgd(model))).train()
    assert model.forwards == 4


class OnceNaN(WithStatistics):
    """The second micro-batch of the epoch has no loss that is a number."""

    def forward(self, input_ids, labels=None):
        outputs = super().forward(input_ids, labels)
        bad = torch.equal(input_ids[0], rows()[4]["input_ids"])
        return {key: value * torch.nan for key, value in outputs.items()} if bad else outputs


def test_a_loss_that_is_no_number_is_said_or_skipped(tmp_path):
    model = OnceNaN()
    with pytest.raises(DivergedError, match="Expected a finite gradient norm"):
        trainer(model, tmp_path, CSAM(sgd(model), model)).train()
    model = OnceNaN()
    made = CSAM(sgd(model), model, nonfinite="skip")
    trained(model, tmp_path, made)
    assert made.t == model.norm.num_batches_tracked == 3
    assert all(weight.isfinite().all() for weight in weights(model))


def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(tmp_path):
    """With dropout, an order that the Trainer draws and an ascent that remembers, from the middle of an epoch."""

    def run(folder, **kw):
        often = {"save_strategy": "steps", "save_steps": 3, "train_sampling_strategy": "random", "num_train_epochs": 3}
        options = often | {"gradient_accumulation_steps": 2, "max_grad_norm": 0.5, "learning_rate": 0.01}
        made = trainer(bert(0.3), tmp_path / folder, method="csam:ascent=vasso", extra={"callbacks": []}, **options)
        made.train(**kw)
        return weights(made.model)

    whole = run("a")
    assert_same(run("b", resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3")), whole)


def test_a_method_by_name_goes_around_the_optimizer_of_the_arguments(tmp_path):
    options = {"weight_decay": 0.3, "learning_rate": 0.01, "optim": "adamw_torch"}
    made = trainer(bert(), tmp_path, method="csam:rho=0.07", **options)
    made.train()
    found = made.optimizer.optimizer
    assert isinstance(found, CSAM)
    assert type(found.base) is torch.optim.AdamW
    assert [(group["weight_decay"], group["rho"], group["initial_lr"]) for group in found.param_groups] == [
        (0.3, 0.07, 0.01),
        (0.0, 0.07, 0.01),
    ]
    model = bert()
    base = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.3)
    base.param_groups.clear()
    named = dict(model.named_parameters())
    names = made.get_decay_parameter_names(model)
    base.add_param_group({"params": [p for n, p in named.items() if n in names], "weight_decay": 0.3})
    base.add_param_group({"params": [p for n, p in named.items() if n not in names], "weight_decay": 0.0})
    assert_same(weights(made.model), plain_loop(model, CSAM(base, model, rho=0.07)))


def test_a_trainer_of_ones_own(tmp_path):
    class Mine(SharpnessAwareTrainerMixin, Trainer):
        seen = 0

        def create_optimizer(self, model=None):
            self.optimizer = optimizer("csam", self.model)
            return self.optimizer

        def compute_loss(self, *args, **kw):
            self.seen += 1
            return super().compute_loss(*args, **kw)

    made = trainer(bert(), tmp_path, kind=Mine)
    made.train()
    model = bert()
    assert made.seen == 8
    assert_same(weights(made.model), plain_loop(model, optimizer("csam", model)))
    made.model.eval()
    batch = {key: torch.stack([row[key] for row in rows()]) for key in ("input_ids", "labels")}
    assert made.evaluate(rows())["eval_loss"] == pytest.approx(made.model(**batch).loss.item(), rel=1e-4)
    assert made.seen == 8 + 2  # in batches of eight


def test_what_the_trainer_cannot_do_is_refused(tmp_path):
    model = bert()
    with pytest.raises(InputError, match="but got AdamW, which would step alone"):
        trainer(model, tmp_path).train()
    for made, options, words in (
        (SAM(sgd(model), model, m=2), {}, "parts of 2 examples, but got a loop without closure"),
        (AMP(sgd(model), model, steps=2), {}, "2 ascent steps need"),
        (
            BSAM(model.parameters(), model),
            {"gradient_accumulation_steps": 2},
            "gradient_accumulation_steps=1 with bSAM",
        ),
    ):
        with pytest.raises(InputError, match=words):
            trainer(model, tmp_path, made, **options).train()
    for method, words in (
        ("adamw", "Expected a method that goes around another optimizer, but got adamw"),
        ("csam:base=adamw", "Expected options of csam alone, but got base"),
        ("csam:lr=0.1", "Expected options of csam alone, but got lr"),
        ("scam", "Unknown optimizer 'scam'. Did you mean"),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            trainer(model, tmp_path, method=method)
    with pytest.raises(InputError, match="Expected one optimizer, but got method='sam' and optimizers"):
        trainer(model, tmp_path, optimizer("sam", model), method="sam")


def test_the_script_of_the_page_runs_and_learns(tmp_path, monkeypatch, capsys):
    assert len(BLOCKS[0].splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[0], "transformers.md", "exec"), {})
    printed = capsys.readouterr().out
    (accuracy,) = re.findall(r"accuracy (\d\.\d+)", printed)
    assert float(accuracy) > 0.7  # 0.80; the larger class has 0.6


def test_without_the_packages_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for name in ("transformers", "_trainer_loss"):
        monkeypatch.delitem(sys.modules, f"surefoot.integrations.{name}")
    with pytest.raises(InputError, match=re.escape("pip install 'surefoot[transformers]'")):
        importlib.import_module("surefoot.integrations.transformers")
