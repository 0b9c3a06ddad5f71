"""What every registered metric must do: a new one is tested by being added."""

import math

import pytest
import torch

from surefoot.errors import InputError
from surefoot.metrics import Stream, from_logits
from surefoot.registry import METRICS, Part

ALL = list(METRICS)
STREAMING = [part for part in ALL if "sums" in part.facts]
WHOLE = [part for part in ALL if "sums" not in part.facts]
N, K = 400, 5


def names(part: Part) -> str:
    return part.name


every = pytest.mark.parametrize("metric", ALL, ids=names)


@pytest.fixture
def logits() -> torch.Tensor:
    return 2 * torch.randn(N, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture
def probs(logits: torch.Tensor) -> torch.Tensor:
    return logits.softmax(1)


@pytest.fixture
def labels(probs: torch.Tensor) -> torch.Tensor:
    drawn = torch.multinomial(probs.sqrt(), 1, generator=torch.Generator().manual_seed(2)).squeeze(1)
    drawn[:K] = torch.arange(K)
    return drawn


def assert_in_range(metric: Part, value: torch.Tensor) -> None:
    low, high = metric.facts["range"]
    assert low - 1e-12 <= value.item() <= high + 1e-12


@every
def test_gives_a_float64_scalar_in_its_range(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    value = metric.build(probs, labels)
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert_in_range(metric, value)


@every
def test_declares_its_facts(metric: Part) -> None:
    assert metric.facts["lower_is_better"] in (True, False, None)
    assert ("sums" in metric.facts) == ("finish" in metric.facts) != ("whole" in metric.facts)
    assert metric.facts["reference"]


@every
def test_order_of_examples_is_of_no_account(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    if metric.facts.get("ordered"):
        pytest.skip(metric.facts["ordered"])
    probs = (probs * 8).round().clamp(min=1) / 8  # many ties
    probs = probs / probs.sum(1, keepdim=True)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(metric.build(probs[order], labels[order]), metric.build(probs, labels))


@every
def test_numbering_of_classes_is_of_no_account(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    order = torch.randperm(K, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(metric.build(probs[:, order], order.argsort()[labels]), metric.build(probs, labels))


def best_value(metric: Part) -> float:
    low, high = metric.facts["range"]
    return metric.facts.get("perfect", low if metric.facts["lower_is_better"] else high)


@every
def test_perfect_predictions_get_the_best_value(metric: Part, labels: torch.Tensor) -> None:
    value = metric.build(torch.nn.functional.one_hot(labels, K).double(), labels).item()
    if math.isnan(best_value(metric)):
        assert math.isnan(value)
    else:
        assert value == pytest.approx(best_value(metric), abs=1e-12)


@every
def test_probabilities_of_exactly_0_and_1(metric: Part, labels: torch.Tensor) -> None:
    guesses = torch.where(torch.arange(N) % 3 == 0, (labels + 1) % K, labels)  # a third is wrong and certain
    value = metric.build(torch.nn.functional.one_hot(guesses, K).float(), labels)
    assert_in_range(metric, value)


@every
def test_worst_predictions_stay_in_range(metric: Part, labels: torch.Tensor) -> None:
    value = metric.build(torch.nn.functional.one_hot((labels + 1) % K, K).double(), labels)
    if not (math.isnan(best_value(metric)) and value.isnan()):
        assert_in_range(metric, value)


@every
def test_float32_is_close_to_float64(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    single = metric.build(probs.float(), labels)
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, metric.build(probs, labels), atol=1e-5, rtol=1e-5)


@every
def test_half_precision_and_gradients_are_welcome(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    value = metric.build(probs.half().requires_grad_(), labels)
    torch.testing.assert_close(value.detach(), metric.build(probs.half().double(), labels), atol=2e-3, rtol=2e-3)


@every
def test_input_is_left_as_it_is(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    before = probs.clone(), labels.clone()
    metric.build(probs, labels)
    assert torch.equal(probs, before[0])
    assert torch.equal(labels, before[1])


@every
def test_logits_are_refused(metric: Part, logits: torch.Tensor, labels: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"Expected rows of probs to be non-negative and to sum to 1, but row 0"):
        metric.build(logits, labels)


@every
def test_one_example(metric: Part) -> None:
    value = metric.build(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))
    if not value.isnan():
        assert_in_range(metric, value)


@every
def test_from_logits_is_from_softmax(metric: Part, logits: torch.Tensor, labels: torch.Tensor) -> None:
    torch.testing.assert_close(
        from_logits(metric.name, logits, labels), metric.build(logits.softmax(1), labels), atol=1e-12, rtol=1e-9
    )


@pytest.mark.parametrize("metric", [part for part in ALL if "top" in part.facts], ids=names)
def test_top_label_is_enough(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    confidence, predicted = probs.max(1)
    torch.testing.assert_close(metric.facts["top"](confidence, predicted == labels), metric.build(probs, labels))


@pytest.mark.parametrize("metric", [part for part in ALL if "each" in part.facts], ids=names)
def test_is_the_mean_of_each(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    options = metric.spec({}).options
    torch.testing.assert_close(metric.facts["each"](probs, labels, **options).mean(), metric.build(probs, labels))


@pytest.mark.parametrize("metric", STREAMING, ids=names)
def test_stream_gives_the_same_on_batches_and_over_ranks(
    metric: Part, probs: torch.Tensor, labels: torch.Tensor
) -> None:
    ranks = [Stream(metric.name) for _ in range(3)]  # the last one sees nothing
    for rank, start in zip([0, 1, 0, 1, 1], range(0, N, 80), strict=True):
        ranks[rank].update(probs[start : start + 80], labels[start : start + 80])
    total = Stream(metric.name)
    for rank in ranks:
        total.merge(rank)
    torch.testing.assert_close(total.compute(), metric.build(probs, labels), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("metric", STREAMING, ids=names)
def test_state_does_not_grow(metric: Part, probs: torch.Tensor, labels: torch.Tensor) -> None:
    options = metric.spec({}).options
    small = metric.facts["sums"](probs[:40], labels[:40], **options)
    large = metric.facts["sums"](probs, labels, **options)
    assert small.shape == large.shape
    assert large.dtype == torch.float64


@pytest.mark.parametrize("metric", WHOLE, ids=names)
def test_stream_says_why_it_cannot(metric: Part) -> None:
    with pytest.raises(InputError, match=f"'{metric.name}' needs all examples at once"):
        Stream(metric.name)
