"""docs/optimizers.md: its loops are executed, its table is the registry's."""

import re
from pathlib import Path

import pytest
import torch

from surefoot.optim.rules import ASCENTS
from surefoot.registry import OPTIMIZERS
from surefoot.schema import show_option
from tests.optim.problems import assert_same, weights

TEXT = (Path(__file__).parents[2] / "docs" / "optimizers.md").read_text()
*LOOPS, VARIANT = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
ROWS = {
    row[0].strip(" `"): row
    for row in re.findall(r"^\| (`\w+`) \|(.*)\|$", TEXT.partition("<!-- parts")[0], re.MULTILINE)
}


def test_the_three_loops_give_the_same_weights():
    assert len(LOOPS) == 3
    results = []
    for loop in LOOPS:
        found = {}
        exec(loop, found)
        assert found["optimizer"].param_groups[0]["lr"] == pytest.approx(0.0)
        assert isinstance(found["loss"], torch.Tensor)
        results.append(weights(found["model"]))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def test_the_variant_steps_as_it_says():
    found = {}
    exec(VARIANT, found)
    assert found["w"].item() == 3 - 0.5 * 3.5
    assert found["loss"].item() == 4.5


def test_every_row_is_of_an_optimizer():
    """The table at the end of the page, which is generated, has them all."""
    assert set(ROWS) <= {part.name for part in OPTIMIZERS}


@pytest.mark.parametrize("name", ROWS)
def test_defaults_in_the_table_are_the_real_ones(name):
    said = re.findall(r"`(\w+)=([^`]+)`", ROWS[name][1].rsplit("|", 2)[1])
    assert said
    for option, value in said:
        assert show_option(OPTIMIZERS[name].options[option].default) == value


def test_every_ascent_is_named():
    listed = re.search(r"where to climb \(`ascent=`, .*?: (.*?)\)", TEXT, re.DOTALL)[1]
    OPTIMIZERS.load()
    assert set(re.findall(r"`(\w+)`", listed)) == set(ASCENTS)
