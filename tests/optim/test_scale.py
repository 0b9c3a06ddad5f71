"""The cost model of docs/scale.md against real processes, and against what can be counted by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.optim.distributed.launch import ROOT, torchrun

sys.path.insert(0, str(ROOT / "benchmarks"))
import _scale_model as model
import scale
from _scale_model import METHODS, Message
from _scale_networks import NETWORKS
from _scale_times import Link, Load, exposed, hidden_until

ROWS = [
    ["ddp", "sgd"],
    ["ddp", "csam"],
    ["ddp", "csam, synchronised"],
    ["ddp", "gsam"],
    ["fsdp2", "sgd"],
    ["fsdp2", "csam"],
]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, object]]]:
    """What each of two gloo ranks sent and held."""
    folder = tmp_path_factory.mktemp("ranks")
    options = json.dumps({"widths": scale.WIDTHS, "rows": ROWS})
    done = torchrun(2, ROOT / "benchmarks" / "_scale_ranks.py", "count", folder, options)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(Path(folder, f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("row", ["/".join(row) for row in ROWS])
def test_bytes_and_memory_are_those_of_real_ranks(row: str, counted: list[dict[str, dict]]) -> None:
    for rank, found in enumerate(counted):
        messages, memory = scale.expected(row, 2, rank)
        assert scale.in_order([Message(*each) for each in found[row]["messages"]]) == scale.in_order(messages)
        assert found[row]["steady"], "not the same messages in every step"
        assert found[row]["memory"] == memory
        on_wire = sum((1 + (m.kind == "reduce_scatter")) * m.sent(2) for m in messages)  # which gloo does by all-reduce
        assert on_wire <= found[row]["wire"] < 1.01 * on_wire


def test_rank_wise_csam_sends_what_sgd_sends_and_synchronised_twice_that(counted: list[dict[str, dict]]) -> None:
    sgd, csam, together = (counted[0][f"ddp/{name}"]["messages"] for name in ("sgd", "csam", "csam, synchronised"))
    assert csam == sgd
    assert together == sgd + sgd


def test_buckets_are_closed_by_the_gradient_that_fills_them() -> None:
    assert model.buckets([4, 4, 4, 4, 4], first=4, cap=8) == [4, 8, 8]
    assert model.buckets([3], first=4, cap=8) == [3]


def test_waiting_by_hand() -> None:
    # Four layers of 10 bytes, a bucket each, one second of backward each; two ranks.
    load = Load((10,) * 4, forward=2.0, backward=4.0, first=10, cap=10)
    assert load.ready() == [1.0, 2.0, 3.0, 4.0]
    assert load.waits(METHODS["sgd"], Link(0.0, 10.0), 2) == 1.0  # the last bucket
    assert load.waits(METHODS["rank"], Link(0.0, 5.0), 2) == 5.0  # 1 + 4 × 2 − 4
    assert load.waits(METHODS["synchronised"], Link(0.0, 5.0), 2) == 10.0
    assert load.waits(METHODS["late"], Link(0.0, 8.0), 2) == 7.0  # (40 + 4 × 4) / 8, after backward
    assert load.waits(METHODS["sgd"], Link(0.0, 5.0), 1) == 0.0
    assert exposed([], [], 1.0) == 0.0


def test_a_ring_has_as_many_hops_as_ranks_and_a_tree_their_logarithm() -> None:
    message = Message("all_reduce", 1024)
    ring, tree = Link(1.0, 2.0), Link(1.0, 2.0, tree=True)
    assert ring.seconds(message, 1024) == 2 * 1023 + 2 * 1023 / 2
    assert tree.seconds(message, 1024) == 2 * 10 + 2 * 1023 / 2
    loads = {batch: Load((100,), 0.0, float(batch)) for batch in range(1, 200)}
    assert hidden_until(loads, Link(0.0, 1.0), 2) == 100
    assert hidden_until(loads, Link(0.0, 0.1), 2) is None


@pytest.mark.parametrize(("name", "numbers"), [("ResNet-50", 25_557_032), ("ViT-B/16", 86_567_656)])
def test_the_networks_have_as_many_parameters_as_they_are_known_for(name: str, numbers: int) -> None:
    assert NETWORKS[name].n_bytes == 4 * numbers
