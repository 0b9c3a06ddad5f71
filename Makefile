# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test setup lint types tests data studies results clean

demo: setup  ## Train SGD, SAM and CSAM on the embedded data and say which one to trust
	$(BIN)/surefoot compare

test: setup lint types tests  ## Lint, types and all tests

setup: $(READY)

# torch goes first and pinned: a free choice would fetch gigabytes of CUDA libraries.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

tests: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --durations 10

data: setup  ## Rebuild the embedded data from Debian's dataset-fashion-mnist
	$(BIN)/python scripts/build_fashion.py

studies: setup  ## Rerun all published claims at laptop size; more than two hours on two cores
	$(BIN)/surefoot study all --size laptop --results results

results: setup  ## Make RESULTS.md and the studies' pages again from results/
	$(BIN)/surefoot study results --results results

clean:
	rm -rf $(VENV) surefoot-runs dist build
