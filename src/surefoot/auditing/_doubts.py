"""Can the labels belong to these scores? Reversed, shifted or reordered classes fit better, and are found by that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from surefoot.errors import InputError
from surefoot.sources.choices import counts_of
from surefoot.sources.labels import Array
from surefoot.sources.source import SUM_TOLERANCE, Source

CLEAR = 4.0  # standard errors: by chance once in 30,000 files
_HINT = 2.5  # standard errors from which a shift by one is worth a word
_MANY = 20  # rows; fewer prove nothing
_MOST_CLASSES = 2000  # for which all orders are compared
_MUCH = 0.3  # of all rows that another order must bring for the labels to be called wrong
_SOME = 0.05  # for them to be called doubtful


@dataclass(frozen=True)
class _Other:
    """Another way to pair scores and labels: which rows it would make right, and of which it was tested on."""

    what: str
    do: str
    right: Array
    as_is: Array
    informative: bool
    only: bool = False
    """Whether nothing else than this explains it, so that being clearly better is enough."""

    @property
    def gain(self) -> float:
        """By how much more of the rows are right."""
        return float(self.right.mean() - self.as_is.mean())

    @property
    def z(self) -> float:
        """How many standard errors better it is, counting rows that only one of the two gets right."""
        more, less = int((self.right & ~self.as_is).sum()), int((self.as_is & ~self.right).sum())
        return (more - less) / math.sqrt(max(1, more + less))

    @property
    def is_certain(self) -> bool:
        """Whether the labels as they are would give a wrong answer."""
        if self.z < CLEAR or len(self.right) < _MANY or not self.informative:
            return False
        return self.only or (self.gain >= _MUCH and self.right.mean() >= 2 * self.as_is.mean())


def doubts_about(logits: Array, labels: Array, confidence: Array, source: Source) -> tuple[str, ...]:
    """Look whether scores and labels go together, on a random sample of the rows.

    Args:
        logits: Logits of sampled rows, in random order.
        labels: Their labels.
        confidence: Confidences of sampled rows.
        source: Where they are from.

    Returns:
        Sentences that must stand beside every result.

    Raises:
        InputError: If another order of the classes fits so much better that results would be wrong; unless it was said
            what the labels mean.
    """
    guess = logits.argmax(axis=1)
    if source.form == "confidence":
        return ("Every confidence is 1; a calibrated one needs doubt.",) if bool((confidence == 1).all()) else ()
    if source.form == "choices":  # no class has a place of its own that could be mistaken
        below = _below_chance(guess == labels, float((1 / counts_of(logits)).mean()), confidence)
        return (*([below] if below else ()), *_about_scores(logits, confidence, source))
    best = None
    for other in _others(logits, guess, labels, source):  # the simplest first: another must bring more than a little
        if best is None or (other.is_certain, other.gain - _SOME) > (best.is_certain, best.gain):
            best = other
    if best is not None and best.is_certain and not source.settled:
        raise InputError(f"Expected scores and labels that belong together, but {_seen(best, source.where)} {best.do}")
    found = []
    if best is not None and best.z >= (_HINT if best.only else CLEAR) and best.gain >= _SOME and best.informative:
        found.append(f"{_seen(best)} {best.do}".replace("only ", "Only ", 1))
    elif below := _below_chance(guess == labels, 1 / logits.shape[1], confidence):
        found.append(below)
    return (*found, *_about_scores(logits, confidence, source))


def _seen(other: _Other, where: str = "") -> str:
    now, then = (f"{100 * float(each.mean()):.1f} %" for each in (other.as_is, other.right))
    file = f" in {where}" if where else ""
    return f"only {now} of the rows are right, and {then} would be if {other.what}{file}."


def _others(logits: Array, guess: Array, labels: Array, source: Source) -> Iterator[_Other]:
    """List what people get wrong: the first class's number, the order of the columns, the sign of the scores."""
    k, as_is = logits.shape[1], guess == labels
    # Who has said what the labels mean need not be told to say it.
    say = f", or say --labels-are {source.meaning or 'from-0'} if the file is right as it is."
    keep = "." if source.settled else say
    order = f"Bring both into one order{keep}"
    names = source.meaning == "names"
    if not names and labels.min() > 0:
        do = f"Say --labels-are from-1 if they do{keep}"
        yield _other("the labels counted from 1", do, guess, labels - 1, as_is, k, only=True)
    if not names and k > 2 and labels.max() < k - 1:
        do = f"Leave the first column out if it is of no class{keep}"
        yield _other("the first column were left out", do, guess, labels + 1, as_is, k, only=True)
    if k == 2:
        yield _other("the two classes changed places", order, guess, 1 - labels, as_is, k)
        return
    do = f"Change the sign of the scores if the smallest is the best{keep}"
    yield _other("the smallest score were the prediction", do, logits.argmin(axis=1), labels, as_is, k)
    yield _other("the labels ran backwards", order, guess, k - 1 - labels, as_is, k)
    half = len(labels) // 2
    if half >= _MANY and k <= _MOST_CLASSES:
        match = _best_order(guess[:half], labels[:half], k)
        moved = [place for place in range(k) if match[place] != place]
        shown = ", ".join(f"{_name(place, source)} → {_name(match[place], source)}" for place in moved[:3])
        what = f"the labels were in another order ({shown}{', …' if len(moved) > 3 else ''})"
        yield _other(what, order, guess[half:], match[labels[half:]], as_is[half:], k)


