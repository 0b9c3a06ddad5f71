"""The papers whose claims are rerun, and what became of each in two sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefoot.studies.contract import OUTCOMES, Outcome


@dataclass(frozen=True)
class Paper:
    """Where claims come from.

    Attributes:
        letter: Its claims are called by it.
        title: In short.
        seen: What the results mean, in a sentence; only outcomes that it rests on may be read into it.
        rests_on: The outcomes by study: where one is another, the sentence is not written.
    """

    letter: str
    title: str
    seen: str = ""
    rests_on: Mapping[str, Outcome] = field(default_factory=dict)


ASKED_HERE = Paper(
    "c",
    "Asked here, by no paper",
    "By Kullback–Leibler divergence CSAM's probabilities are closer to people's than SGD's, and in a small language "
    "model the training set's calibration error does not follow sharpness; under corruption at equal cost, both behind "
    "a temperature, CSAM is not always better calibrated than SGD; whether it tunes itself as well as a sweep is open.",
    {"c1": "underpowered", "c2": "contradicted", "c3": "contradicted", "c4": "held"},
)
PAPERS = (
    Paper(
        "a",
        "SAM, CSAM and Stable SAM",
        "SAM calibrates better than SGD at the end of training, on the way and under corruption (A1, A3, A10), though "
        "not always better than SGD behind a calibrator (A2); CSAM does not always calibrate better still (A4), nor "
        "better than all methods that are made for that (A5, A6).",
        {
            "a1": "held",
            "a2": "did not transfer",
            "a3": "held",
            "a4": "did not transfer",
            "a5": "did not transfer",
            "a6": "did not transfer",
            "a10": "held",
        },
    ),
    Paper(
        "b",
        "Too Sharp, Too Sure",
        "In the training set calibration error and sharpness rise, peak and fall together, on ten classes and on a "
        "hundred (B2, B9), but not under every optimizer (B1), and margins bound both (B6); how single optimizers "
        "differ is not as published (B3, B4).",
        {
            "b1": "did not transfer",
            "b2": "held",
            "b3": "did not transfer",
            "b4": "did not transfer",
            "b6": "held",
            "b9": "held",
        },
    ),
    ASKED_HERE,
)


def papers_of(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write two sentences per paper: how many of its claims came to what, and what that means.

    Args:
        results: What each study found.

    Returns:
        A paragraph for each paper that has results.
    """
    return [text for paper in PAPERS if (text := _paper(paper, [v for v in results if _is_of(paper, v)]))]


def is_asked_here(values: Mapping[str, Any]) -> bool:
    """Return whether a study is a question of our own, which has no published setting."""
    return _is_of(ASKED_HERE, values)


def _is_of(paper: Paper, values: Mapping[str, Any]) -> bool:
    return bool(values["study"][:1] == paper.letter and values["study"][1:].isdigit())


def _paper(paper: Paper, results: Sequence[Mapping[str, Any]]) -> str:
    by_outcome = {
        outcome: [values["claim"] for values in results if values["verdict"]["outcome"] == outcome]
        for outcome in OUTCOMES
    }
    counted = [f"{len(claims)} {outcome} ({', '.join(claims)})" for outcome, claims in by_outcome.items() if claims]
    if not counted:
        return ""
    found = {values["study"]: values["verdict"]["outcome"] for values in results}
    is_so = all(found.get(study) == outcome for study, outcome in paper.rests_on.items())
    return f"**{paper.title}:** {'; '.join(counted)}. {paper.seen if is_so else ''}".rstrip()
