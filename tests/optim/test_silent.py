"""Loops in which a step would be another one than the optimizer's: all of them are refused, none goes on in silence."""

import copy
import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.optim import Parts, Plain
from surefoot.optim.bsam import BSAM
from surefoot.optim.csam import CSAM
from surefoot.optim.esam import ESAM
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, batches, losses, make, mlp, net, train, weights, wrappers


def setup(name="csam", **kw):
    model = mlp(**kw)
    return model, make(name, model), batches(1, shape=(12,))[0]


@pytest.mark.parametrize("name", [*wrappers(), "rst:p=1", "amp:steps=2", "csam:ascent=vasso"])
def test_a_step_that_should_climb_and_did_not_is_refused(name):
    """The loop of every tutorial, of Hugging Face's Trainer and of accelerate would be the base optimizer's."""
    if name == "rst":
        name = "rst:p=1"
    model, optimizer, (x, y) = setup(name)
    before = weights(model)
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    with pytest.raises(InputError, match=r"Expected a step that climbs(.|\n)*with optimizer.perturbed\(\):"):
        optimizer.step()
    assert_same(weights(model), before)


def test_so_is_one_that_a_scaler_makes():
    model, optimizer, (x, y) = setup("sam")
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    with pytest.raises(InputError, match=r"Expected a step that climbs, but got step.* SGD would step alone"):
        scaler.step(optimizer)


def test_the_lines_of_the_refusal_work():
    """Both of the forms that it tells people to write."""
    results = []
    for explicit in (True, False):
        model, optimizer, (inputs, labels) = setup("csam")
        cross_entropy = F.cross_entropy
        if explicit:
            optimizer.loss(model(inputs), labels).backward()
            with optimizer.perturbed():
                optimizer.loss(model(inputs), labels).backward()
            optimizer.step()
        else:
            optimizer.step(
                lambda m=model, a=inputs, b=labels, ce=cross_entropy: ce(m(a), b, reduction="none"),
            )
        results.append(weights(model))
    assert_same(*results)


@pytest.mark.parametrize("name", ["sam:every=3", "csam:every=3", "looksam:k=3", "rst:p=0"])
def test_steps_that_are_not_due_to_climb_may_be_made_plainly(name):
    model, optimizer, (x, y) = setup(name)
    if "rst" not in name:
        optimizer.step(losses(model, x, y))
    other = copy.deepcopy((model, optimizer))
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    assert not optimizer.climbs
    optimizer.step()
    other[1].step(losses(other[0], x, y))
    assert_same(weights(model), weights(other[0]))


def test_a_plain_step_of_csam_needs_its_loss_all_the_same():
    model, optimizer, (x, y) = setup("csam:every=2")
    optimizer.step(losses(model, x, y))
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with pytest.raises(InputError, match=r"Expected the loss of CSAM, .* to come from the optimizer, but got another"):
        optimizer.step()


def test_no_gradient_is_no_step_that_should_climb():
    """As torch allows it, and as torch.distributed.checkpoint makes one to fill a state: zero gradients, lr 0."""
    model, optimizer, _ = setup("csam")
    before = weights(model)
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    assert_same(weights(model), before)
    assert "momentum_buffer" in optimizer.state[model[0].weight]


@pytest.mark.parametrize("name", ["csam", "esam"])
def test_the_perturbed_loss_must_come_from_the_optimizer(name):
    """With torch's cross-entropy in its place CSAM is SAM."""
    model, optimizer, (x, y) = setup(name)
    before = weights(model)
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    refused = pytest.raises(
        InputError, match=r"come from the optimizer, but got another. .*inside `with optimizer.pert"
    )
    with refused, optimizer.perturbed():
        F.cross_entropy(model(x), y).backward()
    assert_same(weights(model), before)
    with pytest.raises(InputError, match="Expected a step that climbs"):  # the failed pass does not count as one
        optimizer.step()


