"""Which losses a Trainer with a method that weighs single examples takes, and which it refuses."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertForTokenClassification, LlamaConfig, LlamaForCausalLM

from surefoot.errors import InputError
from surefoot.optim import CSAM, ESAM, SAM
from surefoot.schema import LossTerms
from tests.integrations.berts import bert, optimizer, plain_loop, rows, trained, trainer
from tests.integrations.test_transformers import BLOCKS, quick_collections, sgd
from tests.optim.problems import assert_same, weights

__all__ = ["quick_collections"]  # a fixture of this module, too
pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves
SMOOTHED = {"label_smoothing_factor": 0.1}


def smoothed(optimizer, outputs, labels):
    nll = F.cross_entropy(outputs.logits, labels, reduction="none")
    losses = F.cross_entropy(outputs.logits, labels, reduction="none", label_smoothing=0.1)
    return optimizer.reduce(LossTerms(losses, log_py=-nll))


@pytest.mark.parametrize("name", ["sam", "csam"])
def test_label_smoothing(name, tmp_path):
    model, other = bert(), bert()
    ours = trained(model, tmp_path, optimizer(name, model), gradient_accumulation_steps=2, **SMOOTHED)
    theirs = plain_loop(other, optimizer(name, other), loss=smoothed, n=2)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def tagged():
    """Rows of six tokens with a label each; some are left out, more in some rows than in others."""
    found = rows()
    for number, row in enumerate(found):
        row["labels"] = row["input_ids"] % 3
        row["labels"][: number % 5] = -100
    return found


def count_tokens(labels):
    return int((labels != -100).sum())


def by_tokens(optimizer, outputs, labels):
    return optimizer.loss(outputs.logits.movedim(-1, 1), labels)


@pytest.mark.parametrize("name", ["sam", "csam"])
def test_tokens_with_labels_that_are_left_out(name, tmp_path):
    """Each token counts once, in however few micro-batches it is: p_y is that of the token."""
    model, other = bert(kind=BertForTokenClassification), bert(kind=BertForTokenClassification)
    ours = trained(model, tmp_path, optimizer(name, model), tagged(), gradient_accumulation_steps=2)
    theirs = plain_loop(other, optimizer(name, other), loss=by_tokens, n=2, data=tagged(), count=count_tokens)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def language_model():
    torch.manual_seed(1)
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 8}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=2))


def count_next_tokens(labels):
    return count_tokens(labels[:, 1:])


def by_next_token(optimizer, outputs, labels):
    if not count_next_tokens(labels):
        return 0.0 * outputs.logits.sum()
    return optimizer.loss(outputs.logits[:, :-1].movedim(-1, 1), labels[:, 1:])


@pytest.mark.parametrize("name", ["sam", "csam"])
def test_language_models_predict_the_next_token(name, tmp_path):
    """A micro-batch may be without labels that count, where others of its step have some."""
    data = tagged()
    for row in data[4:8]:
        row["labels"] = torch.full_like(row["labels"], -100)
    model, other = language_model(), language_model()
    ours = trained(model, tmp_path, optimizer(name, model), data, gradient_accumulation_steps=2)
    theirs = plain_loop(other, optimizer(name, other), loss=by_next_token, n=2, data=data, count=count_next_tokens)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def weighted(outputs, labels, num_items_in_batch=None):
    return F.cross_entropy(outputs.logits, labels, weight=torch.tensor([1.0, 2.0, 3.0]))


def test_another_loss_is_refused_until_it_is_given_by_example(tmp_path):
    for method in (CSAM, ESAM):
        model = bert()
        made = trainer(model, tmp_path, method(sgd(model), model), extra={"compute_loss_func": weighted})
        before = weights(model)
        with pytest.raises(InputError, match=f"{method.__name__} weighs single examples, but got another loss"):
            made.train()
        assert_same(weights(model), before)
    model = bert()
    trained(model, tmp_path, SAM(sgd(model), model), extra={"compute_loss_func": weighted})  # needs no more than that
    space = {}
    exec(compile(BLOCKS[1], "transformers.md", "exec"), space)
    by_example = space["Weighted"].loss_terms
    model, other = bert(), bert()
    ours = trained(model, tmp_path, optimizer("csam", model), kind=space["Weighted"])
    theirs = plain_loop(
        other, optimizer("csam", other), loss=lambda o, outputs, y: o.reduce(by_example(None, outputs, y))
    )
    assert_same(ours, theirs)


def test_outputs_without_classes_are_refused(tmp_path):
    data = [row | {"labels": row["labels"].float()} for row in rows()]
    model = bert(problem_type="regression")
    model.num_labels, model.classifier = 1, nn.Linear(16, 1)
    with pytest.raises(InputError, match=r"class indices as labels.*got torch\.float32"):
        trainer(model, tmp_path, CSAM(sgd(model), model), data).train()
    model = bert(problem_type="regression")
    model.num_labels, model.classifier = 1, nn.Linear(16, 1)
    trainer(model, tmp_path, SAM(sgd(model), model), data).train()
