"""Every streaming metric as a torchmetrics.Metric: the same number as on all examples at once."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryCalibrationError

from surefoot import metrics as pure
from surefoot.errors import InputError, OptionError
from surefoot.integrations import torchmetrics as ours
from surefoot.registry import METRICS
from tests.integrations.torchmetrics_ranks import everything
from tests.optim.distributed.launch import torchrun

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:torchmetrics.*")
STREAMING = [part.name for part in METRICS if "sums" in part.facts]
PROBS, LABELS = everything()


def make(name, **options):
    return ours.StreamingMetric(name, num_classes=4, **options)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    done = torchrun(2, Path(__file__).with_name("torchmetrics_ranks.py"), folder)
    said = [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]
    assert len(said) == 2, done.stderr[-3000:]
    return said


@pytest.mark.parametrize("name", STREAMING)
def test_batches_are_all_at_once(name):
    metric, value = make(name), METRICS[name].build(PROBS, LABELS)
    for p, y in zip(PROBS.split(50), LABELS.split(50), strict=True):
        assert torch.isclose(metric(p, y), METRICS[name].build(p, y), rtol=1e-12, atol=1e-12)  # forward: this batch's
    assert torch.isclose(metric.compute(), value, rtol=1e-12, atol=1e-12)
    for other in (metric.clone(), pickle.loads(pickle.dumps(metric))):
        assert torch.equal(other.compute(), metric.compute())
    metric.persistent(True)
    loaded = make(name)
    loaded.load_state_dict(metric.state_dict())
    assert torch.isclose(loaded.compute(), value, rtol=1e-12, atol=1e-12)
    metric.reset()
    metric.update(PROBS[:9], LABELS[:9])
    assert torch.isclose(metric.compute(), METRICS[name].build(PROBS[:9], LABELS[:9]), rtol=1e-12, atol=1e-12)


def test_every_streaming_metric_has_a_class_and_no_other():
    assert {"ECE", "NLL", "ClasswiseECE", "TopKAccuracy", "DebiasedRMSCE"} <= set(ours.__all__)
    assert len(ours.__all__) == len(STREAMING) + 1
    assert pickle.loads(pickle.dumps(ours.ECE)) is ours.ECE
    assert ours.ECE.higher_is_better is False
    assert ours.Accuracy.higher_is_better is True
    assert torch.equal(ours.ECE(n_bins=5)(PROBS, LABELS), pure.ece(PROBS, LABELS, n_bins=5))
    with pytest.raises(AttributeError, match="'ada_ece' needs all examples at once: where to cut"):
        _ = ours.AdaECE
    with pytest.raises(InputError, match="'ada_ece' needs all examples at once"):
        ours.StreamingMetric("ada_ece")
    with pytest.raises(AttributeError, match="no attribute 'NoSuch'"):
        _ = ours.NoSuch


def test_on_two_ranks(ranks):
    """A rank that has seen nothing of a metric takes part, too."""
    by_first = torch.cat([torch.arange(203).split(31)[number] for number in (0, 1, 3, 4, 6)])
    assert ranks[0] == ranks[1]
    for said in ranks:
        for name in STREAMING:
            value = METRICS[name].build(PROBS, LABELS).item()
            assert said[ours._class_name(name)] == pytest.approx(value, rel=1e-12, abs=1e-12), name
        kept = LABELS != 0
        assert said["ignoring"] == pytest.approx(pure.ece(PROBS[kept], LABELS[kept]).item(), rel=1e-12)
        few = pure.classwise_ece(PROBS[by_first], LABELS[by_first]).item()
        assert said["unseen by the second"] == pytest.approx(few, rel=1e-12)


def test_a_collection_shares_only_what_stays_equal():
    """On a first batch without class 0, all right, many states are equal; later they are not."""
    metrics = MetricCollection({
        "ece": ours.ECE(),
        "mce": ours.MCE(),
        "ignoring": ours.ECE(ignore_index=0),
        "accuracy": ours.Accuracy(),
        "top2": ours.TopKAccuracy(k=2),
    })
    sure = torch.eye(4, dtype=torch.float64)[[1, 2, 3]]
    metrics.update(sure, torch.tensor([1, 2, 3]))
    groups = [set(group) for group in metrics.compute_groups.values()]
    assert {"ece", "mce"} in groups
    assert len(groups) == 4
    metrics.update(PROBS, LABELS)
    probs, labels = torch.cat([sure, PROBS]), torch.cat([torch.tensor([1, 2, 3]), LABELS])
    kept, found = labels != 0, metrics.compute()
    assert torch.isclose(found["ece"], pure.ece(probs, labels))
    assert torch.isclose(found["mce"], pure.mce(probs, labels))
    assert torch.isclose(found["ignoring"], pure.ece(probs[kept], labels[kept]))
    assert torch.isclose(found["accuracy"], pure.accuracy(probs, labels))
    assert torch.isclose(found["top2"], pure.top_k_accuracy(probs, labels, k=2))


def test_tokens_and_ignored_ones():
    probs = torch.rand(5, 7, 3, generator=torch.Generator().manual_seed(1)).softmax(-1)
    labels = torch.randint(3, (5, 7), generator=torch.Generator().manual_seed(2))
    labels[:, 4:] = -100
    metric = ours.ECE(ignore_index=-100)
    metric.update(probs.movedim(-1, 1), labels)
    assert torch.isclose(metric.compute(), pure.ece(probs[:, :4].reshape(-1, 3), labels[:, :4].reshape(-1)))
    with pytest.raises(InputError, match="label 4 is -100"):
        ours.ECE().update(probs.movedim(-1, 1), labels)
    with pytest.raises(InputError, match=r"Put the classes second"):
        ours.ECE(num_classes=3).update(probs, labels)
    none = ours.MCE(ignore_index=-100)
    assert none(probs.movedim(-1, 1), torch.full((5, 7), -100)).isnan()
    assert none.compute().isnan()


def test_two_classes():
    risk = torch.rand(400, generator=torch.Generator().manual_seed(3))
    event = (torch.rand(400, generator=torch.Generator().manual_seed(4)) < risk**2).long()
    rows = torch.stack([1 - risk.double(), risk.double()], 1)
    for name in ("ece", "classwise_ece", "brier", "nll", "accuracy"):
        metric = ours.StreamingMetric(name, "binary", ignore_index=-1)
        metric.update(risk.reshape(20, 20), event.reshape(20, 20))
        metric.update(torch.tensor([0.5]), torch.tensor([-1]))
        assert torch.isclose(metric.compute(), METRICS[name].build(rows, event), rtol=1e-9), name
    # torchmetrics bins P(positive): that is classwise ECE, whose two classes are mirror images but for edges of bins.
    theirs = BinaryCalibrationError(n_bins=15)(risk, event)
    assert ours.ClasswiseECE("binary")(risk, event) == pytest.approx(theirs.item(), abs=1e-6)
    with pytest.raises(InputError, match=r"Pass logits.sigmoid\(\)"):
        ours.ECE("binary").update(torch.tensor([2.0]), torch.tensor([1]))
    with pytest.raises(InputError, match="Expected probabilities and labels of one shape"):
        ours.ECE("binary").update(rows, event)


def test_several_labels():
    draw = torch.Generator().manual_seed(5)
    p, y = torch.rand(60, 3, generator=draw), torch.randint(2, (60, 3), generator=draw)
    y[:10, 1] = -1
    each = []
    for label in range(3):
        kept = y[:, label] >= 0
        q = p[kept, label].double()
        each.append(pure.ece(torch.stack([1 - q, q], 1), y[kept, label]))
    kept = y >= 0
    q = p[kept].double()
    pooled = pure.ece(torch.stack([1 - q, q], 1), y[kept])
    wanted = {"macro": torch.stack(each).mean(), "none": torch.stack(each), "micro": pooled}
    for average, value in wanted.items():
        metric = ours.ECE("multilabel", num_labels=3, ignore_index=-1, average=average)
        for start in range(0, 60, 25):
            metric.update(p[start : start + 25], y[start : start + 25])
        assert torch.allclose(metric.compute(), value)
    with pytest.raises(InputError, match=r"labels \(n, 3, …\), but got \(60, 2\)"):
        metric.update(p[:, :2], y[:, :2])


def test_what_is_refused():
    with pytest.raises(OptionError, match="Expected num_classes for classwise_ece"):
        ours.ClasswiseECE()
    with pytest.raises(OptionError, match="Expected num_labels"):
        ours.ECE("multilabel")
    with pytest.raises(OptionError, match="Expected task"):
        ours.ECE("regression")
    with pytest.raises(OptionError, match="Expected average"):
        ours.ECE(average="weighted")
    with pytest.raises(ValueError, match="Unexpected keyword arguments: `bins`"):
        ours.ECE(bins=10)
    with pytest.raises(InputError, match=r"Pass logits.softmax\(-1\)"):
        ours.ECE().update(torch.tensor([[3.0, -1.0]]), torch.tensor([0]))
