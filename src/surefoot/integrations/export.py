"""A network and its calibrator as one file: ``torch.export`` programs and ONNX, for any number of rows at once.

The network is computed in its own precision; the calibrator behind it in float64, as everywhere in surefoot, because
log(1 - p) of a certain class and the edge at which a step function jumps need the digits, and a row of logits costs
next to nothing. What comes out is float32 where the network is half precision: bfloat16 has three digits, so to round
calibrated logits to it would undo a part of the calibration. float32 and float64 stay as they are.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from surefoot.calibrated import CalibratedModel
from surefoot.calibrators import Calibrator
from surefoot.errors import InputError
from surefoot.modes import in_eval_mode
from surefoot.seeding import generator as make_generator

Outputs = Literal["logits", "probs"]
COMPARED = 1000  # rows on which a file is compared with torch before it is left
_AT_ONCE = 100
_HALF = (torch.float16, torch.bfloat16)
_CLOSE = {torch.float16: 2e-2, torch.bfloat16: 2e-1, torch.float32: 1e-3, torch.float64: 1e-6}  # of a network


class Fused(nn.Module):
    """A network with its calibrator, giving one tensor: what is exported.

    Args:
        model: What :func:`surefoot.calibrate` made; or any network that gives logits.
        calibrator: The calibrator of a network that has none yet.
        outputs: What it gives: calibrated ``"logits"`` or ``"probs"``.

    Raises:
        InputError: If there is no calibrator, or there are two.
    """

    def __init__(self, model: nn.Module, calibrator: Calibrator | None = None, outputs: Outputs = "logits") -> None:
        super().__init__()
        if outputs not in ("logits", "probs"):
            raise InputError(f'Expected outputs to be "logits" or "probs", but got {outputs!r}. Choose one.')
        has_one = isinstance(model, CalibratedModel)
        if has_one == (calibrator is not None):
            got = "two" if has_one else "a network without one"
            raise InputError(
                f"Expected one calibrator, but got {got}. Pass sf.calibrate(model, loader), or calibrator=."
            )
        self.network = model.model if isinstance(model, CalibratedModel) else model
        self.head = model.head if isinstance(model, CalibratedModel) else calibrator.module()  # type: ignore[union-attr]  # one of both
        self.head.to(next((parameter.device for parameter in model.parameters()), None))
        self.outputs = outputs

        def forward(*args: Any, **kwargs: Any) -> Tensor:
            return self.calibrated(*args, **kwargs)

        # torch.export takes names from the signature and cannot make dynamic what comes in **kwargs: use the network's.
        forward.__signature__ = inspect.signature(self.network.forward)  # type: ignore[attr-defined]  # which it reads
        self.forward = forward

    def calibrated(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return calibrated logits or probabilities, float32 at least."""
        output = self.network(*args, **kwargs)
        logits = output if isinstance(output, Tensor) else output.logits
        calibrated: Tensor = self.head(logits.float() if logits.dtype in _HALF else logits)
        return calibrated.softmax(1) if self.outputs == "probs" else calibrated


def export_program(
    model: nn.Module, example: Any, *, calibrator: Calibrator | None = None, outputs: Outputs = "logits"
) -> torch.export.ExportedProgram:
    """Export a network and its calibrator with ``torch.export``; ``torch.export.save`` writes the program.

    Args:
        model: What :func:`surefoot.calibrate` made; or a network, with ``calibrator``. Exported in eval mode.
        example: Inputs: a tensor, a tuple of tensors, or a dictionary of keyword arguments. The first dimension of each
            is the rows; the program takes any number of them.
        calibrator: The calibrator, where the model has none.
        outputs: What comes out: ``"logits"`` or ``"probs"``.

    Returns:
        The program.

    Raises:
        InputError: If there is no calibrator, or no rows in the example.
    """
    fused = Fused(model, calibrator, outputs)
    args, kwargs = _inputs(example)
    rows = torch.export.Dim("rows")
    bound = inspect.signature(fused.forward).bind(*args, **kwargs).arguments
    shapes = tree_map(lambda _: {0: rows}, dict(bound))
    with in_eval_mode(fused), torch.no_grad():
        return torch.export.export(fused, args, kwargs, dynamic_shapes=shapes)


