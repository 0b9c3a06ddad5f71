"""Plain loops with ``replay`` that cannot be repeated: all of them are refused."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.errors import InputError, OptionError
from surefoot.method import parse_method
from surefoot.optim import AMP, BSAM, CSAM, ESAM, SAM, SharpnessAware
from surefoot.registry import OPTIMIZERS
from surefoot.schema import LossTerms
from tests.optim.plain_loops import X2, Y2, X, Y, by_closure, make, plain, setup, trained
from tests.optim.problems import assert_same, batches, mlp, net, weights

# Loops that cannot be repeated. Each leaves the weights as they were, and the next step is as if nothing had happened.


class Siamese:
    """Two passes in one loss, in the forms that people have."""

    @staticmethod
    def one_loss(model, optimizer):
        optimizer.loss(torch.cat([model(X), model(X2)]), torch.cat([Y, Y2])).backward()

    @staticmethod
    def a_second_term(model, optimizer):
        (optimizer.loss(model(X), Y) + model(X2).square().mean()).backward()

    @staticmethod
    def a_second_term_first(model, optimizer):
        (model(X2).square().mean() + optimizer.loss(model(X), Y)).backward()

    @staticmethod
    def a_backward_of_its_own(model, optimizer):
        optimizer.loss(model(X), Y).backward()
        model(X2).square().mean().backward()


def on_the_logits(model, optimizer):
    logits = model(X)
    (optimizer.loss(logits, Y) + 0.01 * logits.square().mean()).backward()


def weight_decay(model):
    return 0.001 * sum(p.square().sum() for p in model.parameters() if p is not model.unused)


def penalty(model, optimizer):
    """Every gradient of it is added to one of the loss before anybody sees it."""
    (optimizer.loss(model(X), Y) + weight_decay(model)).backward()


def penalty_on_more(model, optimizer):
    (optimizer.loss(model(X), Y) + model.unused.square().sum()).backward()


def penalty_apart(model, optimizer):
    weight_decay(model).backward()
    optimizer.loss(model(X), Y).backward()


def another_loss(model, optimizer):
    F.cross_entropy(model(X), Y).backward()


def clipped(model, optimizer):
    optimizer.loss(model(X), Y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 100.0)


def replaced(model, optimizer):
    optimizer.loss(model(X), Y).backward()
    for parameter in model.parameters():
        parameter.grad = None if parameter.grad is None else parameter.grad * 0.5


def input_written(model, optimizer):
    x = X.clone()
    optimizer.loss(model(x), Y).backward()
    x.copy_(X2)


def labels_written(model, optimizer):
    y = Y.clone()
    optimizer.loss(model(X), y).backward()
    y.copy_(Y2)


def logits_written(model, optimizer):
    logits = model(X)
    logits /= 2
    optimizer.loss(logits, Y).backward()


def logits_changed(model, optimizer):
    optimizer.loss(model(X) / 2, Y).backward()


def no_gradient(model, optimizer):
    with torch.no_grad():
        logits = model(X)
    optimizer.loss(logits.requires_grad_(), Y).backward()


def parts_of_the_model(model, optimizer):
    hidden = model.hidden(model.norm(model.conv(X)).flatten(1)).tanh()
    optimizer.loss(model.head(hidden), Y).backward()


def nothing_recorded(model, optimizer):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)


def other_mode(model, optimizer):
    optimizer.loss(model(X), Y).backward()
    model.dropout.eval()


def differentiated_twice(model, optimizer):
    loss = optimizer.loss(model(X), Y)
    loss.backward(retain_graph=True)
    loss.backward()


def turned_round(model, optimizer):
    ((optimizer.loss(model(X), Y) - 100).abs() + 100).backward()


def input_with_gradient(model, optimizer):
    optimizer.loss(model(X.clone().requires_grad_()), Y).backward()


def terms_of_its_own(model, optimizer):
    optimizer.reduce(LossTerms(F.cross_entropy(model(X), Y, reduction="none"))).backward()


FROM_ELSEWHERE = r"Expected a loss that the optimizer was given, .* but got gradients from elsewhere. Call optimizer.lo"
ANOTHER = r"Expected an output of the optimizer's Net as it was returned, but got another tensor"
MORE = r"Expected gradients of the optimizer's loss alone with replay, but got more: of another loss"
CHANGED = (
    r"Expected gradients as backward\(\) left them, to climb along .* Clip what is stepped on: optimizer.register_st"
)
REHEARSED = (
    r"Expected the same gradient from the same pass with replay, but got one that is off by .* A penalty on the w"
)
REFUSED = {
    Siamese.one_loss: ANOTHER,
    Siamese.a_second_term: MORE,
    Siamese.a_second_term_first: MORE,
    Siamese.a_backward_of_its_own: MORE,
    on_the_logits: MORE,
    penalty: REHEARSED,
    penalty_on_more: MORE,
    penalty_apart: MORE,
    another_loss: FROM_ELSEWHERE,
    clipped: CHANGED,
    replaced: CHANGED,
    input_written: r"Expected inputs and labels as they were with replay, but got some that were written to since",
    labels_written: r"Expected inputs and labels as they were with replay, but got some that were written to",
    logits_written: ANOTHER,
    logits_changed: ANOTHER,
    no_gradient: ANOTHER,
    parts_of_the_model: ANOTHER,
    nothing_recorded: FROM_ELSEWHERE,
    other_mode: r"Expected weights and modes as in the forward pass with replay, but got others",
    differentiated_twice: r"Expected one backward\(\) for a loss with replay, but got several. Evaluate the batch in",
    turned_round: r"Expected a loss that is scaled or added to with replay, but got one that goes up. Do it",
    terms_of_its_own: FROM_ELSEWHERE,
    input_with_gradient: r"Expected inputs that are data with replay, but got one that requires a gradient",
}


def advance(loop, model, optimizer):
    optimizer.zero_grad()
    loop(model, optimizer)
    optimizer.step()


@pytest.mark.parametrize("cls", [SAM, CSAM])
@pytest.mark.parametrize("loop", REFUSED, ids=lambda loop: loop.__name__)
def test_what_cannot_be_repeated_is_refused(loop, cls):
    model, optimizer = setup(cls)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    statistics, draws = copy.deepcopy(model.norm.state_dict()), torch.get_rng_state()
    with pytest.raises(InputError, match=REFUSED[loop]):
        advance(loop, model, optimizer)
    assert_same(list(model.parameters()), before)
    model.train()
    model.norm.load_state_dict(statistics)
    torch.set_rng_state(draws)
    plain(model, optimizer)
    assert_same(weights(model), trained(by_closure, cls, [(X, Y)])[0])


def test_a_term_that_comes_later_is_found_before_the_steps_have_doubled():
    model, optimizer = setup()
    plain(model, optimizer)
    plain(model, optimizer)
    advance(penalty, model, optimizer)  # the third step is not rehearsed
    with pytest.raises(InputError, match=REHEARSED):
        advance(penalty, model, optimizer)


def test_losses_that_are_not_differentiated_are_left_out():
    """As of batches that a loop leaves out, before zero_grad() or after it; nothing of them is kept either."""
    model, optimizer = setup(CSAM)
    model.eval()
    with torch.inference_mode():
        optimizer.loss(model(X2), Y2)
    skipped = X2.clone()
    gone = weakref.ref(skipped)
    loss = optimizer.loss(model(skipped), Y2)
    optimizer.zero_grad()
    loss = optimizer.loss(model(skipped), Y2)
    del skipped
    model.train()
    plain(model, optimizer)
    assert_same(weights(model), trained(by_closure, CSAM, [(X, Y)])[0])
    del loss
    gc.collect()
    assert gone() is None


def test_esam_compares_losses_one_by_one_and_asks_for_all_of_them():
    model, optimizer = setup(ESAM)
    optimizer.zero_grad()
    optimizer.loss(model(X), Y).backward()
    optimizer.loss(model(X2), Y2)
    with pytest.raises(InputError, match=r"Expected backward\(\) for every loss with replay, but got none for one"):
        optimizer.step()


def test_a_loop_that_never_clears_its_gradients_is_refused():
    model, optimizer = setup()
    optimizer.loss(model(X), Y).backward()
    optimizer.step()
    optimizer.loss(model(X), Y).backward()
    with pytest.raises(InputError, match=MORE):
        optimizer.step()


def test_another_optimizers_step_in_between_is_refused():
    model, optimizer = setup()
    other = torch.optim.SGD(model.head.parameters(), lr=0.1)
    optimizer.zero_grad()
    optimizer.loss(model(X), Y).backward()
    other.step()
    with pytest.raises(InputError, match="Expected weights and modes as in the forward pass with replay, but got othe"):
        optimizer.step()


def test_a_model_with_a_generator_of_its_own_is_refused():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.draw = mlp(), torch.Generator().manual_seed(0)

        def forward(self, x):
            return self.net(x + torch.randn(x.shape, generator=self.draw))

    model = Noisy()
    (x, y), *_ = batches(1, shape=(12,))
    with pytest.raises(InputError, match=REHEARSED):
        plain(model, make(SAM, model, replay=True), x, y)


def test_clipping_what_is_stepped_on():
    results = []
    for step in (by_closure, plain):
        model = net()
        optimizer = make(CSAM, model, replay=step is plain)
        optimizer.register_step_pre_hook(lambda *_, m=model: nn.utils.clip_grad_norm_(m.parameters(), 0.01))
        torch.manual_seed(0)
        for x, y in batches(3):
            step(model, optimizer, x, y)
        results.append(weights(model))
    assert_same(*results)


def test_steps_that_do_not_climb_may_be_clipped_by_hand():
    model, optimizer = setup(every=2)
    plain(model, optimizer)
    optimizer.zero_grad()
    clipped(model, optimizer)
    optimizer.step()


# What is refused when it is made, and who is not asked at all.


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (
            lambda m, b: SAM(b, replay=True),
            r"Expected a model .* with replay, but got none. Write SAM\(base, model, repl",
        ),
        (
            lambda m, b: SAM(b, m, replay="yes"),
            "Expected replay to be True or a loss function, but got 'yes'. Write Tru",
        ),
        (
            lambda m, b: SAM(b, m, m=4, replay=True),
            "Expected two passes of the whole batch with replay, but got m= or s",
        ),
        (
            lambda m, b: AMP(b, m, steps=2, replay=True),
            "Expected two passes of the whole batch with replay, but got m=",
        ),
        (
            lambda m, b: BSAM(m.parameters(), m, replay=True),
            "Expected a clean pass at the weights as they are with rep",
        ),
        (
            lambda m, b: SAM(b, m, perturbation="rank", replay=True),
            "Expected ranks that climb together, .* Leave it out",
        ),
        (
            lambda m, b: OPTIMIZERS["bulk_sgd"].build(b, m, replay=True),
            "Expected a method with a second pass for replay",
        ),
    ],
)
def test_what_is_refused_at_once(make_it, message):
    model = net()
    with pytest.raises(InputError, match=message):
        make_it(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_the_form_of_other_libraries():
    model = net()
    optimizer = SAM(model.parameters(), torch.optim.SGD, model=model, rho=0.1, lr=0.1, replay=True)
    plain(model, optimizer)
    assert isinstance(SAM(model.parameters(), torch.optim.SGD, lr=0.1, replay=False), SharpnessAware)


def test_it_is_no_option_of_a_run():
    assert all("replay" not in part.options for part in OPTIMIZERS)
    with pytest.raises(OptionError, match="Unknown option 'replay' for 'csam'"):
        parse_method("csam:replay=true")
