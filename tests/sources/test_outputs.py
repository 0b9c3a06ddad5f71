"""A model and a loader: run once, in eval mode, without gradients; and frames of pandas, polars and pyarrow."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import surefoot as sf
from surefoot.errors import InputError
from surefoot.sources import hold_outputs, outputs
from tests.auditing.made import made, softmax
from tests.sources.rows import labels, one, scores, weights

LOGITS, LABELS = made(150, temperature=0.5)
INPUTS, TRUTH = torch.from_numpy(LOGITS), torch.from_numpy(LABELS)


class Counted(nn.Module):
    """Gives its inputs back, counts how often it runs and what the circumstances are."""

    def __init__(self, wrap: Any = lambda logits: logits) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.dropout, self.frozen = nn.Dropout(), nn.BatchNorm1d(3).eval()
        self.wrap, self.runs, self.modes = wrap, 0, set[bool]()

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        self.runs += 1
        self.modes |= {self.training, torch.is_grad_enabled()}
        return self.wrap(self.dropout(self.scale * inputs))


def loader(size: int = 40) -> DataLoader[Any]:
    return DataLoader(TensorDataset(INPUTS, TRUTH), batch_size=size)


def test_a_model_and_a_loader_are_audited_like_its_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "IN_MEMORY", 100)  # so it is a file
    model, seen = Counted().train(), []
    model.frozen.eval()
    report = sf.audit(model, loader(), on_rows=lambda rows, share: seen.append((rows, share)))
    assert (model.runs, model.modes) == (4, {False})
    assert (model.training, model.dropout.training, model.frozen.training) == (True, True, False)
    assert seen[:4] == [(40, 0.25), (80, 0.5), (120, 0.75), (150, 1.0)]
    wanted = sf.audit(logits=LOGITS, labels=LABELS)
    assert report.verdict == wanted.verdict
    assert report.measures == wanted.measures
    assert report.audit.repair == wanted.audit.repair
    assert report.audit.file == "Counted"
    assert "'logits' as logits, 'labels' as labels" in report.audit.took


@pytest.mark.parametrize(
    ("wrap", "batches"),
    [
        (lambda logits: SimpleNamespace(logits=logits), [(INPUTS, TRUTH)]),
        (lambda logits: {"logits": logits}, [{"inputs": INPUTS, "labels": TRUTH}]),
        (lambda logits: logits, [{"inputs": INPUTS, "mask": None, "label": TRUTH}]),
        (lambda logits: logits, [({"inputs": INPUTS}, TRUTH)]),
        (lambda logits: logits.bfloat16().float(), [[INPUTS, TRUTH.tolist()]]),
        (lambda logits: logits.double(), iter([(INPUTS[:9], TRUTH[:9, None]), (INPUTS[9:], TRUTH[9:, None])])),
    ],
)
def test_batches_and_outputs_of_all_kinds(wrap: Any, batches: Any) -> None:
    held = hold_outputs(Counted(wrap), batches)
    found = one(held)
    np.testing.assert_allclose(scores(found), LOGITS, rtol=2**-8)
    np.testing.assert_array_equal(labels(found), LABELS)


def test_one_logit_per_row_is_that_of_class_1() -> None:
    held = hold_outputs(nn.Linear(3, 1), [(INPUTS, (TRUTH == 1).float()[:, None])])
    found = one(held)
    assert scores(found).shape == (150, 2)
    np.testing.assert_array_equal(labels(found), LABELS == 1)
    assert sf.audit(nn.Linear(3, 1), [(INPUTS, TRUTH == 1)], class_names=["no", "yes"]).audit.two_classes is not None


def test_probabilities_are_asked_about() -> None:
    model = nn.Softmax(1)
    with pytest.raises(
        InputError, match=r"but all rows sum to 1 like probabilities in Softmax\. Say --logits or --probs"
    ):
        sf.audit(model, loader())
    assert sf.audit(model, loader(), probs=True).audit.kind == "probs"


@pytest.mark.parametrize(
    ("model", "batches", "says"),
    [
        (nn.Identity(), None, "Expected a loader of inputs and labels beside the model, but got none"),
        (nn.Identity(), 3, "beside the model, but got a int"),
        (nn.Identity(), [], "but the loader gives nothing"),
        (nn.Identity(), [INPUTS], "Expected the loader to give pairs .*, but got a Tensor"),
        (nn.Identity(), [(INPUTS, TRUTH, TRUTH)], "but got 3 things"),
        (nn.Identity(), [{"input": INPUTS}], "Expected 'labels' in every batch of the loader, but got input"),
        (nn.Identity(), [(INPUTS, TRUTH[:3])], r"but got \(150, 3\) for labels \(3,\)"),
        (
            nn.Identity(),
            [(INPUTS, TRUTH), (INPUTS[:, :2], TRUTH)],
            r"of one shape in every batch, but got \(3,\) and \(2,\)",
        ),
        (nn.Flatten(0), [(INPUTS, TRUTH)], r"but got \(450,\) for labels \(150,\)"),
    ],
)
def test_what_is_no_loader_or_gives_no_logits(model: nn.Module, batches: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        sf.audit(model, batches)


def test_modes_come_back_after_an_error() -> None:
    model = Counted().train()
    with pytest.raises(InputError):
        sf.audit(model, [(INPUTS, TRUTH), (INPUTS, TRUTH[:1])])
    assert model.training


def test_the_temporary_file_goes_with_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "IN_MEMORY", 100)
    held = hold_outputs(nn.Identity(), loader())
    file = held.columns["logits"]._file  # type: ignore[union-attr]  # a StoredRows
    np.testing.assert_array_equal(held.columns["logits"][40:43], LOGITS[40:43])
    np.testing.assert_array_equal(held.columns["logits"][7], LOGITS[7])
    assert not file.closed
    del held
    gc.collect()
    assert file.closed


PROBS = softmax(LOGITS)
COLUMNS: dict[str, Any] = {"label": LABELS, **{f"prob_{k}": PROBS[:, k] for k in range(3)}, "weight": 1.0 + LABELS}


def frames() -> list[Any]:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    table = pa.table(COLUMNS)
    halves = pa.concat_tables([table.slice(0, 70), table.slice(70)])  # two chunks
    return [pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), pl.DataFrame(COLUMNS).lazy(), table, halves]


@pytest.mark.parametrize("which", range(5))
def test_frames_of_all_makers(which: int) -> None:
    found = one(frames()[which])
    np.testing.assert_array_equal(scores(found), PROBS)
    np.testing.assert_array_equal(labels(found), LABELS)
    np.testing.assert_array_equal(weights(found), 1.0 + LABELS)


def test_lists_names_and_gaps_in_frames() -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    names = ["cat" if label == 0 else "dog" if label == 1 else "bird" for label in LABELS]
    by_name = {"label": names, **{name: PROBS[:, k] for k, name in enumerate(("cat", "dog", "bird"))}}
    for frame in (pl.DataFrame(by_name), pa.table(by_name), pd.DataFrame(by_name)):
        np.testing.assert_array_equal(labels(one(frame)), LABELS)
    array = pl.Series("probs", PROBS, dtype=pl.Array(pl.Float64, 3))
    lists: list[Any] = [
        pl.DataFrame({"probs": PROBS.tolist(), "label": LABELS}),
        pl.DataFrame([array, pl.Series("label", LABELS, dtype=pl.UInt8)]),
        pa.table({"probs": pa.array(PROBS.tolist()), "label": LABELS}),
    ]
    for frame in lists:
        np.testing.assert_array_equal(scores(one(frame)), PROBS)
    holes = [None, *PROBS[1:, 0].tolist()]
    for frame in (pl.DataFrame({**COLUMNS, "prob_0": holes}), pa.table({**COLUMNS, "prob_0": holes})):
        with pytest.raises(InputError, match=r"1 of 150 rows has a gap.*row 0; in 'prob_0' 1×"):
            sf.audit(frame)
        assert len(scores(one(frame, skip_missing=True))) == 149


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_any_type(dtype: torch.dtype) -> None:
    rough = 2**-7 if dtype is torch.bfloat16 else 2**-10
    found = one({"probs": torch.from_numpy(PROBS).to(dtype), "labels": TRUTH.to(torch.uint8)})
    np.testing.assert_allclose(scores(found), PROBS, atol=rough)
    np.testing.assert_array_equal(labels(found), LABELS)
    found = one({"logits": INPUTS.to(dtype), "labels": TRUTH.tolist()})
    np.testing.assert_allclose(scores(found), LOGITS, rtol=rough, atol=1e-6)
