"""The room itself: how much of it a step walks through, and what it uses of torch that torch does not promise."""

import ast
import inspect
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import surefoot
import surefoot.optim
from surefoot.errors import InputError
from surefoot.optim import CSAM, SAM, SSAM, Wrapper, _closure, _distributed, _torch
from surefoot.schema import LossTerms
from tests.optim.problems import assert_same, batches, losses, mlp, weights

HOME = Path(surefoot.__file__).parent
FILES = [*sorted((HOME / "optim").rglob("*.py")), HOME / "seeding.py"]
# Documented by Python, and frames, which say who called and of what code.
DOCUMENTED, FRAMES = {"_replace"}, {"f_back", "f_globals", "f_code", "co_filename", "_getframe", "currentframe"}


def setup(cls=CSAM, **kw):
    model = mlp()
    return model, cls(torch.optim.SGD(model.parameters(), lr=0.1), model, **kw), batches(1, shape=(12,))[0]


def test_a_step_of_csam_is_read_in_one_sitting():
    model, optimizer, (x, y) = setup()

    def closure():
        return F.cross_entropy(model(x), y, reduction="none")

    walked = set()

    def note(frame, event, _):
        code = frame.f_code
        is_inlined = code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>")  # no function since Python 3.12
        if event == "call" and Path(code.co_filename).is_relative_to(HOME) and not is_inlined:
            walked.add(code)

    optimizer.step(closure)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        optimizer.step(closure)
    finally:
        sys.setprofile(before)
    assert 15 < len(walked) <= 30, sorted(code.co_qualname for code in walked)
    assert 3 < len({code.co_filename for code in walked}) <= 6
    assert optimizer.facts.climbed


def test_a_stranger_reads_one_file():
    text = inspect.getsource(sys.modules["surefoot.optim.sharpness_aware"])
    assert len(text.splitlines()) <= 250
    assert len(list((HOME / "optim").glob("_*.py"))) <= 10


def private_names(sources):
    """Names with an underscore that are used, as attributes or texts, and defined nowhere in these sources."""
    trees = [ast.parse(source) for source in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                defined.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("surefoot"):
            used |= {name.name for name in node.names}
    hidden = {name for name in used if name.startswith("_") and name.isidentifier() and not name.startswith("__")}
    return (hidden - defined - DOCUMENTED) | (used & FRAMES)


def test_five_private_names_of_torch_and_all_in_one_file():
    own = [path for path in FILES if path.name != "_torch.py"]
    assert private_names(path.read_text() for path in own) == set()
    names = {value for key, value in vars(_torch).items() if key.isupper()}
    assert private_names([(HOME / "optim" / "_torch.py").read_text()]) == names
    assert len(names) <= 5


@pytest.mark.parametrize(
    "line",
    [
        "torch._foreach_mul_(grads, 2)",
        "from torch.nn.modules.batchnorm import _NormBase",
        "getattr(ddp.reducer, '_reset_state')()",
        "self.x = node._saved_self",
        "step.__code__.co_filename",
    ],
)
def test_others_would_be_found(line):
    assert private_names([line])


def test_the_room_exports_functions_and_classes():
    for name in surefoot.optim.__all__:
        assert not inspect.ismodule(getattr(surefoot.optim, name)), name


# A torch without one of the names.


def test_without_versions_p_y_is_asked_for_and_steps_go_on(monkeypatch):
    monkeypatch.setattr(_closure, "VERSION", "_gone")
    model, optimizer, (x, y) = setup()
    with pytest.raises(InputError, match="Expected to know p_y of each example"):
        optimizer.step(losses(model, x, y))
    optimizer.step(lambda: LossTerms(loss := F.cross_entropy(model(x), y, reduction="none"), log_py=-loss))
    F.cross_entropy(model(x), y).backward()  # added to a gradient that the step has used: cleared with it
    optimizer.step(lambda: LossTerms(loss := F.cross_entropy(model(x), y, reduction="none"), log_py=-loss))
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with pytest.raises(InputError, match="gradients which no step has used"):
        optimizer.step(losses(model, x, y))


def test_without_the_dimension_of_log_softmax_p_y_is_asked_for(monkeypatch):
    monkeypatch.setattr(_closure, "SOFTMAX_DIM", "_gone")
    model, optimizer, (x, y) = setup()
    with pytest.raises(InputError, match="Expected to know p_y of each example"):
        optimizer.step(losses(model, x, y))
    SAM(optimizer.base, model).step(losses(model, x, y))


def closure_that_scales(model, optimizer, scaler, x, y):
    def closure():
        optimizer.zero_grad()
        loss = optimizer.loss(model(x), y)
        scaler.scale(loss).backward()
        return loss

    return closure


def test_a_closure_that_scales_by_itself_is_refused_where_a_scaler_asks(monkeypatch):
    model, optimizer, (x, y) = setup()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(optimizer.loss(model(x), y)).backward()
    with pytest.raises(InputError, match=r"Call optimizer.step\(closure, scaler=scaler\)"):
        scaler.step(optimizer, closure_that_scales(model, optimizer, scaler, x, y))
    optimizer.zero_grad()
    optimizer.step(losses(model, x, y))  # it is not taken for the scaler's call
    monkeypatch.delattr(Wrapper, _torch.ASKED_BY_SCALER)
    optimizer.zero_grad()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(optimizer.loss(model(x), y)).backward()
    with pytest.raises(InputError, match="gradients which no step has used"):
        scaler.step(optimizer, losses(model, x, y))


@pytest.fixture
def one_rank():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("gone", ["STOP_WAITING", "JOIN", None])
def test_without_the_names_of_ddp_steps_go_on(gone, one_rank, monkeypatch):
    results = []
    for cls in (SAM, SSAM):
        if gone is not None:
            monkeypatch.setattr(_distributed, gone, "_gone")
        ddp = DistributedDataParallel(mlp())
        optimizer = cls(torch.optim.SGD(ddp.parameters(), lr=0.1), ddp)
        twin, (x, y) = mlp(), batches(1, shape=(12,))[0]
        calls = []

        def closure(ddp=ddp, calls=calls, x=x, y=y):
            calls.append(1)
            out = F.cross_entropy(ddp(x), y, reduction="none")
            if len(calls) == 2:
                raise KeyError("lost")
            return out

        with pytest.raises(KeyError):
            optimizer.step(closure)
        assert_same(weights(ddp.module), weights(twin))
        optimizer.step(closure)
        cls(torch.optim.SGD(twin.parameters(), lr=0.1), twin).step(losses(twin, x, y))
        results.append((weights(ddp.module), weights(twin)))
    for ours, expected in results:
        torch.testing.assert_close(ours, expected)
