"""Hugging Face's Trainer turns ρ and γ by its own evaluations, as a plain loop does, and by no others."""

import re
import warnings

import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import BertForTokenClassification, Trainer, TrainerCallback

from surefoot.errors import InputError, OptionError
from surefoot.integrations.transformers import SurefootTrainer
from surefoot.optim import CSAM
from surefoot.steering import KeepCalibrated
from tests.blocks import ROOT, blocks_of
from tests.integrations.berts import BATCH, Reseed, bert, rows, trainer
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves
EVERY_EPOCH = {"eval_strategy": "epoch", "optim": "sgd", "learning_rate": 0.1, "num_train_epochs": 3}


@pytest.fixture(autouse=True, scope="module")
def another_accelerator():
    yield
    AcceleratorState._reset_state(True)


def sure(dropout=0.0, **options):
    """A network that is sure of what it has not learnt."""
    model = bert(dropout, **options)
    with torch.no_grad():
        model.classifier.weight.mul_(60)
    return model


def held_out(n=60):
    draw = torch.Generator().manual_seed(2)
    tokens, labels = torch.randint(3, 30, (n, 6), generator=draw), torch.randint(3, (n,), generator=draw)
    return [{"input_ids": row, "labels": label} for row, label in zip(tokens, labels, strict=True)]


def steered(folder, model=None, method="csam:rho=0.05,tune=auto", data=None, extra=None, **options):
    extra = {"eval_dataset": held_out(), **(extra or {})}
    return trainer(model or sure(), folder, data=data, method=method, extra=extra, **(EVERY_EPOCH | options))


def batch_of(examples):
    return {key: torch.stack([row[key] for row in examples]) for key in examples[0]}


def by_hand(every, epochs=3):
    """The same in a loop of one's own."""
    model, data = sure().train(), rows()
    decayed = [name for name, _ in model.named_parameters() if "bias" not in name and "LayerNorm" not in name]
    named = dict(model.named_parameters())  # in the Trainer's groups, since sums depend on their order
    groups = [{"params": [named[name] for name in named if (name in decayed) == kept]} for kept in (True, False)]
    optimizer = CSAM(torch.optim.SGD(groups, lr=0.1), model, rho=0.05)
    batches = [batch_of(data[i : i + BATCH]) for i in range(0, len(data), BATCH)]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / (epochs * len(batches)))
    keeper, facts = KeepCalibrated(optimizer, speed=every / len(batches)), []
    for t in range(epochs * len(batches)):
        batch = batches[t % len(batches)]
        optimizer.step(lambda batch=batch: optimizer.loss(model(**batch).logits, batch["labels"]))
        schedule.step()
        if (t + 1) % every == 0:
            model.eval()
            with torch.no_grad():
                parts = [model(**batch_of(held_out()[i : i + 8])).logits for i in range(0, 60, 8)]
            facts.append(keeper.step(torch.cat(parts), torch.stack([row["labels"] for row in held_out()])))
            model.train()
    return weights(model), facts


@pytest.mark.parametrize("every", [4, 2])
def test_knobs_and_weights_are_those_of_a_plain_loop(every, tmp_path):
    options = {} if every == 4 else {"eval_strategy": "steps", "eval_steps": 2}
    made = steered(tmp_path, **options)
    made.train()
    wanted, facts = by_hand(every)
    assert made.keeper.facts == facts[-1]
    assert made.keeper.looks == len(facts) == 12 // every
    assert facts[-1].after["rho"] != 0.05
    assert facts[-1].after["gamma"] > 1
    assert_same(weights(made.model), wanted)
    logged = [entry for entry in made.state.log_history if "eval_loss" in entry]
    assert [entry["eval_steering/rho"] for entry in logged] == [look.after["rho"] for look in facts]
    assert [entry["eval_steering/log_temperature"] for entry in logged] == [
        look.signal.log_temperature for look in facts
    ]


@pytest.mark.parametrize("saves", [{"save_strategy": "epoch"}, {"save_strategy": "steps", "save_steps": 5}])
@pytest.mark.parametrize("tune", ["auto", "lr", "weight_decay"])
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(tune, saves, tmp_path):
    """With dropout, a drawn order, and knobs whose limits come from where they began."""

    def run(folder, **kw):
        order = {"train_sampling_strategy": "random", "weight_decay": 1e-3, "max_grad_norm": 0.5, "eval_on_start": True}
        method, extra = f"csam:ascent=vasso,tune={tune}", {"callbacks": []}
        made = steered(tmp_path / folder, sure(0.3), method, extra=extra, **saves, **order)
        made.train(**kw)
        (group, *_), ours = made.optimizer.param_groups, made.optimizer.optimizer
        values = [group[key] for key in ("rho", "lr", "weight_decay")]
        limits = [knob.limits for knob in made.keeper.knobs]
        return weights(made.model), (values, ours.outer.gamma, made.keeper.state_dict(), made.keeper.facts, limits)

    whole = run("whole")
    assert whole[1][2]["looks"] == 3  # the evaluation before the first step is none
    saved = tmp_path / "whole" / f"checkpoint-{4 if saves['save_strategy'] == 'epoch' else 5}"
    resumed = run("resumed", resume_from_checkpoint=str(saved))
    assert_same(resumed[0], whole[0])
    assert resumed[1] == whole[1]


