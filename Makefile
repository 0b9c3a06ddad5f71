# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LOG    := $(VENV)/setup.log
PAGE   := surefoot-runs/report.html
PIP    := $(BIN)/pip --disable-pip-version-check install --quiet --constraint constraints.txt

# $(call stage,what is said,what is done): one line while it runs, its output only if it fails.
stage = @printf '%s\n' '$(1)'; $(2) >>$(LOG) 2>&1 || { tail -n 20 $(LOG); printf '%s\n' 'That failed; all of it: $(LOG)'; exit 1; }

.PHONY: demo test setup lint types tests docs site picture dist dist-fresh data studies results clean

demo: setup  ## Train SGD, SAM and CSAM on the embedded data and say which one to trust
	@printf '%s\n' 'Training SGD, SAM and CSAM with three seeds each on 4,000 embedded pictures.'
	@$(BIN)/surefoot compare
	@if [ -t 0 ] && [ -t 1 ]; then \
	    printf 'Open the page in a browser? [y/N] '; read -r answer; \
	    case "$$answer" in [yY]*) $(BIN)/python -m webbrowser -t "file://$(CURDIR)/$(PAGE)" >/dev/null;; esac; \
	fi

test: setup lint types tests  ## Lint, types and all tests

setup: $(READY)

# torch goes first and pinned: a free choice would fetch gigabytes of CUDA libraries.
$(READY): pyproject.toml constraints.txt
	@printf '%s\n' 'Set-up, once; torch takes most of the time.'
	@mkdir -p $(VENV)
	$(call stage,1/3 making an environment in $(VENV),$(PYTHON) -m venv $(VENV))
	$(call stage,2/3 installing torch,$(PIP) torch)
	$(call stage,3/3 installing surefoot and what its tests need,$(PIP) --editable ".[dev]")
	@touch $(READY)

# The documentation has few needs of its own, so they come only when it is asked for.
$(READY)-docs: $(READY)
	$(call stage,Installing what the documentation site needs,$(PIP) --editable ".[docs]")
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# Tests start hundreds of processes: each would compile surefoot anew if nobody were allowed to keep bytecode.
tests: setup
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --durations 10

docs: $(READY)-docs  ## Serve the documentation on http://127.0.0.1:8000 and follow changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

site: $(READY)-docs  ## Build the documentation into build/site; a link, an anchor or a name that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@printf '%s\n' 'Site: build/site/index.html'

picture: setup  ## Draw the picture of the README from the runs of the demo
	$(BIN)/python scripts/picture.py

dist: setup  ## Build wheel and sdist, and try the wheel beside what .venv has
	$(BIN)/python scripts/dist.py

dist-fresh: setup  ## The same in an environment that has nothing: installs torch and the other needs again
	$(BIN)/python scripts/dist.py --fresh

data: setup  ## Rebuild the embedded data from Debian's dataset-fashion-mnist
	$(BIN)/python scripts/build_fashion.py

studies: setup  ## Rerun all published claims at laptop size: most of a day on two cores; started again, it goes on
	$(BIN)/surefoot study all --size laptop --results results

results: setup  ## Make RESULTS.md and the studies' pages again from results/
	$(BIN)/surefoot study results --results results

clean:
	rm -rf $(VENV) surefoot-runs dist build
