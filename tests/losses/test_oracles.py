"""Losses against the same formulas in plain loops, on random logits with more than three classes."""

from __future__ import annotations

import pytest
import torch

from surefoot.losses.crl import ranking_penalty
from tests.losses.cases import make, total
from tests.oracles import losses as oracle

GENERATOR = torch.Generator().manual_seed(3)
Z = 3 * torch.randn(20, 6, generator=GENERATOR, dtype=torch.float64)
Y = torch.randint(6, (20,), generator=GENERATOR)
ROWS, LABELS = Z.tolist(), Y.tolist()

EACH = {
    "ce": oracle.ce,
    "entropy:beta=0.3": lambda z, y: oracle.entropy(z, y, 0.3),
    "label_smoothing:alpha=0.2": lambda z, y: oracle.label_smoothing(z, y, 0.2),
    "mbls:alpha=0.4,margin=1.5": lambda z, y: oracle.mbls(z, y, 0.4, 1.5),
    "acls:alpha=0.7,lambda1=0.5,lambda2=0.3,margin=1": lambda z, y: oracle.acls(z, y, 0.7, 0.5, 0.3, 1),
    "cpc:w1=0.3,w2=0.6,form=as_defined": lambda z, y: oracle.cpc_as_defined(z, y, 0.3, 0.6),
    "cpc:w1=0.3,w2=0.6,form=as_reused": lambda z, y: oracle.cpc_as_reused(z, y, 0.3, 0.6),
    "dual_focal:gamma=2.5": lambda z, y: oracle.dual_focal(z, y, 2.5),
}


@pytest.mark.parametrize("text", EACH)
def test_each_example(text: str) -> None:
    found = make(text)(Z, Y).per_example
    wanted = torch.tensor([EACH[text](z, y) for z, y in zip(ROWS, LABELS, strict=True)], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


WHOLE = {
    "mdca": lambda: oracle.mdca(ROWS, LABELS),
    "mmce:weight=1": lambda: oracle.mmce_weighted(ROWS, LABELS, as_coded=False),
    "mmce:weight=1,form=weighted_as_coded": lambda: oracle.mmce_weighted(ROWS, LABELS, as_coded=True),
    "mmce:weight=1,form=squared": lambda: oracle.mmce_squared(ROWS, LABELS),
    "dece:weight=1,bins=7,sharpness=9,temperature=0.1": lambda: oracle.dece(ROWS, LABELS, 7, 9, 0.1),
}


@pytest.mark.parametrize("text", WHOLE)
def test_the_batch(text: str) -> None:
    ce = sum(oracle.ce(z, y) for z, y in zip(ROWS, LABELS, strict=True)) / len(LABELS)
    assert total(make(text), Z, Y).item() == pytest.approx(ce + WHOLE[text](), rel=1e-9)


def test_adafocal_in_moved_bins() -> None:
    loss = make("adafocal:bins=4").double()
    edges, gammas = [0.0, 0.05, 0.3, 0.6, 1.0], [3.0, -0.4, 0.7, -1.5]
    loss.edges = torch.tensor(edges)
    loss.gammas = torch.tensor(gammas, dtype=torch.float64)
    wanted = [oracle.adafocal(z, y, gammas, edges) for z, y in zip(ROWS, LABELS, strict=True)]
    torch.testing.assert_close(loss(Z, Y).per_example, torch.tensor(wanted, dtype=torch.float64))


def test_ranking() -> None:
    confidence = torch.rand(20, generator=GENERATOR, dtype=torch.float64)
    history = torch.randint(4, (20,), generator=GENERATOR).double() / 4
    wanted = oracle.ranking(confidence.tolist(), history.tolist())
    assert ranking_penalty(confidence, history).item() == pytest.approx(wanted, rel=1e-12)
