"""Shards under FSDP2: one launch starts real processes and runs all checks on them."""

import pytest

from tests.optim.distributed.launch import find, said_by_all, verify

CHECKS = [name for name in find(["fsdp_checks"]) if not name.endswith("two_dimensions")]  # that needs four processes


@pytest.fixture(scope="module")
def two():
    return said_by_all(2, CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_on_two_processes(name, two):
    verify(two, name)
