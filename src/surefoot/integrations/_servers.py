"""Logs that other programs keep: MLflow and Weights & Biases. Both go on with a run that they know by its name."""

from __future__ import annotations

import io
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.integrations._writers import LOSS, Writer


class Mlflow(Writer):
    """A run of MLflow, in the experiment and at the server that its own environment variables name."""

    name = package = "mlflow"
    MOST = 1000  # metrics that MLflow takes at once

    def check(self) -> None:
        """Ask the server for the experiment, and make it if it is not there: later, several processes would."""
        super().check()
        from mlflow import MlflowClient, get_tracking_uri

        try:
            self._experiment(MlflowClient())
        except Exception as error:
            raise InputError(
                f"Expected MLflow to answer at {get_tracking_uri()}, but {type(error).__name__}: {error}. "
                "Set MLFLOW_TRACKING_URI, to sqlite:///mlflow.db say."
            ) from error

    def _experiment(self, client: Any) -> str:
        if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return number
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "surefoot")
        found = client.get_experiment_by_name(name)
        return str(found.experiment_id if found is not None else client.create_experiment(name))

    def open(self, place: Path, title: str, settings: Mapping[str, Any], known: str | None, own: bool) -> str | None:
        """Go on with a known run, log into the one that the user's loop has open, or create one."""
        import mlflow
        from mlflow.entities import Param

        self._client, self._waiting = mlflow.MlflowClient(), list[Any]()
        active: Any = mlflow.active_run()
        self._is_ours = not (own and active is not None)
        if known is not None and self._is_there(known):
            self._run = known
            self._client.update_run(known, status="RUNNING")
            self.last = max((each.step for each in self._client.get_metric_history(known, LOSS)), default=-1)
        elif not self._is_ours:
            self._run = active.info.run_id
        else:
            tags = {"mlflow.parentRunId": active.info.run_id} if active is not None else {}
            made = self._client.create_run(self._experiment(self._client), run_name=title, tags=tags)
            self._run = made.info.run_id
            self._client.log_batch(self._run, params=[Param(k, str(v)[:500]) for k, v in settings.items()])
        return self._run if self._is_ours else None

    def _is_there(self, run: str) -> bool:
        """Return whether the server knows a run; it may have been deleted, or the server be another one."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self._client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False

    def add(self, step: int, values: Mapping[str, float], record: Mapping[str, Any]) -> None:
        """Take metrics; MLflow's names have no @."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        named = {re.sub(r"[^\w\-. :/]", "_", key.replace("@", "_at_")): value for key, value in values.items()}
        self._waiting += [Metric(key, value, now, step) for key, value in named.items()]

    def send(self) -> None:
        """Send what waits."""
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), self.MOST):
            self._client.log_batch(self._run, metrics=waiting[start : start + self.MOST], synchronous=True)

    def image(self, step: int, name: str, png: bytes) -> None:
        """Add a picture to the run's artifacts."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.png"
            path.write_bytes(png)
            self._client.log_artifact(self._run, str(path))

    def close(self, failed: bool) -> None:
        """End the run."""
        if self._is_ours:
            self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class Wandb(Writer):
    """A run of Weights & Biases, as its own environment variables say: ``WANDB_MODE=offline``, ``WANDB_PROJECT``."""

    name = package = "wandb"

    def check(self) -> None:
        """Refuse to start where wandb would ask for a key that nobody types in."""
        super().check()
        import wandb

        settings = wandb.setup().settings
        if settings.mode in (None, "online") and not settings.api_key and not wandb.api.api_key:
            raise InputError(
                "Expected to be logged in to Weights & Biases, but there is no key. "
                "Run `wandb login`, or set WANDB_MODE=offline."
            )

    def open(self, place: Path, title: str, settings: Mapping[str, Any], known: str | None, own: bool) -> str | None:
        """Go on with a known run, log into the one that the user's loop has open, or create one."""
        import wandb

        self._is_ours = not (own and wandb.run is not None)
        if not self._is_ours:
            self._run: Any = wandb.run
            return None
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "surefoot"),
            name=title,
            id=known,
            resume="allow" if known else None,
            config=dict(settings),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.last = self._run.starting_step - 1
        return str(self._run.id)

    def add(self, step: int, values: Mapping[str, float], record: Mapping[str, Any]) -> None:
        """Log values, which wandb sends by itself; final ones belong to the run's summary."""
        final = {key: value for key, value in values.items() if key.startswith("final/")}
        self._run.summary.update(final)
        self._run.log({key: value for key, value in values.items() if key not in final}, step=step)

    def send(self) -> None:
        """Nothing to do."""

    def image(self, step: int, name: str, png: bytes) -> None:
        """Log a picture."""
        import wandb
        from PIL import Image

        self._run.log({name: wandb.Image(Image.open(io.BytesIO(png)))}, step=step)

    def close(self, failed: bool) -> None:
        """End the run."""
        if self._is_ours:
            self._run.finish(exit_code=int(failed))
