"""Run checks on this rank: ``torchrun run.py <folder> <module> <module:check> …``."""

import sys

from tests.optim.distributed.launch import find, run_checks

if __name__ == "__main__":
    run_checks(find(sys.argv[2:]), sys.argv[1])