def test_esam_needs_the_clean_one_too():
    model, optimizer, (x, y) = setup("esam")
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with (
        pytest.raises(InputError, match=r"Expected the loss of ESAM, .* in the clean pass, too"),
        optimizer.perturbed(),
    ):
        optimizer.loss(model(x), y).backward()


def test_esam_needs_the_same_examples_in_both_passes():
    model, optimizer, (x, y) = setup("esam")
    optimizer.loss(model(x), y).backward()
    refused = pytest.raises(InputError, match=r"same examples in both passes, but got .* \(4,\) after \(8,\)")
    with refused, optimizer.perturbed():
        optimizer.loss(model(x[:4]), y[:4]).backward()


@pytest.mark.parametrize("name", ["sam", "csam", "gsam"])
def test_a_perturbed_pass_without_backward_is_refused(name):
    model, optimizer, (x, y) = setup(name)
    before = weights(model)
    optimizer.loss(model(x), y).backward()
    refused = pytest.raises(
        InputError, match=r"Expected gradients at the perturbed weights, but got none. Call backward"
    )
    with refused, optimizer.perturbed():
        optimizer.loss(model(x), y)
    assert_same(weights(model), before)


@pytest.mark.parametrize("name", ["sam", "csam", "looksam", "csam:every=2"])
def test_a_second_perturbed_pass_is_refused(name):
    """Two micro-batches with both passes each, as under ``accelerator.accumulate``: the first one's would be lost."""
    model, optimizer, (x, y) = setup(name)
    optimizer.step(losses(model, x, y))  # the next one may be a step without climb
    for t in range(2):
        optimizer.zero_grad()
        optimizer.loss(model(x), y).backward()
        with optimizer.perturbed():
            optimizer.loss(model(x), y).backward()
        if t == 0:  # given up
            continue
        optimizer.loss(model(x), y).backward()
        with pytest.raises(InputError, match="Expected one perturbed pass per step"), optimizer.perturbed():
            optimizer.loss(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize(("name", "words"), [("csam:m=4", "parts of 4 examples"), ("amp:steps=2", "2 ascent steps")])
def test_what_needs_a_closure_is_refused_without_one(name, words):
    model, optimizer, (x, y) = setup(name)
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    with pytest.raises(InputError, match=f"{words}.* but got a loop without"), optimizer.perturbed():
        optimizer.loss(model(x), y).backward()


def test_a_clean_pass_of_bsam_at_the_mean_is_refused():
    model = mlp()
    optimizer = BSAM(model.parameters(), model, n_train=50)
    x, y = batches(1, shape=(12,))[0]
    optimizer.loss(model(x), y).backward()
    refused = pytest.raises(InputError, match=r"at a sample from the posterior, but got one at its mean. Put it")
    with refused, optimizer.perturbed():
        optimizer.loss(model(x), y).backward()


# Accumulation. What Lightning does with accumulate_grad_batches=2: the first closure is called by itself, and the
# second one, which does not clear the gradients, is handed to the optimizer.


def micro_step(model, optimizer, x, y):
    optimizer.zero_grad()
    (optimizer.loss(model(x[:4]), y[:4]) / 2).backward()

    def closure():
        loss = optimizer.loss(model(x[4:]), y[4:]) / 2
        loss.backward()
        return loss

    return optimizer.step(closure)


@pytest.mark.parametrize("name", wrappers())
def test_gradients_of_earlier_micro_batches_are_not_dropped(name):
    model, optimizer, (x, y) = setup(name)
    before = weights(model)
    with pytest.raises(InputError, match="Expected a closure that evaluates the whole batch, but got one that adds"):
        micro_step(model, optimizer, x, y)
    assert_same(weights(model), before)
    with pytest.raises(InputError, match="gradients which no step has used"):  # not at the second attempt either
        optimizer.step(lambda: F.cross_entropy(model(x), y, reduction="none"))
    optimizer.zero_grad()
    optimizer.step(losses(model, x, y))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_one_pass_adds_to_them(set_to_none):
    """As torch's own optimizers do."""
    results = []
    for micro in (True, False):
        model = mlp(dtype=torch.float64)
        optimizer = Plain(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        for x, y in batches(3, shape=(12,)):
            optimizer.zero_grad(set_to_none)
            (micro_step if micro else lambda m, o, a, b: o.step(losses(m, a, b)))(model, optimizer, x.double(), y)
        results.append(weights(model))
    torch.testing.assert_close(*results, atol=1e-14, rtol=0)


def test_a_scalar_without_backward_is_differentiated_beside_them():
    model, optimizer, (x, y) = setup("sgd")
    (F.cross_entropy(model(x[:4]), y[:4]) / 2).backward()
    optimizer.step(lambda: F.cross_entropy(model(x[4:]), y[4:]) / 2)
    other, whole, _ = setup("sgd")
    whole.step(losses(other, x, y))
    torch.testing.assert_close(weights(model), weights(other), atol=1e-7, rtol=0)


def test_losses_per_example_beside_gradients_of_before_are_refused():
    """Whether these are micro-batches or left over from something else cannot be told."""
    for name in ("sgd", "csam"):
        model, optimizer, (x, y) = setup(name)
        F.cross_entropy(model(x), y).backward()
        with pytest.raises(InputError, match=r"call optimizer.zero_grad\(\) before step\(\) if these"):
            optimizer.step(losses(model, x, y))


def test_gradients_that_a_step_has_used_are_cleared():
    model, optimizer, (x, y) = setup("csam")
    train(model, optimizer, [(x, y)] * 2)  # no zero_grad() between them
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    with optimizer.perturbed():
        optimizer.loss(model(x), y).backward()
    optimizer.step()
    optimizer.step(losses(model, x, y))
    model.zero_grad(set_to_none=False)
    optimizer.step(losses(model, x, y))
    copied, again = copy.deepcopy((model, optimizer))
    again.step(losses(copied, x, y))


def test_gradients_from_before_the_optimizer_was_made_are_cleared():
    model = mlp()
    x, y = batches(1, shape=(12,))[0]
    warm_up = torch.optim.SGD(model.parameters(), lr=0.1)
    F.cross_entropy(model(x), y).backward()
    warm_up.step()
    make("csam", model).step(losses(model, x, y))


@pytest.mark.parametrize("clear", ["optimizer", "model"])
def test_a_closure_may_clear_them_itself(clear):
    """Standard closures begin that way; whoever clears gradients does not want them."""
    results = []
    for dirty in (True, False):
        model, optimizer, (x, y) = setup("csam")
        if dirty:
            F.cross_entropy(model(x + 1), y).backward()

        def closure(model=model, optimizer=optimizer, x=x, y=y):
            (optimizer if clear == "optimizer" else model).zero_grad()
            loss = optimizer.loss(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
        results.append(weights(model))
    assert_same(*results)


def test_gradients_outlive_a_closure_that_raises():
    model, optimizer, (x, y) = setup("sam")
    F.cross_entropy(model(x), y).backward()

    def lost():
        raise KeyError("lost")

    for _ in range(2):
        with pytest.raises(KeyError):
            optimizer.step(lost)
    assert model[0].weight.grad is not None
    with pytest.raises(InputError, match="gradients which no step has used"):
        optimizer.step(losses(model, x, y))


# Running statistics without a model.


class Two(nn.Module):
    """A network whose second part is called apart from it."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(12, 6), nn.BatchNorm1d(6, affine=False), nn.Tanh())
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.first(x))


def in_parts(model):
    return lambda x: model.head(model.first(x))


FORMS = {
    "eager": lambda model: model,
    "in parts": in_parts,
    "compiled": lambda model: torch.compile(model, backend="aot_eager"),
    "compiled function": lambda model: torch.compile(in_parts(model), backend="aot_eager"),
}


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("explicit", [True, False])
def test_statistics_move_once_without_a_model(form, explicit):
    torch.manual_seed(0)
    model = Two()
    call = FORMS[form](model)
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1))
    twin = copy.deepcopy(model)
    for x, y in batches(2, shape=(12,)):
        if explicit:
            F.cross_entropy(call(x), y).backward()
            with optimizer.perturbed():
                F.cross_entropy(call(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            optimizer.step(lambda x=x, y=y: F.cross_entropy(call(x), y, reduction="none"))
    assert model.first[1].num_batches_tracked == 2
    reference = SAM(torch.optim.SGD(twin.parameters(), lr=0.1), twin)
    train(twin, reference, batches(2, shape=(12,)))
    torch.testing.assert_close(weights(model), weights(twin))


def test_so_do_those_of_layers_that_come_later():
    head = nn.Sequential(nn.Linear(12, 3))
    optimizer = SAM(torch.optim.SGD(head.parameters(), lr=0.1))
    (x, y), *_ = batches(1, shape=(12,))
    optimizer.step(losses(head, x, y))
    head.append(nn.BatchNorm1d(3))
    optimizer.step(losses(head, x, y))
    assert head[1].num_batches_tracked == 1


def test_a_network_beside_it_whose_statistics_move_is_asked_for():
    backbone = nn.Sequential(nn.Linear(12, 12), nn.BatchNorm1d(12)).requires_grad_(False)
    head = nn.Linear(12, 3)
    (x, y), *_ = batches(1, shape=(12,))

    def closure():
        return F.cross_entropy(head(backbone(x)), y, reduction="none")

    optimizer = SAM(torch.optim.SGD(head.parameters(), lr=0.1))
    before = weights(head)
    with pytest.raises(InputError, match=r"moved in the perturbed pass. Pass model=nn.ModuleList"):
        optimizer.step(closure)
    assert_same(weights(head), before)
    backbone[1].num_batches_tracked.zero_()
    SAM(torch.optim.SGD(head.parameters(), lr=0.1), nn.ModuleList([backbone, head])).step(closure)
    assert backbone[1].num_batches_tracked == 1
    backbone.eval()
    optimizer.step(closure)


def test_a_network_that_cannot_be_found_is_asked_for():
    model = net()
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1))
    (x, y), *_ = batches(1)
    gc.freeze()
    try:
        with pytest.raises(InputError, match=r"hidden it. Pass model="):
            optimizer.step(losses(model, x, y))
    finally:
        gc.unfreeze()
    optimizer.step(losses(model, x, y))


# Steps that are skipped.


def explicit(model, optimizer, x, y):
    """A step without closure, of one pass or of two."""
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    if not isinstance(optimizer, Plain):
        with optimizer.perturbed():
            optimizer.loss(model(x), y).backward()
    optimizer.step()


SKIPPED = {
    "closure": lambda model, optimizer, x, y: optimizer.step(losses(model, x, y)),
    "explicit": explicit,
}


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("name", ["sam", "csam", "sgd"])
@pytest.mark.parametrize("form", SKIPPED)
def test_a_skipped_step_changes_no_buffer(name, form, with_model):
    model = net(dropout=0.0)
    optimizer = make(name, model)
    optimizer.nonfinite = "skip"
    optimizer.model = model if with_model else None
    (x, y), *_ = batches(1)
    SKIPPED[form](model, optimizer, x, y)
    before = weights(model)
    with pytest.warns(UserWarning, match="A step was skipped"):
        SKIPPED[form](model, optimizer, x * torch.nan, y)
    assert_same(weights(model), before)
    SKIPPED[form](model, optimizer, x, y)
    assert model.norm.num_batches_tracked == 2
    assert model.norm.running_mean.isfinite().all()


@pytest.mark.parametrize("name", ["sam", "sgd"])
def test_nor_does_one_that_a_scaler_leaves_out(name):
    model = net(dropout=0.0)
    optimizer = make(name, model)
    optimizer.nonfinite = "skip"
    before = weights(model)
    (x, y), *_ = batches(1)
    optimizer.step(losses(model, x * torch.nan, y), scaler=torch.amp.GradScaler("cpu"))
    assert_same(weights(model), before)


def test_a_skip_that_cannot_put_buffers_back_is_said():
    model = net()
    optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model, nonfinite="skip")
    (x, y), *_ = batches(1)
    optimizer.loss(model(x * torch.nan), y).backward()  # without zero_grad() before it
    with optimizer.perturbed():
        optimizer.loss(model(x * torch.nan), y).backward()
    with pytest.raises(InputError, match=r"Expected optimizer.zero_grad\(\) at the start of a step that may be skip"):
        optimizer.step()


def test_an_empty_batch_is_said_to_be_one():
    model, optimizer, (x, y) = setup("csam")
    for step in (
        lambda: optimizer.step(lambda: F.cross_entropy(model(x[:0]), y[:0], reduction="none")),
        lambda: optimizer.loss(model(x[:0]), y[:0]),
    ):
        with pytest.raises(InputError, match=r"Expected at least one example, but got an empty batch. Leave"):
            step()


def test_esam_takes_the_examples_that_grew_most_and_not_tokens():
    """Losses of shape (examples, tokens): by their mean, with and without Parts."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = torch.randn(6, 4, 5), torch.randint(3, (6, 4))
    y[2, 1:] = y[5, :] = -100
    results = []
    for parts in (True, False):
        fresh = copy.deepcopy(model)
        optimizer = ESAM(torch.optim.SGD(fresh.parameters(), lr=0.1), rho=0.5, beta=1.0, gamma=0.4)

        def closure(part=slice(None), fresh=fresh):
            return F.cross_entropy(fresh(x[part]).flatten(0, 1), y[part].flatten(), reduction="none").view(-1, 4)

        optimizer.step(Parts(closure, n=6) if parts else closure)
        results.append(weights(fresh))
    torch.testing.assert_close(*results, atol=1e-7, rtol=1e-6)

    params = list(model.parameters())
    valid = y != -100

    def token_losses():
        return F.cross_entropy(model(x).transpose(1, 2), y, reduction="none")

    clean = token_losses()
    grads = torch.autograd.grad(clean.sum() / valid.sum(), params)
    norm = torch.cat([g.flatten() for g in grads]).norm()
    at = [p.detach().clone() for p in params]
    with torch.no_grad():
        for p, g in zip(params, grads, strict=True):
            p.add_(0.5 * g / norm)
    there = token_losses()
    grown = (there - clean).detach().sum(1)[:5] / valid.sum(1)[:5]  # the sixth has no token that counts
    kept = grown.topk(2).indices  # round(0.4 · 5)
    found = torch.autograd.grad(there[kept].sum() / valid[kept].sum(), params)
    expected = [a - 0.1 * g for a, g in zip(at, found, strict=True)]
    torch.testing.assert_close(results[0], expected, atol=1e-6, rtol=1e-5)


def test_parts_that_give_tokens_in_one_row_are_refused_by_esam():
    model = nn.Linear(5, 3)
    x, y = torch.randn(6, 4, 5), torch.randint(3, (6, 4))
    optimizer = ESAM(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(InputError, match="Expected one row of losses from Parts for each of 6 examples, but got 24"):
        optimizer.step(
            Parts(lambda part: F.cross_entropy(model(x[part]).flatten(0, 1), y[part].flatten(), reduction="none"), n=6)
        )


def test_terms_may_say_what_counts():
    w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    optimizer = Plain(torch.optim.SGD([w], lr=1.0))
    loss = optimizer.step(lambda: LossTerms(w**2, counted=torch.tensor([True, False, True])))
    assert loss.item() == 5.0
    assert w.tolist() == [0.0, 2.0, 0.0]
