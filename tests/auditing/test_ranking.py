"""More than two models: the ranking against brute force, errors together, files and arrays."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.auditing import audit_several
from surefoot.auditing.better import PairedRows
from surefoot.auditing.compare import loss_difference
from surefoot.errors import InputError
from surefoot.statistics import bonferroni
from tests.auditing.made import made, softmax, write
from tests.conftest import RunCommand

CLASSES = 5


def models(n: int, *strengths: float, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Calibrated models that see an example through noise of their own: the stronger, the better."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    seen = [a * np.eye(CLASSES)[labels] + rng.standard_normal((n, CLASSES)) for a in strengths]
    return [{"logits": a * x, "labels": labels} for a, x in zip(strengths, seen, strict=True)]


def told_apart_by_hand(found: list[dict[str, np.ndarray]], alpha: float) -> set[tuple[int, int]]:
    """Compare NLL pair by pair with a plain paired z-test, and step down through the sorted p-values."""
    losses = [-np.log(softmax(each["logits"])[np.arange(len(each["labels"])), each["labels"]]) for each in found]
    tests = []
    for i, j in itertools.combinations(range(len(found)), 2):
        d = losses[i] - losses[j]
        tests.append((2 * NormalDist().cdf(-abs(d.mean()) / (d.std(ddof=1) / np.sqrt(len(d)))), i, j))
    apart = set()
    for rank, (p, i, j) in enumerate(sorted(tests)):
        if p > alpha / (len(tests) - rank):
            break
        apart.add((i, j))
    return apart


@pytest.mark.parametrize("seed", [0, 1])
def test_the_ranking_is_that_of_paired_tests_by_hand(seed: int) -> None:
    found = models(3000, 2.0, 2.6, 2.55, 1.2, seed=seed)
    ranking = audit_several(*found, names=["a", "b", "c", "d"], metrics="nll").ranking
    nll = [-np.log(softmax(m["logits"])[np.arange(3000), m["labels"]]).mean() for m in found]
    assert list(ranking.order) == np.argsort(nll).tolist()
    assert [each.estimate for each in ranking.nll] == pytest.approx(nll)
    apart = {(pair.a, pair.b) for pair in ranking.pairs if pair.better is not None}
    assert apart == told_apart_by_hand(found, 0.05)
    for pair in ranking.pairs:
        gap = pair.differences["nll"]
        assert gap.estimate == pytest.approx(nll[pair.a] - nll[pair.b])
        assert gap.level == pytest.approx(1 - 0.05 / 6)
        if pair.better is not None:
            assert pair.better == (pair.a if nll[pair.a] < nll[pair.b] else pair.b)
        shared = set(ranking.letters[pair.a]) & set(ranking.letters[pair.b])
        assert bool(shared) == (pair.better is None)
    if seed == 0:
        assert ranking.sentence() == (
            "b and c cannot be told apart as the best by NLL; a and d are worse than b; none can be told apart by "
            "calibration (95 % for all 6 pairs together, by Holm's correction)"
        )


def test_equal_models_are_seldom_called_better() -> None:
    """Five that are equally good: a single "better" among ten pairs in at most about 5 % of studies."""
    found_some: Counter[float] = Counter()
    for seed in range(200):
        found = models(200, *[1.2] * 5, seed=seed)
        probs = [torch.from_numpy(each["logits"]).softmax(1) for each in found]
        labels = torch.from_numpy(found[0]["labels"])
        nll = [-p.log()[torch.arange(200), labels].mean().item() for p in probs]
        readings = [SimpleNamespace(n=200, values={"nll": SimpleNamespace(mean=each)}) for each in nll]
        pairs = [
            (PairedRows((probs[i], probs[j]), labels), readings[i], readings[j])
            for i, j in itertools.combinations(range(5), 2)
        ]
        for level in (0.95, bonferroni(0.95, 10)):  # Holm's first step, without which nothing is told apart
            found_some[level] += any(0.0 not in loss_difference("nll", *pair, level) for pair in pairs)
    assert found_some[bonferroni(0.95, 10)] <= 16  # of 200; more has a probability of 2 % at exactly 5 %
    assert found_some[0.95] >= 20  # without the correction


def test_one_that_is_better_is_found_and_the_over_confident_one_is_worse_calibrated() -> None:
    good, same, bad = models(4000, 2.5, 1.5, 1.5)
    bad = {**bad, "logits": 3 * bad["logits"]}
    report = sf.audit(good, same, bad, names=["good", "same", "bad"], metrics="nll")
    ranking = report.ranking
    assert ranking.letters == ("a", "b", "c")
    assert report.sentence().startswith("good is best by NLL, 0.")
    assert "below same, the next; by calibration none is shown to be better than good and same" in report.sentence()
    by = {(pair.a, pair.b): pair.better_calibrated for pair in ranking.pairs}
    assert by == {(0, 1): None, (0, 2): 0, (1, 2): 1}
    with pytest.raises(InputError, match="Expected one audit, but there are 3: good, same, bad"):
        _ = report.verdict


def test_files_text_and_page(tmp_path: Path, run_command: RunCommand) -> None:
    for name, each in zip(("sgd", "sam", "csam"), models(800, 2.0, 2.0, 1.0), strict=True):
        np.savez(tmp_path / f"{name}.npz", **each)
    done = run_command("audit", "sgd.npz", "sam.npz", "csam.npz", "--metrics", "nll,ece")
    assert done.returncode == 0, done.stderr
    assert "csam is worse than" in done.stdout
    assert "Models that share a letter cannot be told apart" in done.stdout
    assert "Page: sgd-sam-csam-audit.html" in done.stdout
    again = run_command("audit", "sgd.npz", "sam.npz", "csam.npz", "--json", "--no-page", "--metrics", "nll")
    found = json.loads(again.stdout)
    assert found["ranking"]["names"] == ["sgd", "sam", "csam"]
    assert found["ranking"]["letters"] == ["a", "a", "b"]
    assert found["comparison"] is None
    assert max(map(len, done.stdout.split("\n\n")[1].splitlines())) <= 80


def test_metrics_of_ones_own_leave_the_ranking_as_it_is() -> None:
    report = sf.audit(*models(300, 2.0, 1.0, 0.5), metrics="brier")
    assert set(report.audits[0].measures) == {"brier"}
    assert report.ranking.letters == ("a", "b", "c")
    assert "arrays 1 is best by NLL" in str(report)


def test_models_in_one_file(tmp_path: Path) -> None:
    a, b, c = models(400, 2.0, 2.0, 0.7)
    both = {"resnet_logits": a["logits"], "vgg_logits": b["logits"], "labels": a["labels"]}
    np.savez(tmp_path / "two.npz", **both)
    two = sf.audit(tmp_path / "two.npz", metrics="nll")
    assert two.comparison is not None
    assert two.ranking is None
    np.savez(tmp_path / "three.npz", **both, mlp_logits=c["logits"])
    three = sf.audit(tmp_path / "three.npz", metrics="nll")
    assert three.ranking.names == ("resnet", "vgg", "mlp")
    assert three.ranking.letters == ("a", "a", "b")
    assert sf.audit(tmp_path / "three.npz", model="vgg", metrics="nll").ranking is None
    np.savez(
        tmp_path / "other.npz",
        a_logits=a["logits"],
        a_labels=a["labels"],
        b_logits=b["logits"],
        b_labels=b["labels"][::-1],
    )
    beside = sf.audit(tmp_path / "other.npz", metrics="nll")
    assert len(beside.audits) == 2
    assert beside.comparison is None
    assert beside.ranking is None


def test_other_examples_are_refused(tmp_path: Path) -> None:
    a, b, c = models(100, 1.0, 1.0, 1.0)
    write_to = [tmp_path / f"{name}.npz" for name in "abc"]
    for path, each in zip(write_to, (a, b, {**c, "labels": c["labels"][::-1]}), strict=True):
        np.savez(path, **each)
    with pytest.raises(
        InputError, match=r"Expected predictions for the same examples, but a\.npz and c\.npz have other"
    ):
        sf.audit(*write_to, metrics="nll")
    np.savez(write_to[1], logits=b["logits"][:50], labels=b["labels"][:50])
    with pytest.raises(InputError, match=r"but a\.npz has 100 rows of 5 classes and b\.npz 50 of 5"):
        sf.audit(*write_to, metrics="nll")
    with pytest.raises(InputError, match="Expected a name for each of 3 sources, but got 1"):
        sf.audit(a, b, c, names=["a"])
    with pytest.raises(InputError, match="Expected names that differ, but got a, a, b"):
        sf.audit(a, b, c, names=["a", "a", "b"])
    with pytest.raises(InputError, match="Expected at most 30 models to rank, but got 31"):
        sf.audit(*[models(10, 1.0)[0]] * 31, metrics="nll")


def test_an_infinite_nll_is_said_and_comes_last() -> None:
    a, b, c = models(200, 2.0, 2.0, 2.0)
    probs = softmax(c["logits"])
    probs[0] = np.eye(CLASSES)[(c["labels"][0] + 1) % CLASSES]
    ranking = sf.audit(a, b, {"probs": probs, "labels": c["labels"]}, names=["a", "b", "c"], metrics="nll").ranking
    assert ranking.order[-1] == 2
    assert "the NLL of c is infinite" in ranking.sentence()
    assert ranking.to_json()["nll"][2]["estimate"] is None


def test_two_classes_are_ranked_by_mean_risk_beside_nll() -> None:
    logits, labels = made(1000, 2)
    shifted = logits + np.array([0.0, 1.0], np.float32)
    found = sf.audit(
        *({"logits": x, "labels": labels} for x in (logits, shifted, logits)), names=["a", "b", "c"]
    ).ranking
    assert found.sentence().startswith(
        "a and c cannot be told apart as the best by NLL; b is worse than a; by mean risk none"
    )
    assert {(p.a, p.b): p.better_calibrated for p in found.pairs} == {(0, 1): 0, (0, 2): None, (1, 2): 2}


def test_tiny_files_say_that_nothing_can_be_told() -> None:
    for n in (1, 2):
        ranking = sf.audit(*models(n, 1.0, 1.0, 1.0), metrics="nll").ranking
        assert set(ranking.letters) == {"a"}
        assert ranking.sentence().startswith("none of arrays 1, arrays 2 and arrays 3 can be told apart by NLL")


def test_names_are_numbered_where_they_are_the_same(tmp_path: Path) -> None:
    logits, labels = made(60)
    frame = pytest.importorskip("pandas").DataFrame({
        **{f"p{k}": softmax(logits)[:, k] for k in range(3)},
        "label": labels,
    })
    assert sf.audit(frame, frame, frame, metrics="nll").ranking.names == ("DataFrame 1", "DataFrame 2", "DataFrame 3")
    path = write(tmp_path / "a.npz", logits, labels)
    assert sf.audit(path, path, path, metrics="nll").ranking.names == ("a.npz (1)", "a.npz (2)", "a.npz (3)")
