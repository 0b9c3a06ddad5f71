"""p_y is given or proved, never guessed; labels to be ignored count nowhere."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.optim import Plain
from surefoot.optim._closure import read_losses
from surefoot.optim.csam import CSAM
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, batches, make, mlp, weights

CLASSES = 3


def logits(*shape):
    torch.manual_seed(0)
    return nn.Parameter(2 * torch.randn(*shape))


ROWS, TOKENS = logits(8, CLASSES), logits(4, 5, CLASSES)
LABELS, TOKEN_LABELS = torch.arange(8) % CLASSES, torch.arange(20).view(4, 5) % CLASSES
WEIGHT = torch.tensor([1.0, 2.0, 3.0])
NONE = {"reduction": "none"}

PLAIN = {
    "rows": lambda: F.cross_entropy(ROWS, LABELS, **NONE),
    "module": lambda: nn.CrossEntropyLoss(reduction="none")(ROWS, LABELS),
    "nll": lambda: F.nll_loss(F.log_softmax(ROWS, -1), LABELS, **NONE),
    "tokens in rows": lambda: F.cross_entropy(TOKENS.view(-1, CLASSES), TOKEN_LABELS.view(-1), **NONE),
    "tokens in rows, seen again": lambda: F.cross_entropy(TOKENS.view(-1, CLASSES), TOKEN_LABELS.view(-1), **NONE).view(
        4, 5
    ),
    "tokens in columns": lambda: F.cross_entropy(TOKENS.transpose(1, 2), TOKEN_LABELS, **NONE),
    "nll of tokens": lambda: F.nll_loss(F.log_softmax(TOKENS, -1).flatten(0, 1), TOKEN_LABELS.flatten(), **NONE),
    "pictures": lambda: F.cross_entropy(
        TOKENS.transpose(1, 2).unsqueeze(-1), TOKEN_LABELS.unsqueeze(-1), **NONE
    ).squeeze(-1),
    "half": lambda: F.cross_entropy(ROWS.bfloat16(), LABELS, **NONE).float(),
}
OTHER = {
    "smoothing": lambda: F.cross_entropy(ROWS, LABELS, label_smoothing=0.4, **NONE),
    "class weights": lambda: F.cross_entropy(ROWS, LABELS, weight=WEIGHT, **NONE),
    "soft labels": lambda: F.cross_entropy(ROWS, ROWS.detach().softmax(-1), **NONE),
    "weights of examples": lambda: F.cross_entropy(ROWS, LABELS, **NONE) * torch.rand(8),
    "sum over tokens": lambda: F.cross_entropy(TOKENS.transpose(1, 2), TOKEN_LABELS, **NONE).sum(1),
    "nll of something else": lambda: F.nll_loss(ROWS, LABELS, **NONE),
    "softmax over examples": lambda: F.nll_loss(F.log_softmax(ROWS, 0), LABELS, **NONE),
    "softmax over tokens": lambda: F.nll_loss(F.log_softmax(TOKENS, 1).transpose(1, 2), TOKEN_LABELS, **NONE),
    "squares": lambda: (ROWS.softmax(-1) - F.one_hot(LABELS, CLASSES)).square().sum(-1),
    "written to": lambda: doubled(F.cross_entropy(ROWS, LABELS, **NONE)),
    "mean": lambda: F.cross_entropy(ROWS, LABELS)[None],
}


def doubled(losses):
    with torch.no_grad():
        losses *= 2
    return losses


@pytest.mark.parametrize("form", PLAIN)
def test_torchs_cross_entropy_is_known_for_what_it_is(form):
    losses = PLAIN[form]()
    terms, nll = read_losses(LossTerms(losses))
    assert nll is losses
    assert terms.counted is None
    labels = LABELS if len(losses) == 8 else TOKEN_LABELS
    true = (ROWS if len(losses) == 8 else TOKENS).log_softmax(-1).gather(-1, labels[..., None])
    torch.testing.assert_close(nll.flatten(), -true.flatten(), atol=0.05 if form == "half" else 1e-6, rtol=0)


@pytest.mark.parametrize("form", OTHER)
def test_everything_else_is_not_taken_for_it(form):
    assert read_losses(LossTerms(OTHER[form]()))[1] is None


@pytest.mark.parametrize("form", OTHER)
def test_csam_asks_for_p_y_where_it_is_not_known(form):
    optimizer = CSAM(torch.optim.SGD([ROWS, TOKENS], lr=0.0))
    before = ROWS.detach().clone()
    with pytest.raises(
        InputError, match=r"Expected to know p_y of each example, .*LossTerms\(losses, log_py=-cross_ent"
    ):
        optimizer.step(OTHER[form])
    assert torch.equal(ROWS, before)
    sam = SAM(torch.optim.SGD([ROWS, TOKENS], lr=0.0))
    sam.step(OTHER[form])
    assert (sam.facts.p_y, sam.facts.perturbed_p_y, sam.facts.lam) == (None, None, None)


def test_label_smoothing_damps_the_examples_that_are_sure():
    """By p_y, which the smoothed loss hides: at 0.4 it is above log 2 for all of them."""
    model = mlp()
    optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.5), model, rho=0.01)
    x, _ = batches(1, n=64, shape=(12,))[0]
    y = (x[:, 0] > 0).long()

    def closure():
        out = model(x)
        losses = F.cross_entropy(out, y, label_smoothing=0.4, reduction="none")
        return LossTerms(losses, log_py=-F.cross_entropy(out, y, reduction="none"))

    for _ in range(100):
        optimizer.step(closure)
    with torch.no_grad():
        p_y = model(x).softmax(-1).gather(-1, y[:, None])
    optimizer.step(closure)
    assert (p_y > 0.5).float().mean() > 0.9
    assert optimizer.facts.damped > 0.9
    assert optimizer.facts.p_y == pytest.approx(p_y.mean().item(), rel=1e-4)


IGNORING = ["closure", "loss", "terms", "criterion", "own index"]


@pytest.mark.parametrize("name", ["sgd", "sam", "csam", "esam", "csam:every=2"])
@pytest.mark.parametrize("form", IGNORING)
def test_ignored_labels_count_nowhere(name, form):
    """Half of them: the step and its facts are those of the other half alone."""
    results, facts = [], []
    x, y = batches(1, n=16, shape=(12,))[0]
    ignored = torch.arange(16) % 2 == 0
    index = -7 if form == "own index" else -100
    for half in (True, False):
        model = mlp()
        optimizer = make(name, model)
        a, b = (x[~ignored], y[~ignored]) if half else (x, y.masked_fill(ignored, index))

        def closure(model=model, optimizer=optimizer, a=a, b=b):
            if form == "loss":
                loss = optimizer.loss(model(a), b)
                loss.backward()
                return loss
            losses = F.cross_entropy(model(a), b, reduction="none", ignore_index=index)
            if form == "terms":
                return LossTerms(losses * 1.0, log_py=-losses, counted=b != index)
            return CrossEntropy()(model(a), b) if form == "criterion" else losses

        for _ in range(2):
            optimizer.step(closure)
        results.append(weights(model))
        facts.append(optimizer.facts.to_json())
    torch.testing.assert_close(*results, atol=1e-6, rtol=1e-5)
    known = [{key: value for key, value in each.items() if value is not None} for each in facts]
    assert known[0] == pytest.approx(known[1], rel=1e-4)
    if name != "sgd":
        assert facts[0]["p_y"] < 0.9  # an ignored example would have 1


@pytest.mark.parametrize("name", ["sgd", "csam"])
def test_a_batch_of_ignored_labels_is_refused(name):
    model = mlp()
    optimizer = make(name, model)
    x, y = batches(1, shape=(12,))[0]
    before = weights(model)
    with pytest.raises(InputError, match="Expected at least one example that counts, but all 8 are ignored"):
        optimizer.step(lambda: F.cross_entropy(model(x), torch.full_like(y, -100), reduction="none"))
    assert_same(weights(model), before)


def test_gamma_0_needs_no_p_y():
    w = nn.Parameter(torch.tensor([1.0]))
    CSAM(torch.optim.SGD([w], lr=0.1), gamma=0.0).step(lambda: w**2)
    assert w.item() != 1


def test_the_mean_of_what_counts_is_torchs():
    x = logits(6, CLASSES).detach()
    labels = torch.tensor([0, -100, 2, -100, 1, 1])
    w = nn.Parameter(torch.ones(()))
    optimizer = Plain(torch.optim.SGD([w], lr=0.1))
    loss = optimizer.step(lambda: F.cross_entropy(w * x, labels, reduction="none"))
    torch.testing.assert_close(loss, F.cross_entropy(x, labels))
