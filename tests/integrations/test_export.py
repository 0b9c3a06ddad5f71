"""Networks and calibrators as one file: every calibrator in onnxruntime against torch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import surefoot as sf
from surefoot.calibrators import fit
from surefoot.calibrators._steps import by_halving
from surefoot.errors import InputError
from surefoot.integrations.export import export_onnx, export_program
from surefoot.registry import CALIBRATORS
from tests.calibrators.test_contract import made

NAMES = [part.name for part in CALIBRATORS]
ROWS = 1000
# Of calibrated logits, up to about 20, in float32: the last digit.
TOLERANCE = 2e-6
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # torch's exporter of its own code
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Ten(nn.Module):
    """A network with every calibrator behind it, so that one export shows them all."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.body = identity(n_classes)
        calibration = made(1500, "calibration", n_classes=n_classes)
        self.heads = nn.ModuleList(fit(name, calibration).module() for name in NAMES)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = self.body(x)
        return tuple(head(logits) for head in self.heads)


def identity(n_classes: int) -> nn.Linear:
    """A layer that rounds nothing: what differs is the calibrators' own."""
    layer = nn.Linear(n_classes, n_classes)
    nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def rows_of(n_classes: int, n: int = ROWS) -> torch.Tensor:
    return torch.from_numpy(made(n, "test", seed=3, n_classes=n_classes).logits).float()


def run(file: Path | bytes, *given: torch.Tensor) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(file)
    return session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), given, strict=True)})


@pytest.fixture(scope="module", params=[4, 2], ids=["four classes", "two classes"])
def both(request: pytest.FixtureRequest) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """What all calibrators give for 1,000 rows: in torch, as an exported program, in onnxruntime."""
    torch.manual_seed(0)
    network, x = Ten(request.param).eval(), rows_of(request.param)
    program = torch.export.export(network, (x[:7],), dynamic_shapes=({0: torch.export.Dim("rows")},))
    file = torch.onnx.export(program, dynamo=True, verbose=False).model_proto.SerializeToString()
    with torch.no_grad():
        return [y.numpy() for y in network(x)], [y.numpy() for y in program.module()(x)], run(file, x)


@pytest.mark.parametrize("name", NAMES)
def test_every_calibrator_gives_in_onnxruntime_what_it_gives_in_torch(name, both):
    in_torch, exported, in_onnxruntime = (each[NAMES.index(name)] for each in both)
    assert len(in_torch) == ROWS
    assert np.ptp(in_torch) > 1
    np.testing.assert_array_equal(exported, in_torch)
    np.testing.assert_allclose(in_onnxruntime, in_torch, rtol=0, atol=TOLERANCE)
    assert in_onnxruntime.dtype == np.float32