def test_a_checkpoint_before_its_evaluation_is_said_to_miss_it(tmp_path):
    def run(folder, **kw):
        made = steered(tmp_path / folder, save_strategy="steps", save_steps=2)
        made.train(**kw)
        return made.keeper.looks

    assert run("whole") == 3
    with pytest.warns(UserWarning, match="from a checkpoint between an epoch and its evaluation, which the Trainer"):
        assert run("late", resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4")) == 2
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Training goes on from a checkpoint")
        assert run("later", resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-6")) == 3


class Curious(TrainerCallback):
    """Looks at other rows in the midst of a training."""

    def __init__(self):
        self.trainer = None

    def on_evaluate(self, args, state, control, metrics, **_):
        if self.trainer and "test_loss" not in metrics:
            self.trainer.evaluate(rows(), metric_key_prefix="test")
            self.trainer.predict(rows())

    def on_step_end(self, *args, **_):
        self.trainer.evaluate(rows(), metric_key_prefix="test")


def test_only_evaluations_of_the_eval_dataset_in_training_steer(tmp_path):
    curious = Curious()
    made = steered(tmp_path, extra={"callbacks": [Reseed, curious]})
    curious.trainer = made
    made.train()
    curious.trainer = None
    wanted, facts = by_hand(4)
    assert made.keeper.facts == facts[-1]
    assert_same(weights(made.model), wanted)
    made.evaluate()  # after the training, so it measures and no more
    made.evaluate(rows())
    made.predict(rows())
    assert made.keeper.facts == facts[-1]
    assert made.keeper.looks == 3


def test_tokens_that_count_steer(tmp_path):
    data = [{"input_ids": row["input_ids"], "labels": row["input_ids"] % 3} for row in held_out()]
    for row in data:
        row["labels"][0] = -100
    made = steered(tmp_path, sure(kind=BertForTokenClassification), data=data[:14], extra={"eval_dataset": data[14:]})
    made.train()
    assert made.keeper.facts.signal.rows == 46 * 5
    assert made.optimizer.optimizer.outer.gamma == made.keeper.facts.after["gamma"]


class OwnScheduler(SurefootTrainer):
    """Makes its schedule alone."""

    def create_scheduler(self, num_training_steps, optimizer=None):
        self.lr_scheduler = torch.optim.lr_scheduler.ConstantLR(self.optimizer)
        return self.lr_scheduler


class OwnLoop(SurefootTrainer):
    """Evaluates alone."""

    def evaluation_loop(self, *args, **kw):
        return Trainer.evaluation_loop(self, *args, **kw)


def test_what_cannot_steer_is_refused(tmp_path):
    for extra, options, words in (
        ({"eval_dataset": None}, {}, "Expected an eval_dataset for tune=auto, by which to steer, but got none"),
        ({"eval_dataset": {"a": rows(), "b": rows()}}, {}, "but got 2 of them by name. Pass one that is not for"),
        ({}, {"eval_strategy": "no"}, "got eval_strategy='no'. Write TrainingArguments(eval_strategy=\"epoch\")"),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            steered(tmp_path, extra=extra, **options)
    with pytest.raises(OptionError, match="Expected tune to be none, auto, rho"):
        steered(tmp_path, method="csam:tune=much")
    with pytest.raises(InputError, match="Expected an optimizer with gamma above 0 to steer, but SAM has none"):
        steered(tmp_path, method="sam:tune=gamma").train()
    unlabelled = [{"input_ids": row["input_ids"]} for row in rows()]
    with pytest.raises(InputError, match="Expected logits and labels of the eval_dataset to steer by"):
        steered(tmp_path, extra={"eval_dataset": unlabelled}).train()
    for kind, words in (
        (OwnScheduler, r"Call super\(\).create_scheduler\(…\) in it"),
        (OwnLoop, r"Call super\(\).evaluation_loop\(…\) in it"),
    ):
        given = {"eval_dataset": held_out()}
        with pytest.raises(InputError, match=words):
            trainer(sure(), tmp_path, kind=kind, method="csam:tune=auto", extra=given, **EVERY_EPOCH).train()
    with pytest.warns(UserWarning, match="No knob was turned: there was no evaluation after a step"):
        steered(tmp_path, eval_delay=10).train()
    made = steered(tmp_path, method="csam:tune=none", extra={"eval_dataset": None}, eval_strategy="no")
    made.train()
    assert made.keeper is None


def test_the_script_of_the_page_steers(tmp_path, monkeypatch, capsys):
    wanted = "run by tests/integrations/test_transformers_steering.py"
    (script,) = [block.code for block in blocks_of(ROOT / "docs" / "transformers.md") if block.mark == wanted]
    assert len(script.splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "transformers.md", "exec"), {})
    assert re.search(r"log T .* rows, .*: rho .*, gamma ", capsys.readouterr().out)
