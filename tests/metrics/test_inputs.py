"""Whatever predictions come as, every metric gives the same number; what is wrong with them is said in one sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.errors import InputError
from surefoot.metrics import Stream, bootstrap, chance, from_logits, paired_bootstrap, reliability, verdict
from surefoot.registry import METRICS, Part

Convert = Callable[[torch.Tensor], Any]
N, K = 60, 4
LOGITS = 2 * torch.randn(N, K, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(N) % K
# Eighths, so that all float types hold the same numbers and many are equal.
EIGHTHS = torch.tensor([[4, 2, 1, 1], [1, 5, 1, 1], [0, 0, 8, 0], [3, 3, 1, 1], [2, 2, 2, 2], [1, 1, 0, 6]]) / 8
PROBS = EIGHTHS.repeat(N // len(EIGHTHS), 1)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array = array.copy()
    array.setflags(write=False)
    return array


KINDS: dict[str, tuple[Convert, Convert]] = {
    "float32": (torch.Tensor.float, torch.Tensor.int),
    "float16": (torch.Tensor.half, torch.Tensor.char),
    "bfloat16": (torch.Tensor.bfloat16, torch.Tensor.byte),
    "with gradients": (lambda p: p.clone().requires_grad_(), torch.Tensor.short),
    "transposed": (lambda p: p.T.contiguous().T, torch.Tensor.long),
    "numpy": (lambda p: p.double().numpy(), lambda y: y.numpy()),
    "numpy float16": (lambda p: p.half().numpy(), lambda y: y.numpy().astype(np.uint16)),
    "numpy longdouble": (lambda p: p.numpy().astype(np.longdouble), lambda y: y.numpy().astype(np.uint64)),
    "read-only": (lambda p: read_only(p.numpy()), lambda y: read_only(y.numpy())),
    "other byte order": (lambda p: p.numpy().astype(">f4"), lambda y: y.numpy().astype(">i2")),
    "backward": (lambda p: p.flip(0).numpy()[::-1], lambda y: y.flip(0).numpy()[::-1]),
    "lists": (torch.Tensor.tolist, torch.Tensor.tolist),
    "tuples": (lambda p: tuple(map(tuple, p.tolist())), lambda y: tuple(y.tolist())),
    "lists of tensors": (list, list),
}


every = pytest.mark.parametrize("metric", list(METRICS), ids=lambda part: part.name)


@every
def test_every_kind_of_input_gives_the_same_number(metric: Part) -> None:
    expected = metric.build(PROBS.double(), LABELS)
    for kind, (of_probs, of_labels) in KINDS.items():
        value = metric.build(of_probs(PROBS), of_labels(LABELS))
        assert value.dtype == torch.float64, kind
        assert value.shape == (), kind
        assert value.item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-7, nan_ok=True), kind


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every
def test_a_softmax_in_half_precision_is_welcome(metric: Part, dtype: torch.dtype) -> None:
    """Its rows do not sum to one exactly; the numbers are those of the rounded probabilities."""
    probs = LOGITS.to(dtype).softmax(1)
    value = metric.build(probs, LABELS)
    off = 20 * torch.finfo(dtype).eps  # log p of small probabilities is off by several roundings
    torch.testing.assert_close(value, metric.build(LOGITS.double().softmax(1), LABELS), rtol=off, atol=off)


def test_one_hot_rows_of_whole_numbers_are_probabilities() -> None:
    assert METRICS["accuracy"].build([[1, 0], [0, 1], [1, 0]], [0, 1, 1]).item() == pytest.approx(2 / 3)
    assert METRICS["accuracy"].build(np.eye(2, dtype=bool), np.array([False, True])).item() == 1


def test_what_goes_around_metrics_takes_the_same() -> None:
    probs, labels, logits = PROBS.tolist(), LABELS.numpy(), LOGITS.numpy()
    assert bootstrap("ece", probs, labels) == bootstrap("ece", PROBS.double(), LABELS)
    assert chance("mce", probs, labels) == chance("mce", PROBS.double(), LABELS)
    assert verdict(probs, labels) == verdict(PROBS.double(), LABELS)
    assert reliability(probs, labels) == reliability(PROBS.double(), LABELS)
    assert paired_bootstrap("brier", probs, PROBS, labels).estimate == 0
    for name in ("ece", "brier"):
        assert torch.equal(from_logits(name, logits, labels), from_logits(name, LOGITS, LABELS))
    stream = Stream("brier")
    stream.update(probs, labels)
    assert stream.compute() == METRICS["brier"].build(PROBS.double(), LABELS)


WRONG: list[tuple[Any, Any, str]] = [
    ([0.2, 0.8], [0, 1], r"but got \(2,\) and \(2,\)\. Pass one row .*Of two classes, pass both columns: \[1 − p, p\]"),
    ([[0.2, 0.8]], [[1]], r"Expected probs \(n, classes\) and labels \(n,\) with n ≥ 1, but got \(1, 2\) and \(1, 1\)"),
    ([], [], r"with n ≥ 1, but got \(0,\) and \(0,\)"),
    ([[0.2, 0.8]], [1, 0], r"Expected one label per row of probs, but got 1 rows and 2 labels"),
    ([[0.2, 0.8], [0.5]], [1, 0], r"Expected rows of probs to be equally long"),
    ([["a", "b"]], [1], r"Expected probs to be numbers, but got <U1"),
    ([[0.2, 0.8]], ["cat"], r"Expected labels to be numbers, but got <U3"),
    ([[0.2, 0.8]], [1.0], r"Expected whole numbers as labels, but got torch.float64\. Pass labels of an integer type"),
    (
        [[0.2, 0.8]] * 2,
        [1, 2],
        r"Expected labels in 0…1, one of 2 classes, but label 1 is 2\. Number the classes",
    ),
    ([[0.2, 0.8]], [-1], r"but label 0 is -1"),
    ([[0.2, 0.8], [-1.0, 2.0]], [0, 1], r"row 1 sums to 1 with minimum -1\. Pass logits\.softmax\(-1\)\."),
    ([[3.0, 4.0]], [1], r"row 0 sums to 7 with minimum 3\. Pass logits\.softmax\(-1\)\."),
    ([[0.2, 0.7]], [1], r"row 0 sums to 0\.9 with minimum 0\.2\. Divide each row by its sum, or pass all classes\."),
    ([[float("nan"), 1.0]], [1], r"row 0 sums to nan .*\. Find out where the model gives NaN\."),
]


@every
def test_what_is_wrong_is_said_in_one_sentence(metric: Part) -> None:
    for probs, labels, says in WRONG:
        with pytest.raises(InputError, match=says) as error:
            metric.build(probs, labels)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import surefoot.metrics.ece",
        "import surefoot.metrics.verdict, surefoot.metrics.reliability",
        "from surefoot.metrics.nll import nll",
        "from surefoot.registry import METRICS; list(METRICS)",
        "import surefoot; surefoot.ece",
    ],
)
def test_names_are_functions_and_classes_whatever_was_imported_before(before: str) -> None:
    code = f"""
{before}
import surefoot.metrics
from surefoot.metrics import *
import surefoot.metrics.ece, surefoot.metrics.nll, surefoot.metrics.bootstrap, surefoot.metrics.chance
from surefoot.metrics import ece, nll, brier, verdict, reliability, bootstrap, chance, Stream
from surefoot.registry import METRICS
from types import ModuleType
names = {{*surefoot.metrics.__all__, *(part.name for part in METRICS)}}
wrong = [name for name in names if isinstance(getattr(surefoot.metrics, name), ModuleType)]
assert not wrong, wrong
assert all(getattr(surefoot.metrics, part.name) is part.build for part in METRICS)
assert float(ece([[0.75, 0.25]], [0])) == 0.25
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
