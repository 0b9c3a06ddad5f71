"""Plain loops with ``replay``: the same weights as with a closure, bit for bit."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from surefoot.errors import InputError
from surefoot.optim import AESAM, CSAM, ESAM, SAM
from surefoot.registry import OPTIMIZERS
from tests.optim.plain_loops import METHODS, X2, Y2, X, Y, bf16, by_closure, make, plain, setup, trained
from tests.optim.problems import assert_same, batches, mlp, net, weights, wrappers


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_the_weights_are_those_of_a_closure(name, micro, low):
    """With dropout and BatchNorm, whose statistics move once per micro-batch; rehearsals make a third pass."""
    data = batches(5)
    expected, *_ = trained(by_closure, METHODS[name], data, micro=micro, low=low)
    found, counts, model = trained(plain, METHODS[name], data, {"replay": True}, micro=micro, low=low)
    assert_same(found, expected)
    assert counts == [3 * micro, 3 * micro, 2 * micro, 3 * micro, 2 * micro]
    assert model.norm.num_batches_tracked == 5 * micro


OTHERS = [(name, {}) for name in wrappers() if name not in (*METHODS, "bsam")]


@pytest.mark.parametrize(("name", "options"), [*OTHERS, ("csam", {"every": 2}), ("csam", {"ascent": "vasso"})])
def test_so_are_those_of_every_method(name, options):
    cls = OPTIMIZERS[name].build
    expected, *_ = trained(by_closure, cls, batches(5), options)
    found, counts, _ = trained(plain, cls, batches(5), {**options, "replay": True})
    assert_same(found, expected)
    if options.get("every") == 2:
        assert counts == [3, 1, 3, 1, 2]


def tutorial_order(model, optimizer, x, y):
    loss = optimizer.loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def cleared_at_the_end(model, optimizer, x, y):
    optimizer.loss(model(x), y).backward()
    optimizer.step()
    model.zero_grad()


def cleared_in_place(model, optimizer, x, y):
    optimizer.loss(model(x), y).backward()
    optimizer.step()
    model.zero_grad(set_to_none=False)


def with_looks_aside(model, optimizer, x, y):
    """Validation and a search for hard inputs, at the worst moments; nothing of it is in the gradients."""
    optimizer.zero_grad()
    logits = model(x)
    model.eval()
    with torch.no_grad():
        optimizer.loss(model(X2), Y2)
    model.train()
    loss = optimizer.loss(logits, y)
    loss.backward()
    model.eval()
    attacked = X2.clone().requires_grad_()
    torch.autograd.grad(F.cross_entropy(model(attacked), Y2), attacked)
    model(X2)
    model.train()
    optimizer.step()


def in_one_backward(model, optimizer, x, y):
    optimizer.zero_grad()
    losses = [optimizer.loss(model(a), b) for a, b in zip(x.chunk(2), y.chunk(2), strict=True)]
    ((losses[0] + losses[1]) / 2).backward()
    optimizer.step()


@pytest.mark.parametrize("cls", [CSAM, ESAM])
@pytest.mark.parametrize(
    "loop", [tutorial_order, cleared_at_the_end, cleared_in_place, with_looks_aside, in_one_backward]
)
def test_other_orders_are_the_same_loop(loop, cls):
    micro = 2 if loop is in_one_backward else 1
    expected, *_ = trained(by_closure, cls, batches(3), micro=micro)
    assert_same(trained(loop, cls, batches(3), {"replay": True})[0], expected)


def test_autocast_may_be_around_everything():
    results = []
    for step in (by_closure, plain):
        with bf16():
            results.append(trained(step, CSAM, batches(3), {"replay": step is plain})[0])
    assert_same(*results)


# Losses that the optimizer is given.


def unchanged(criterion):
    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def closure_of(criterion):
    def step(model, optimizer, x, y):
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)

    return step


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": torch.tensor([1.0, 2.0, 3.0])}])
def test_a_module_is_listened_to_where_it_is_called(options):
    criterion = nn.CrossEntropyLoss(**options)
    expected, *_ = trained(closure_of(criterion), SAM, batches(3))
    found, *_ = trained(unchanged(criterion), SAM, batches(3), {"replay": criterion})
    assert_same(found, expected)


def test_csam_takes_torchs_cross_entropy_apart():
    data = [(x, torch.where(torch.arange(8) == 3, -100, y)) for x, y in batches(3)]
    criterion = nn.CrossEntropyLoss()
    found, *_ = trained(unchanged(criterion), CSAM, data, {"replay": criterion})
    assert_same(found, trained(by_closure, CSAM, data)[0])
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    with pytest.raises(InputError, match=r"Expected one loss per example for CSAM, but got a scalar that is not torch"):
        trained(unchanged(smooth), CSAM, data, {"replay": smooth})


class Outputs(nn.Module):
    """A network that returns a dict, as those of transformers do."""

    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, *, inputs):
        logits = self.net(inputs)
        return {"logits": logits, "hidden": (logits.tanh(),)}


def test_functions_and_outputs_of_any_shape():
    """A function is called by ``optimizer.loss``; it may be given a tensor of the output, or all of it."""

    def function(output, labels):
        logits = output if isinstance(output, torch.Tensor) else output["logits"]
        return (F.cross_entropy(logits.float() / 2, labels) - 0.1).abs()

    results = []
    for form in ("closure", "tensor", "whole"):
        model = Outputs()
        optimizer = make(SAM, model, replay=form != "closure" and function)
        torch.manual_seed(0)
        for x, y in batches(3):
            if form == "closure":
                optimizer.step(lambda x=x, y=y, m=model: function(m(inputs=x), y))
            else:
                optimizer.zero_grad()
                output = model(inputs=x)
                optimizer.loss(output["logits"] if form == "tensor" else output, y).backward()
                optimizer.step()
        results.append(weights(model))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def test_two_losses_of_one_output():
    """As mixup has them: one forward pass, repeated once."""

    def mixed(model, optimizer, x, y):
        logits = model(x)
        return 0.3 * optimizer.loss(logits, y) + 0.7 * optimizer.loss(logits, y.flip(0))

    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        mixed(model, optimizer, x, y).backward()
        optimizer.step()

    expected, *_ = trained(lambda m, o, x, y: o.step(lambda: mixed(m, o, x, y)), CSAM, batches(3))
    found, counts, _ = trained(step, CSAM, batches(3), {"replay": True})
    assert_same(found, expected)
    assert counts == [3, 3, 2]


# Scalers.


@pytest.mark.parametrize("cls", [SAM, CSAM])
def test_a_scaler_is_handed_to_the_step(cls):
    results = []
    for replay in (False, True):
        model = net()
        optimizer = make(cls, model, replay=replay)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        torch.manual_seed(0)
        for x, y in batches(3):
            if replay:
                optimizer.zero_grad()
                scaler.scale(optimizer.loss(model(x), y)).backward()
                optimizer.step(scaler=scaler)
            else:
                optimizer.step(lambda m=model, x=x, y=y: F.cross_entropy(m(x), y, reduction="none"), scaler=scaler)
            scaler.update()
        results.append(weights(model))
    assert_same(*results)


def test_a_scaler_that_steps_by_itself_is_refused():
    model, optimizer = setup()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.zero_grad()
    scaler.scale(optimizer.loss(model(X), Y)).backward()
    with pytest.raises(InputError, match=r"Expected optimizer.step\(scaler=scaler\) with replay, but got scaler.step"):
        scaler.step(optimizer)
    model, optimizer = setup(AESAM)
    optimizer.zero_grad()
    scaler.scale(optimizer.loss(model(X), Y)).backward()
    with pytest.raises(InputError, match="Expected a closure for AESAM with a GradScaler"):
        optimizer.step(scaler=scaler)


def test_an_overflow_leaves_everything_as_it_was():
    model, optimizer = setup(SAM)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.zero_grad()
    scaler.scale(optimizer.loss(model(X * torch.inf), Y)).backward()
    optimizer.step(scaler=scaler)
    scaler.update()
    assert scaler.get_scale() == 512.0
    assert_same(list(model.parameters()), before)


def test_a_loss_that_is_not_finite_is_skipped_if_asked_for():
    model, optimizer = setup(nonfinite="skip")
    plain(model, optimizer)
    before = weights(model)
    with pytest.warns(UserWarning, match="A step was skipped"):
        plain(model, optimizer, X * torch.nan)
    assert_same(weights(model), before)


# Other ways to run a model.


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x):
            x = checkpoint(lambda x: self.net.dropout(self.net.conv(x)).relu(), x, use_reentrant=reentrant)
            return self.net.head(self.net.hidden(x.flatten(1)).tanh())

    results = []
    x = X.clone().requires_grad_(reentrant)  # which that form asks for
    for step in (by_closure, plain):
        model = Checkpointed()
        optimizer = make(CSAM, model, replay=step is plain)
        torch.manual_seed(0)
        if step is plain and reentrant:
            with pytest.raises(InputError, match="Expected inputs that are data"):
                step(model, optimizer, x)
            return
        for _ in range(3):
            step(model, optimizer, x)
        results.append(weights(model))
    assert_same(*results)


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
def test_compiled_models():
    model = mlp()
    (x, y), *_ = batches(1, shape=(12,))
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer, reference = make(CSAM, compiled, replay=True), make(CSAM, twin)
    for _ in range(3):
        plain(compiled, optimizer, x, y)
        by_closure(twin, reference, x, y)
    torch.testing.assert_close(weights(model), weights(twin))
    with pytest.raises(InputError, match=r"Of DDP or torch.compile, give the optimizer what they return"):
        plain(torch.compile(twin, backend="aot_eager"), make(CSAM, twin, replay=True), x, y)


def test_closures_and_perturbed_work_as_ever():
    results = []
    for options in ({}, {"replay": True}):
        model = net()
        optimizer = make(CSAM, model, **options)
        torch.manual_seed(0)
        by_closure(model, optimizer)
        optimizer.step(lambda m=model: F.cross_entropy(m(X), Y, reduction="none"))
        optimizer.zero_grad()
        optimizer.loss(model(X), Y).backward()
        with optimizer.perturbed():
            optimizer.loss(model(X), Y).backward()
        optimizer.step()
        results.append(weights(model))
    assert_same(*results)


# What the hooks leave behind.


def test_nothing_is_kept_after_a_step():
    model, optimizer = setup()
    x, y = X.clone(), Y.clone()
    kept = [weakref.ref(x), weakref.ref(y)]
    for forgotten in (False, True):
        optimizer.zero_grad()
        logits = model(x)
        kept.append(weakref.ref(logits))
        loss = optimizer.loss(logits, y)
        loss.backward()
        if forgotten:
            model(x)  # nobody wanted its output
        optimizer.step()
        del logits, loss
    del x, y
    gc.collect()
    assert [each() for each in kept] == [None] * 4
    other = X.clone()
    dead = weakref.ref(other)
    model(other)
    del other
    gc.collect()
    assert dead() is None


def test_copies_listen_to_copies():
    model, optimizer = setup()
    plain(model, optimizer)
    pairs = [(model, optimizer), copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    for each, own in pairs:
        assert type(own).__name__ == "CSAM"
        assert isinstance(own, CSAM)
        torch.manual_seed(0)
        plain(each, own, X2, Y2)
    assert_same(weights(pairs[1][0]), weights(model))
    assert_same(weights(pairs[2][0]), weights(model))


def test_a_copy_of_the_model_alone_is_an_ordinary_model():
    model, optimizer = setup()
    plain(model, optimizer)
    average = AveragedModel(model)
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    for other in (average, copy.deepcopy(model), torch.load(stored, weights_only=False)):
        F.cross_entropy(other(X), Y).backward()
    assert not optimizer._recorder.claims
    average.update_parameters(model)
    plain(model, optimizer)


def test_states_are_those_of_the_class():
    model, optimizer = setup()
    plain(model, optimizer)
    other = net()
    again = make(CSAM, other)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    other.load_state_dict(model.state_dict())
    torch.manual_seed(0)
    plain(model, optimizer, X2, Y2)
    torch.manual_seed(0)
    by_closure(other, again, X2, Y2)
    assert_same(weights(model), weights(other))


def test_a_second_optimizer_takes_over():
    model, optimizer = setup()
    plain(model, optimizer)
    del optimizer
    gc.collect()
    plain(model, make(SAM, model, replay=True))