@pytest.mark.parametrize("m", [0, 1, 2, 3, 4, 7, 8, 100])
def test_halving_is_searchsorted(m):
    draw = torch.Generator().manual_seed(m)
    edges = torch.randint(0, 40, (3, m), generator=draw).double().sort(1).values
    edges[0, m // 2 :] = torch.inf
    numbers = torch.randint(-2, 42, (3, 50), generator=draw).double()
    assert torch.equal(by_halving(edges, numbers), torch.searchsorted(edges, numbers))


def test_exported_graphs_search_nothing():
    head = fit("bbq", made(300, "calibration")).module()
    program = export_program(nn.Identity(), rows_of(4), calibrator=fit("isotonic", made(300, "calibration")))
    graphs = str(program.graph) + str(torch.export.export(head, (rows_of(4),)).graph)
    assert "searchsorted" not in graphs
    assert "gather" in graphs


class Pair(nn.Module):
    """Takes two inputs by name and gives its logits inside another object, as transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(11, 6), nn.Linear(6, 4)

    def forward(self, input_ids, attention_mask):
        hidden = (self.embed(input_ids) * attention_mask.unsqueeze(-1)).mean(1)
        return type("Output", (), {"logits": self.out(hidden)})()


def test_a_calibrated_model_becomes_one_file(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))
    x, y = torch.randn(200, 6), torch.arange(200) % 3
    fitted = sf.calibrate(model, [(x, y)], method="isotonic").train()
    path = export_onnx(fitted, x[:1], tmp_path / "new" / "model.onnx", outputs="probs")
    assert fitted.training
    assert all(module.training for module in fitted.modules())
    for n in (1, 5, 200):
        (found,) = run(path, x[:n])
        with torch.no_grad():
            np.testing.assert_allclose(found, fitted.eval()(x[:n]).softmax(1).numpy(), atol=1e-6)
    assert [out.name for out in onnxruntime.InferenceSession(path).get_outputs()] == ["probs"]


def test_a_calibrated_model_writes_itself_and_is_compared_on_a_thousand_rows(tmp_path, monkeypatch):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(200, 6)
    fitted = sf.calibrate(model, [(x, torch.arange(200) % 3)], method="vector")
    asked = []
    run_one = onnxruntime.InferenceSession.run
    monkeypatch.setattr(
        onnxruntime.InferenceSession,
        "run",
        lambda self, names, given: asked.append(given["input"]) or run_one(self, names, given),
    )
    path = fitted.to_onnx(tmp_path / "model.onnx", x[:2], outputs="probs")
    rows = np.concatenate(asked)
    assert len(rows) == 1000
    assert len(np.unique(rows, axis=0)) > 900
    assert (rows.min(0) >= x[:2].numpy().min(0) - 1e-6).all()
    (found,) = run(path, x)
    np.testing.assert_allclose(found, fitted.eval()(x).softmax(1).detach().numpy(), atol=1e-6)


def test_a_file_that_gives_other_numbers_is_not_left(tmp_path, monkeypatch):
    fitted = sf.calibrate(nn.Linear(4, 3), [(torch.randn(60, 4), torch.arange(60) % 3)], method="temperature")
    run_one = onnxruntime.InferenceSession.run
    monkeypatch.setattr(
        onnxruntime.InferenceSession, "run", lambda self, *given: [each + 1 for each in run_one(self, *given)]
    )
    with pytest.raises(
        InputError, match=r"Expected model\.onnx to give what torch gives, but in onnxruntime it is off by"
    ):
        fitted.to_onnx(tmp_path / "model.onnx", torch.randn(5, 4))
    assert not list(tmp_path.iterdir())


def test_inputs_by_name_and_half_precision(tmp_path):
    torch.manual_seed(0)
    model, calibrator = Pair().half(), fit("beta", made(300, "calibration"))
    given = {"attention_mask": torch.ones(5, 7).half(), "input_ids": torch.randint(11, (5, 7))}  # in any order
    path = export_onnx(model, given, tmp_path / "model.onnx", calibrator=calibrator)
    session = onnxruntime.InferenceSession(path)
    (found,) = session.run(["logits"], {name: value.numpy() for name, value in given.items()})
    assert found.dtype == np.float32  # not rounded once more
    with torch.no_grad():
        logits = model(**given).logits
    wanted = calibrator.module()(logits.float())
    np.testing.assert_allclose(found, wanted, atol=1e-2)  # onnxruntime runs half precision on the CPU in float32
    program = export_program(
        model.bfloat16(), {**given, "attention_mask": torch.ones(5, 7).bfloat16()}, calibrator=calibrator
    )
    with torch.no_grad():
        out = program.module()(**given | {"attention_mask": torch.ones(5, 7).bfloat16()})
    assert out.dtype == torch.float32


def test_onnxruntime_has_no_bfloat16_on_the_cpu(tmp_path):
    model, calibrator = nn.Linear(4, 4).bfloat16(), fit("temperature", made(300, "calibration"))
    with pytest.raises(
        InputError, match=r"Expected onnxruntime to run model\.onnx on the CPU.*Export model\.float\(\)"
    ):
        export_onnx(model, rows_of(4, 5).bfloat16(), tmp_path / "model.onnx", calibrator=calibrator)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_said(tmp_path, monkeypatch):
    model, x, calibrator = nn.Linear(4, 4), rows_of(4, 5), fit("temperature", made(300, "calibration"))
    with pytest.raises(InputError, match="Expected one calibrator, but got a network without one"):
        export_program(model, x)
    with pytest.raises(InputError, match=r"Expected a file name in \.onnx, but got 'model\.pt'"):
        export_onnx(model, x, tmp_path / "model.pt", calibrator=calibrator)
    with pytest.raises(InputError, match="Expected an example of inputs with rows, but got list"):
        export_program(model, [[1.0]], calibrator=calibrator)
    with pytest.raises(InputError, match='Expected outputs to be "logits" or "probs", but got \'classes\''):
        export_program(model, x, calibrator=calibrator, outputs="classes")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"but onnxscript is not. Run pip install 'surefoot\[onnx\]'"):
        export_onnx(model, x, tmp_path / "model.onnx", calibrator=calibrator)