def export_onnx(
    model: nn.Module,
    example: Any,
    path: Path | str,
    *,
    calibrator: Calibrator | None = None,
    outputs: Outputs = "logits",
) -> Path:
    """Write a network and its calibrator as an ONNX file, compared with onnxruntime on 1,000 rows before it is left.

    Args:
        model: What :func:`surefoot.calibrate` made; or a network, with ``calibrator``. Exported in eval mode.
        example: Inputs, as for :func:`export_program`; the file takes any number of rows.
        path: Where to; ends in ``.onnx``. Inputs are called ``input``, or as in the example's dictionary.
        calibrator: The calibrator, where the model has none.
        outputs: What comes out: ``"logits"`` or ``"probs"``, which is also what the output is called.

    Returns:
        The path.

    Raises:
        InputError: If a package is missing, the name ends otherwise, or onnxruntime cannot run the file or gives other
            numbers; no file is left then.
    """
    runtime = _onnxruntime()
    path = Path(path)
    if path.suffix != ".onnx":
        raise InputError(f"Expected a file name in .onnx, but got {path.name!r}. Choose one.")
    args, kwargs = _inputs(example)
    program = export_program(model, example, calibrator=calibrator, outputs=outputs)
    names = list(kwargs) or (["input"] if len(args) == 1 else [f"input_{place}" for place in range(len(args))])
    with _quiet():
        written: Any = torch.onnx.export(program, input_names=names, output_names=[outputs], dynamo=True, verbose=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    written.save(path)
    try:
        _compare(runtime, path, program, (*args, *kwargs.values()), args, kwargs)
    except InputError:
        path.unlink()
        raise
    return path


def _inputs(example: Any) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Return the inputs by place and by name; at least two rows, because torch takes one for a constant."""
    kwargs = dict(example) if isinstance(example, Mapping) else {}
    args = () if kwargs else example if isinstance(example, tuple) else (example,)
    given = [*args, *kwargs.values()]
    if not given or not all(isinstance(each, Tensor) and each.ndim and len(each) for each in given):
        raise InputError(
            f"Expected an example of inputs with rows, but got {type(example).__name__}. "
            "Pass a tensor, a tuple of tensors, or a dictionary of them."
        )
    if len(given[0]) > 1:
        return args, kwargs
    return tuple(torch.cat([each, each]) for each in args), {name: torch.cat([x, x]) for name, x in kwargs.items()}


def _onnxruntime() -> Any:
    try:
        return [import_module(name) for name in ("onnx", "onnxscript", "onnxruntime")][
            -1
        ]  # torch writes with the others
    except ImportError as error:
        raise InputError(
            f"Expected onnx, onnxscript and onnxruntime to be installed, but {error.name} is not. "
            "Run pip install 'surefoot[onnx]'."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep from the user what torch's exporter says about its own code, about torchvision, and about log 0."""
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in ("torch.onnx", "onnxscript")}
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)


def _compare(runtime: Any, path: Path, program: Any, given: tuple[Tensor, ...], args: Any, kwargs: Any) -> None:
    """Run the file on 1,000 rows like those of the example, and refuse it unless it gives what torch gives."""
    try:
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # each version has classes of its own
        half = any(value.dtype in _HALF for value in program.state_dict.values())
        advice = "Export model.float() instead." if half else "Export the program with export_program instead."
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"Expected onnxruntime to run {path.name} on the CPU, but: {reason}. {advice}") from error
    names = [each.name for each in session.get_inputs()]
    if any(each.dtype == torch.bfloat16 for each in given):
        return  # NumPy has no such numbers to ask with
    types = [value.dtype for value in program.state_dict.values() if value.is_floating_point()]
    close = max([_CLOSE.get(each, 1e-3) for each in types], default=1e-3)
    network, off = program.module(), []
    for rows in _rows_like(given):
        found = session.run(None, dict(zip(names, (each.cpu().numpy() for each in rows), strict=True)))[0]
        with torch.no_grad():
            wanted = network(*rows[: len(args)], **dict(zip(kwargs, rows[len(args) :], strict=True))).cpu().numpy()
        off.append(np.abs(found - wanted).max(1) / np.maximum(1, np.abs(wanted).max(1)))
    # Where a step function jumps between two logits that differ in the last digit, a row may be off; not most rows.
    middle = np.median(np.concatenate(off))
    if not middle <= close:
        raise InputError(
            f"Expected {path.name} to give what torch gives, but in onnxruntime it is off by {middle:.3g}. "
            "Export the program with export_program instead."
        )


def _rows_like(given: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    """Make rows to compare on: those of the example, and others between two of them, so that no input is unheard of."""
    yield given
    n, draw = len(given[0]), make_generator(0, "export")
    for start in range(n, COMPARED, _AT_ONCE):
        rows = min(_AT_ONCE, COMPARED - start)
        a = torch.randint(n, (rows,), generator=draw)
        b = (a + torch.randint(1, max(2, n), (rows,), generator=draw)) % n  # another one, where there is
        share = torch.rand(rows, generator=draw, dtype=torch.float64)
        yield tuple(_between(each.cpu(), a, b, share).to(each.device) for each in given)


def _between(rows: Tensor, a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    if not rows.is_floating_point():
        return rows[a]
    part = share.view(-1, *[1] * (rows.ndim - 1))
    return (part * rows[a].double() + (1 - part) * rows[b].double()).to(rows.dtype)
