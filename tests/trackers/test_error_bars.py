"""What trackers record lies within its error bar: against a float64 Lanczos, along trainings."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from surefoot.data.digits import digits


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """The benchmark that prints the document's figures; it is no package."""
    path = Path(__file__).parents[2] / "benchmarks" / "error_bars.py"
    spec = importlib.util.spec_from_file_location("error_bars", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["error_bars"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("network", "steps"), [("relu", 60), ("cnn", 30)])
def test_values_lie_within_their_bars_along_trainings(network: str, steps: int, benchmark: ModuleType) -> None:
    """Also when another eigenvector takes over between two measurements; at both ends of the spectrum."""
    found = benchmark.deviations(network, 0, 0.05, digits(), steps=steps, probe=32)
    assert len(found) == 3 * (steps // 10 + 1)
    assert [each for each in found if each.off > 0.02] == []
    outside = [each for each in found if each.outside]
    assert len(outside) <= 1, outside  # the bars are made for 95 %
    assert max(each.bar for each in found) < 0.05
