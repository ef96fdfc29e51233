"""The matrix of workloads and number formats, slice by slice, on a simulated GPU."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from actor_fixtures import QUICK

from joulelab.analysis.matrix import VARIANTS, Variant
from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab_actors.driver_clocks import measure_matrix, plan_lines, report_matrix
from joulelab_actors.laboratory import Laboratory

SCRIPT = Path(__file__).parents[2] / "experiments" / "workload_matrix.py"
SHORT = replace(QUICK, idle_s=0.0, warmup_max_s=1.0, window_s=0.5, limit_s=2.0)
SMALL = Variant(workload="gemm", name="small", knobs={"n": 2048}, batches=(1,), prepare_s=0.0)
HUGE = Variant(workload="gemm", name="huge", knobs={"n": 200_000}, batches=(1,), prepare_s=0.0)


@pytest.fixture
def lab(cluster, tmp_path):
    return Laboratory(
        num_gpus=1,
        store=tmp_path / "driver",
        study="it",
        results_dir=tmp_path,
        tracking_uri="none",
        procedure=SHORT,
    )


@pytest.fixture
def experiment(monkeypatch):
    spec = importlib.util.spec_from_file_location("workload_matrix", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "workload_matrix", module)
    spec.loader.exec_module(module)
    return module


def rows(lab):
    return read_csv_table(lab.study_dir("it") / "workloads.csv")


def test_a_matrix_goes_on_where_a_slice_ended_and_measures_nothing_twice(lab, capsys):
    matrix = [(each, each.grid(("fp32", "bf16", "int4"))) for each in (SMALL, HUGE)]

    codes = [measure_matrix(matrix, lab, settings=None, budget_s=8.0)]
    first = ResultStore(lab.study_dir("it")).read()
    codes += [measure_matrix(matrix, lab, settings=None) for _ in range(2)]

    all_of_them = ResultStore(lab.study_dir("it")).read()
    assert codes == [1, 0, 0]
    assert 0 < len(first) < len(all_of_them) == 4
    assert [row["outcome"] for row in rows(lab)] == [
        "measured", "measured", "refused", "unsupported", "unsupported", "refused",
    ]  # fmt: skip
    assert "GB are needed" in rows(lab)[3]["reason"]
    assert "2 measured, 2 refused, 2 unsupported" in capsys.readouterr().out
    assert report_matrix(matrix, lab) == 0


def test_a_budget_that_fits_no_cell_is_refused(lab):
    with pytest.raises(ConfigError, match="budget_s must fit the next cell"):
        measure_matrix([(SMALL, SMALL.grid(("fp32",)))], lab, settings=None, budget_s=0.1)


def test_the_variants_hold_every_workload_that_runs_on_a_gpu():
    not_programs = {"idle", "recorded", "server"}

    assert {each.workload for each in VARIANTS} == set(WORKLOADS) - not_programs


def test_every_variant_of_the_experiment_runs_in_some_format(experiment):
    config = experiment.WorkloadMatrix()

    plan = plan_lines(config.matrix, config.lab.procedure, repeats=1)

    assert len({each.name for each in VARIANTS}) == len(VARIANTS)
    assert all(any(case.configuration for case in grid.cases) for _, grid in config.matrix)
    assert "cells to measure, some" in plan[-1]


def test_an_unknown_variant_is_refused_with_the_closest(experiment):
    with pytest.raises(UnknownNameError, match="vit-base"):
        _ = experiment.WorkloadMatrix(only=("vit-bas",)).matrix
