"""What is remembered beside a calibrator comes back, from both kinds of file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surefoot.calibrators import Calibrator, load, load_about
from surefoot.calibrators.temperature import fit_temperature
from surefoot.calibrators.vector import fit_vector
from surefoot.errors import InputError
from surefoot.schema import Predictions

ABOUT = {"fitted_rows": [0, 2, 3], "file": "a.npz", "n": 3, "nested": {"é": [1.5, None, True]}}


@pytest.fixture(params=["temperature", "vector"])
def calibrator(request: pytest.FixtureRequest) -> Calibrator:
    draw = np.random.default_rng(0)
    data = Predictions(draw.standard_normal((60, 3)), draw.integers(0, 3, 60), "calibration")
    found: Calibrator = {"temperature": fit_temperature, "vector": fit_vector}[request.param](data)
    return found


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_it_comes_back(tmp_path: Path, calibrator: Calibrator, suffix: str) -> None:
    path = tmp_path / f"c{suffix}"
    calibrator.save(path, ABOUT)
    assert load_about(path) == ABOUT
    assert load(path).to_json() == calibrator.to_json()


@pytest.mark.parametrize("about", [None, {}])
@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_nothing_is_remembered_as_nothing(tmp_path: Path, calibrator: Calibrator, suffix: str, about: object) -> None:
    path = tmp_path / f"c{suffix}"
    calibrator.save(path, about)  # type: ignore[arg-type]
    assert load_about(path) == {}


@pytest.mark.parametrize(
    ("name", "text"), [("c.json", "{}"), ("c.json", "[1]"), ("c.json", "{"), ("c.safetensors", "x")]
)
def test_what_is_no_calibrator_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="Expected a saved calibrator"):
        load_about(tmp_path / name)
    with pytest.raises(InputError, match=r"absent\.json is none"):
        load_about(tmp_path / "absent.json")


@pytest.mark.parametrize("number", ["null", '"2"', "NaN", "true", "1e999", "9" * 400, "[2.0]"])
def test_a_temperature_that_is_no_number_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(f'{{"calibrator": "temperature", "temperature": {number}, "fitted_on": "calibration"}}')
    with pytest.raises(InputError, match="Expected a number as temperature of a saved calibrator, but got"):
        load(path)


@pytest.mark.parametrize("number", ["0", "-1.5"])
def test_a_temperature_that_would_turn_classes_round_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(f'{{"calibrator": "temperature", "temperature": {number}, "fitted_on": "calibration"}}')
    with pytest.raises(InputError, match=f"Expected a temperature above 0, but got {number}"):
        load(path)


@pytest.mark.parametrize("bias", ["4e307", "-1e31", "NaN", "Infinity"])
def test_numbers_that_no_fit_finds_are_refused(tmp_path: Path, bias: str) -> None:
    """One changed bit can make a bias of 4e307 from 0.2: applied, every logit would be infinite."""
    path = tmp_path / "c.json"
    rest = '"calibrator": "vector", "factor": [1, 1], "fitted_on": "calibration"'
    path.write_text(f'{{"bias": [0.5, {bias}], {rest}}}')
    with pytest.raises(InputError, match="Expected a saved calibrator whose bias a fit could have found"):
        load(path)
    path.write_text(f'{{"bias": [0.5, 4e20], {rest}}}')
    assert load(path).name == "vector"


def test_a_temperature_next_to_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"calibrator": "temperature", "temperature": 1e-300, "fitted_on": "calibration"}')
    with pytest.raises(InputError, match="Expected a saved calibrator whose temperature a fit could have found"):
        load(path)
