"""A loop of one's own, written down as a run: the live page and the report read it like any other."""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from surefoot.schema import RunSpec

    Pair = tuple[Tensor, Tensor]


class watch:  # it is called like a function, as open() is
    """Write down a training in a loop of one's own, so that ``surefoot watch`` and ``surefoot report`` read it.

    The training is the same, bit for bit: trackers leave gradients, modes and random numbers as they are. When the
    block ends, the network predicts all splits, and the run is finished; when it raises, the run is interrupted.

    Where several processes train one network (DDP), each has the same block: the first one measures and writes, and the
    others do nothing.

    Args:
        optimizer: For its learning rate and, if it is one of ours, the facts of its steps.
        model: The network, logits out; also in DDP's wrapper.
        out: The run folder.
        train: Inputs and labels of the training data, or some thousands of them.
        test: Inputs and labels to be judged on.
        calibration: Inputs and labels of other held-out data, to choose by and to fit a temperature on; ``surefoot
            report`` needs them.
        epochs: How long the training is.
        steps_per_epoch: How many steps an epoch has.
        track: What to measure, as after ``--track``.
        method: What to call it; else the optimizer's class.
        seed: The seed that the loop has set, to tell runs apart.
        fresh: Replace a run that the folder holds.

    Raises:
        InputError: If the folder holds a run already, or somebody's own files; if the network is spread out over
            processes (FSDP).

    Example:
        >>> import tempfile, torch
        >>> x, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> data = {"train": (x, y), "test": (x, y)}
        >>> with watch(optimizer, model, out=tempfile.mkdtemp(), **data, epochs=1, steps_per_epoch=2) as w:
        ...     for _ in range(2):
        ...         optimizer.zero_grad()
        ...         loss = torch.nn.functional.cross_entropy(model(x), y)
        ...         loss.backward()
        ...         _ = optimizer.step()
        ...         w(loss)
        >>> w.step, w.folder.done()["passes"]
        (2, 2)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        model: nn.Module,
        *,
        out: Path | str,
        train: Pair,
        test: Pair,
        calibration: Pair | None = None,
        epochs: int,
        steps_per_epoch: int,
        track: str = "cheap",
        method: str | None = None,
        seed: int = 0,
        fresh: bool = False,
    ) -> None:
        from surefoot.records import RunFolder
        from surefoot.schema import Tracking
        from surefoot.trackers import Watch, read_track

        if epochs < 1 or steps_per_epoch < 1:
            raise InputError(f"Expected epochs and steps ≥ 1, but got {epochs} and {steps_per_epoch}. Raise them.")
        self._optimizer, self._model, self._fresh, self._per_epoch = optimizer, _whole(model), fresh, steps_per_epoch
        self._writes, self._entered = _is_first(), False
        pairs = {"train": train, "calibration": calibration, "test": test}
        self._pairs = {name: pair for name, pair in pairs.items() if pair is not None}
        self._tracking = Tracking(read_track(track if "quality" in track else f"{track},quality"))
        n_steps = epochs * steps_per_epoch
        self._watch = Watch(
            ",".join(self._tracking.trackers),
            train=train,
            test=test,
            calibration=calibration,
            optimizer=optimizer,
            n_steps=n_steps,
            steps_per_epoch=steps_per_epoch,
            listen=self._hear,
        )
        self.folder = RunFolder(out)
        self.step = 0
        self._passes: float = 0
        self._label, self._seed, self._epochs = method or type(optimizer).__name__, seed, epochs
        self._pending: list[dict[str, Any]] = []
        self._held = ExitStack()
        self._tracked = 0.0
        self._written = time.monotonic()

    def __enter__(self) -> watch:
        """Take the folder, write down what is about to run, and measure the untrained network."""
        import torch

        from surefoot.records.environment import environment

        if self._entered:
            raise InputError("Expected one block per sf.watch, but this one has had its. Call sf.watch again.")
        self._entered = True
        if not self._writes:
            return self
        self.folder.check_ours()
        self._held.enter_context(self.folder.locked())
        if self.folder.run_id is not None:
            if not self._fresh:
                self._held.close()
                raise InputError(
                    f"Expected {self.folder.path} to be empty, but it holds a run ({self.folder.run_id}). "
                    "Choose another out=, or replace it with fresh=True."
                )
            self.folder.clear()
        spec, data = self._spec(), self._data()
        self._classes = tuple(data["classes"])
        self._stamp: dict[str, Any] = {"run": spec.run_id(data["fingerprint"], "own loop"), "seed": self._seed}
        device = str(next(self._model.parameters()).device)
        where = environment(torch.get_num_threads(), device)
        self.folder.begin(spec, self._stamp["run"], data, where, self._tracking)
        self._written = time.monotonic()
        self._measure(None)
        self._write()
        return self

    def __call__(self, loss: Tensor | float | None = None, batch: Pair | None = None) -> None:
        """Say that a step is made; call it right after ``optimizer.step()``.

        Args:
            loss: The step's loss, one number; it is read when records are written, so that no device waits for it.
            batch: The step's inputs and labels, for trackers of batch sharpness.

        Raises:
            InputError: If the loss is not one number, or no block has begun.
        """
        if not self._entered:
            raise InputError("Expected a block that has begun, but got none. Write `with sf.watch(…) as watched:`.")
        self.step += 1
        if not self._writes:
            return
        facts = getattr(self._optimizer, "facts", None)
        self._passes += facts.passes if facts else 1
        place = {"step": self.step, "epoch": (self.step - 1) // self._per_epoch, "passes": self._passes}
        record = {**self._stamp, **place, "split": "train", "lr": float(self._optimizer.param_groups[0]["lr"])}
        if loss is not None:
            record["loss"] = _one_number(loss)
        self._pending.append(record)
        self._measure(batch)
        if time.monotonic() - self._written >= self.folder.write_every:
            self._write()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Predict, measure and finish; where the loop has failed, only keep what was recorded."""
        if not self._writes:
            return
        try:
            self._write()
            if error is None:
                self._finish()
        finally:
            self._held.close()

    def _finish(self) -> None:
        from surefoot.evaluate import evaluate
        from surefoot.schema import Predictions, Split
        from surefoot.training.predict import predict
        from surefoot.training.tracker import undisturbed

        for name in ("train", "calibration", "test"):
            if name in self._pairs:
                split = Split(*self._pairs[name])
                with undisturbed(self._model):
                    logits = predict(self._model, split).cpu().numpy()
                self.folder.write_predictions(
                    Predictions(logits, split.labels.cpu().numpy(), name, class_names=self._classes)
                )
        if "calibration" in self._pairs:
            evaluate(self.folder, int(self._passes))
        seconds = {"seconds": round(self.folder.seconds(), 3)}
        seconds["tracking_seconds"] = round(self.folder.tracking_seconds(), 3)
        self.folder.finish({"run": self._stamp["run"], "seed": self._seed, "passes": self._passes, **seconds})

    def _measure(self, batch: Pair | None) -> None:
        start = time.monotonic()
        self._watch(self.step, self._model, batch)
        self._tracked += time.monotonic() - start

    def _hear(self, record: dict[str, Any]) -> None:
        place = {"step": self.step, "epoch": self.step // self._per_epoch, "passes": self._passes}
        self._pending.append({**self._stamp, **place, **record})

    def _write(self) -> None:
        now = time.monotonic()
        for record in self._pending:
            if "loss" in record and not isinstance(record["loss"], int | float):
                record["loss"] = record["loss"].item()
        self.folder.append_steps(self._pending)
        if self.step:
            self.folder.add_seconds(self.step, now - self._written, self._tracked)
            self._tracked = 0.0
            self._written = now
        self._pending.clear()

    def _spec(self) -> RunSpec:
        from surefoot.schema import MethodSpec, PartSpec, RunSpec

        group = self._optimizer.param_groups[0]
        options = {key: value for key, value in group.items() if type(value) in (int, float, bool)}
        optimizer = PartSpec(type(self._optimizer).__name__, options)
        method = MethodSpec(self._label, PartSpec("own"), optimizer)
        size = -(-len(self._pairs["train"][1]) // self._per_epoch)
        data, model = PartSpec("own"), PartSpec(type(self._model).__name__)
        return RunSpec(method, data, model, seed=self._seed, epochs=self._epochs, batch_size=size)

    def _data(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for inputs, labels in self._pairs.values():
            digest.update(inputs.detach().cpu().contiguous().numpy().tobytes())
            digest.update(labels.detach().cpu().contiguous().numpy().tobytes())
        n_classes = 1 + int(max(int(labels.max()) for _, labels in self._pairs.values()))
        return {
            "fingerprint": digest.hexdigest()[:16],
            "classes": [str(name) for name in range(n_classes)],
            "input_shape": list(self._pairs["train"][0].shape[1:]),
            "examples": {name: len(pair[1]) for name, pair in self._pairs.items()},
            "scaling": None,
            "steps_per_epoch": self._per_epoch,
        }


def _is_first() -> bool:
    """Return whether this process is the one that writes, of those that train together, or the only one."""
    import torch.distributed as dist

    from surefoot.clusters import is_first_process

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return is_first_process()


def _whole(model: nn.Module) -> nn.Module:
    """Return the network inside DDP's wrapper, which one process may ask alone; refuse one that none has whole."""
    from torch.nn import DataParallel
    from torch.nn.parallel import DistributedDataParallel

    from surefoot.ranks import is_sharded

    if any(map(is_sharded, model.parameters())):
        raise InputError(
            "Expected a network that each process has whole, but got one that is spread out over them (FSDP). "
            "Train it by `surefoot train --shard fsdp2 --watch`, or write logs of your own."
        )
    inside = model.module if isinstance(model, DistributedDataParallel | DataParallel) else model
    return inside


def _one_number(loss: Tensor | float) -> Tensor | float:
    if isinstance(loss, int | float):
        return loss
    if loss.numel() != 1:
        shape = tuple(loss.shape)
        raise InputError(f"Expected a loss of one number, but got one of shape {shape}. Pass loss.mean(), say.")
    return loss.detach().clone()