def _other(
    what: str, do: str, guess: Array, labels: Array, as_is: Array, n_classes: int, *, only: bool = False
) -> _Other:
    right = guess == labels
    return _Other(what, do, right, as_is, _is_informative(guess, labels, right, n_classes), only)


def _is_informative(guess: Array, labels: Array, right: Array, n_classes: int) -> bool:
    """Return whether more rows are right than if guesses and labels had nothing to do with each other."""
    n = len(labels)
    shares = [np.bincount(np.clip(each, 0, n_classes), minlength=n_classes + 1) / n for each in (guess, labels)]
    chance = float((shares[0] * shares[1])[:n_classes].sum())
    spread = math.sqrt(max(chance * (1 - chance), 1 / n) / n)
    return float(right.mean()) - chance >= CLEAR * spread


def _best_order(guess: Array, labels: Array, n_classes: int) -> Array:
    """Return each label the class that it would have to mean for most rows to be right; itself where nothing tells."""
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (labels, guess), 1)
    counts[np.diag_indices(n_classes)] += 0.5  # stay where it is in doubt
    order: Array = linear_sum_assignment(counts, maximize=True)[1]
    return order


def _name(place: int, source: Source) -> str:
    return source.class_names[place] if source.class_names else str(place)


def _below_chance(right: Array, chance: float, confidence: Array) -> str:
    """Say that accuracy is far below what guessing gives, at a high confidence, whatever the reason is."""
    n, accuracy = len(right), float(right.mean())
    is_far = n >= _MANY and accuracy - chance <= -CLEAR * math.sqrt(chance * (1 - chance) / n)
    if not is_far or float(confidence.mean()) < accuracy + 0.2:
        return ""
    return (
        f"Only {100 * accuracy:.1f} % of the rows are right, where guessing gives {100 * chance:.1f} %, at a mean "
        f"confidence of {100 * float(confidence.mean()):.1f} %. Check that scores and labels are in the same order."
    )


def _about_scores(logits: Array, confidence: Array, source: Source) -> Iterator[str]:
    if bool((confidence == 1).all()):
        yield "Every prediction has a probability of 1, as predicted classes have; a calibrated model needs doubt."
    if source.kind != "logits":
        return
    low, sums = float(logits.min()), logits.sum(axis=1, dtype=np.float64)
    if low >= 0 and len(sums) >= _MANY and np.ptp(sums) <= SUM_TOLERANCE * float(sums[0]):
        yield f"All rows sum to {sums[0]:.6g} and no score is negative, as for shares, but they are read as logits."
    elif low >= 0 and float(logits.max()) <= 1 and len(sums) >= _MANY:
        yield "All scores are in [0, 1], like probabilities, but they are read as logits: every prediction is unsure."
