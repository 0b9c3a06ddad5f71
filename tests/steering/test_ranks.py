"""Several ranks: each has rows of its own, all see the same and move alike."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.optim.distributed.launch import torchrun
from tests.steering.ranks import CASES, LOOKS, TRAINED, Rows, fingerprint, looks_of, network

START = {"rho": 0.1, "gamma": 1.0}
BROKEN = ("nan", "infinity", "nan among the same")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[dict[str, Any]]]]:
    """What two processes say; one that waits for the other for ever ends with the timeout."""
    folder = tmp_path_factory.mktemp("ranks")
    done = torchrun(2, Path(__file__).with_name("ranks.py"), folder)
    said = [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(said) == 2
    return said


def joint(name: str, look: int) -> Rows:
    first, second = (CASES[name](look, rank) for rank in (0, 1))
    return torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])


def assert_close(found: dict[str, float], expected: dict[str, float], within: float = 1e-12) -> None:
    assert found == pytest.approx(expected, rel=within, abs=within, nan_ok=True)


@pytest.mark.parametrize("name", [*CASES, *TRAINED])
def test_all_ranks_move_alike(name: str, ranks: list[dict[str, Any]]) -> None:
    """Bit for bit, which is what their texts are compared for: NaN is not itself."""
    first, second = (json.dumps(said[name]) for said in ranks)
    assert first == second
    assert len(ranks[0][name]) == LOOKS


ALONE = [name for name in CASES if name not in (*BROKEN, "the same", "nearly the same")]


@pytest.mark.parametrize("name", ALONE)
def test_two_ranks_are_one_process_with_all_rows(name: str, ranks: list[dict[str, Any]]) -> None:
    for found, alone in zip(ranks[1][name], looks_of(lambda look: joint(name, look)), strict=True):
        assert_close(found["facts"], alone["facts"])
        assert_close(found["before"], alone["before"])
        assert_close(found["after"], alone["after"])
        assert found["rho"] == [found["after"]["rho"]]
        assert found["gamma"] == found["after"]["gamma"]
        assert (found["said"], found["at_limit"]) == (alone["said"], list(alone["at_limit"]))
        assert found["state"]["looks"] == alone["state"]["looks"]


def test_the_rows_of_all_are_counted(ranks: list[dict[str, Any]]) -> None:
    counted = {name: ranks[0][name][0]["facts"]["steering/rows"] for name in CASES}
    others = {"none at all": 0, "one row": 1, "ignored on the second": 200, "of the same classes": 674}
    assert counted == {**dict.fromkeys(CASES, 337), **others}


def test_they_do_move(ranks: list[dict[str, Any]]) -> None:
    """Over-confident, less so, and not confident enough: up, up, down."""
    for name in ("halves", "unequal", "the same", "two precisions"):
        gammas = [START["gamma"], *(look["gamma"] for look in ranks[0][name])]
        assert gammas[0] < gammas[1] < gammas[2] > gammas[3]
        assert ranks[0][name][0]["after"]["rho"] > START["rho"]


@pytest.mark.parametrize("name", ["none at all", "one row"])
def test_rows_that_are_too_few_turn_nothing(name: str, ranks: list[dict[str, Any]]) -> None:
    for look in ranks[0][name]:
        assert look["after"] == look["before"] == START
        assert "tell nothing: all as it was" in look["said"]


@pytest.mark.parametrize("name", ["the same", "nearly the same"])
def test_the_same_rows_on_all_ranks_count_once(name: str, ranks: list[dict[str, Any]]) -> None:
    """Seen twice they would seem to have √2 times less noise."""
    alone = looks_of(lambda look: CASES[name](look, 0))
    for found, expected in zip(ranks[1][name], alone, strict=True):
        assert found["facts"] == expected["facts"]
        assert found["after"] == expected["after"]
    twice = looks_of(lambda look: joint(name, look))[0]["facts"]
    assert ranks[1][name][0]["facts"]["steering/error"] == pytest.approx(
        math.sqrt(2) * twice["steering/error"], rel=0.01
    )


def test_other_rows_with_the_same_labels_all_count(ranks: list[dict[str, Any]]) -> None:
    name = "of the same classes"
    first, second = (CASES[name](0, rank) for rank in (0, 1))
    assert torch.equal(first[1], second[1])
    assert not torch.allclose(first[0], second[0])
    assert ranks[0][name][0]["facts"]["steering/rows"] == 2 * len(first[1])


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_finite_on_one_rank_moves_none(name: str, ranks: list[dict[str, Any]]) -> None:
    for said in ranks:
        first, second, third = said[name]
        assert first["after"] != START
        assert second["after"] == second["before"] == first["after"]
        assert second["said"].endswith("rows tell nothing: all as it was")
        assert second["state"] == {**first["state"], "looks": 2}
        assert third["before"] == first["after"]
        assert third["after"] != third["before"]  # and the next look is as any other


@pytest.mark.parametrize("name", TRAINED)
def test_replicas_stay_replicas(name: str, ranks: list[dict[str, Any]]) -> None:
    said = ranks[0][name]
    hashes = [look["weights"] for look in said]
    assert hashes == [look["weights"] for look in ranks[1][name]]
    assert len({fingerprint(network()), *hashes}) == LOOKS + 1
    assert said[-1]["facts"]["steering/rows"] == 170
    for knob in START:
        assert len({START[knob], *(look["after"][knob] for look in said)}) == LOOKS + 1


@pytest.mark.parametrize("perturbation", ["rank", "synchronised"])
def test_rows_and_loaders_are_the_same(perturbation: str, ranks: list[dict[str, Any]]) -> None:
    rows, loader = (ranks[0][f"{perturbation}, {how}"] for how in ("rows", "loader"))
    assert rows[0]["weights"] == loader[0]["weights"]
    assert_close(
        loader[0]["facts"], rows[0]["facts"], within=1e-4
    )  # batches of 25 and all at once, in single precision


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        (
            "labels that are none",
            "but rank 1 refuses its own: Expected labels in 0…3",
            "Expected labels in 0…3, but got 9",
        ),
        ("an empty loader", "but rank 1 refuses its own: Expected pairs", "but the loader gives nothing"),
        ("other classes", "Expected as many classes on every rank", "but got logits (3, 3), (4, 4)"),
    ],
)
def test_what_one_rank_refuses_all_do(name: str, first: str, second: str, ranks: list[dict[str, Any]]) -> None:
    """So that none of them waits for the others for ever."""
    assert first in ranks[0][name]
    assert second in ranks[1][name]
