# The two commands of the README are `make run` and `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RESULTS ?= results
ARGS ?=

.PHONY: help setup run ui test lint types bench bench-estimator bench-models clean

help:  ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Make .venv and install everything into it

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "joulelab needs Python 3.11 or newer; say which with make PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (once; some minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,quality]'
	@touch $@

run: $(READY)  ## Sweep the SM clock of simulated GPUs and say which clock to use
	@$(BIN)/python experiments/dvfs_sweep.py --results-dir $(RESULTS) $(ARGS)

ui: $(READY)  ## Open the MLflow pages of the results
	@$(BIN)/python -m joulelab.tracking.ui $(RESULTS)

test: $(READY)  ## Run the whole test suite
	@$(BIN)/python -m pytest -n logical --dist loadgroup $(ARGS)

lint: $(READY)  ## Check style
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY)  ## Check types
	@$(BIN)/mypy platform actors

bench: $(READY)  ## Measure the figures that the project promises
	@$(BIN)/python benchmarks/run.py $(ARGS)

bench-estimator: $(READY)  ## Measure those of the estimator, all points told
	@$(BIN)/python benchmarks/run.py estimator_speed estimator_laws estimator

bench-models: $(READY)  ## Compare all power models on applications and GPUs held out
	@$(BIN)/python benchmarks/power_models.py $(ARGS)

clean:  ## Remove the environment and caches, never results
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
