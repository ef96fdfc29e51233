# Results lie in ~/joulelab-results, as those of the scripts do, or in RESULTS=folder.
# The two commands of the README are `make run` and `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORE := .venv-core
# All that the core can do; left out is what compares with SciPy, reads Parquet, runs PyTorch, or has all extras.
CORE_TESTS := $(addprefix tests/unit/,core devices guard hardware monitor sampling \
  cli/test_devices_doctor.py integrations/test_energy_log.py measure/test_measure.py measure/test_core_only.py) \
  $(addprefix --ignore=tests/unit/,core/test_comparison.py devices/test_replay.py sampling/test_host.py sampling/test_cuda_device.py sampling/test_following.py) \
  --deselect=tests/unit/cli/test_devices_doctor.py::test_a_machine_without_a_gpu_is_checked_all_the_same
ARGS ?=

# Tests start hundreds of processes, and each would compile all that it imports where this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup run ui test test-core test-cluster lint types docs bench bench-attribution bench-estimator bench-governor bench-models clean

help:  ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Make .venv and install everything into it

$(READY): pyproject.toml constraints.txt constraints-common.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "joulelab needs Python 3.11 or newer; say which with make PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (once; some minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

run: $(READY)  ## Sweep the SM clock of simulated GPUs and say which clock to use
	@$(BIN)/python experiments/dvfs_sweep.py $(if $(RESULTS),--results-dir $(RESULTS)) $(ARGS)

ui: $(READY)  ## Open the MLflow pages of the results
	@$(BIN)/joulelab ui $(RESULTS)

# One process more than cores: those with a cluster wait for a third of their time.
test: $(READY)  ## Run the whole test suite
	@$(BIN)/python -m pytest -n $$(($$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1)) --dist loadgroup --no-loadscope-reorder $(ARGS)

test-core: $(CORE)/.ready  ## Test that measuring needs no more than `pip install joulelab`
	@$(CORE)/bin/python -m pytest -n logical --dist loadgroup $(CORE_TESTS) $(ARGS)

$(CORE)/.ready: pyproject.toml constraints.txt constraints-common.txt
	@test -x $(CORE)/bin/python || $(PYTHON) -m venv $(CORE)
	@$(CORE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

test-cluster: $(READY)  ## Test jobs in a real SLURM of three nodes on this machine; needs root and its packages
	@$(BIN)/python -m pytest -n 0 tests/cluster $(ARGS)

lint: $(READY)  ## Check style
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY)  ## Check types
	@$(BIN)/mypy platform actors

docs: $(READY)  ## Build the documentation into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "Open site/index.html"

bench: $(READY)  ## Measure the figures that the project promises
	@$(BIN)/python benchmarks/run.py $(ARGS)

bench-estimator: $(READY)  ## Measure those of the estimator, all points shown
	@$(BIN)/python benchmarks/run.py estimator_speed estimator_laws estimator unknown_hosts

bench-governor: $(READY)  ## Measure what the governor saves of what could be saved
	@$(BIN)/python benchmarks/governor.py $(ARGS)

bench-attribution: $(READY)  ## Attribute energy where the truth of every kernel is planted
	@$(BIN)/python benchmarks/attribution.py $(ARGS)

bench-models: $(READY)  ## Compare all power models on applications and GPUs held out
	@$(BIN)/python benchmarks/power_models.py $(ARGS)

clean:  ## Remove the environment and caches, never results
	rm -rf $(VENV) $(CORE) site .mypy_cache .pytest_cache .ruff_cache
