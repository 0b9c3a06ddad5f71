from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from surefoot.errors import InputError, SplitError
from surefoot.schema import Predictions, RunSpec
from surefoot.studies.compare import make_spec


def test_specs_survive_json() -> None:
    spec = make_spec("label_smoothing + csam:gamma=2", seed=3, epochs=5)
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_ids_name_what_determines_a_run() -> None:
    spec = make_spec("csam")
    same = make_spec("csam:gamma=1.0,rho=0.1")
    assert spec.run_id("data", "1") == same.run_id("data", "1")
    others = [
        make_spec("csam:gamma=2").run_id("data", "1"),
        dataclasses.replace(spec, seed=1).run_id("data", "1"),
        make_spec("csam", lr=0.2).run_id("data", "1"),
        spec.run_id("other data", "1"),
        spec.run_id("data", "2"),
    ]
    assert len({spec.run_id("data", "1"), *others}) == 6


def test_predictions_refuse_a_calibrator_fitted_on_their_split() -> None:
    with pytest.raises(SplitError, match="Fit it on the calibration split"):
        Predictions(np.zeros((1, 2)), np.zeros(1, int), "test", fitted_on="test")
    with pytest.raises(InputError, match="Pass one row of logits per label"):
        Predictions(np.zeros((2, 2)), np.zeros(1, int), "test")
