"""The search for quality, energy and performance, from its script to its answer."""

import csv
import importlib.util
import sys
from pathlib import Path

import pytest
from actor_fixtures import QUICK

from joulelab.analysis.search_log import read_log, result_of
from joulelab.errors import ConfigError
from joulelab.tracking.store import ResultStore
from joulelab.workloads.digits_vit import DigitsVitSettings
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import simulated_sites
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.choices import Axes, Limits
from joulelab_actors.search.scoring import lookup, score_beside, words

SCRIPT = Path(__file__).parents[2] / "experiments" / "qep_search.py"
RANDOM = DigitsVitSettings(weights=None)
"""Weights that nobody trained: formats agree with one another all the same, more or less."""
AXES = Axes(batches=(16, 64), precisions=("fp32", "fp8", "bf16", "int4"))


@pytest.fixture
def run(cluster, tmp_path, monkeypatch, guard_socket):
    """Run the script; returns its exit code, the rows of its table and its store."""

    def run(*, observe_only=False, **settings):
        spec = importlib.util.spec_from_file_location("qep_search", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "qep_search", module)
        spec.loader.exec_module(module)
        lab = Laboratory(
            num_gpus=2,
            store=tmp_path / "driver",
            study="it",
            results_dir=tmp_path,
            tracking_uri="none",
            procedure=QUICK,
            guard_socket=guard_socket,
            observe_only=observe_only,
        )
        config = module.QepSearch(workload=RANDOM, lab=lab, metric="class_agreement", **settings)
        code = module.main(config)
        with (tmp_path / "it" / "search.csv").open() as file:
            rows = list(csv.DictReader(file))
        return code, rows, ResultStore(tmp_path / "it")

    return run


def test_clock_batch_and_format_are_searched_for_energy_time_and_quality(run, capsys):
    code, rows, store = run(
        axes=AXES,
        limits=Limits(max_slowdown=0.2),
        budget=Budget(num_trials=14),
        quality_floor=0.5,
    )

    said = capsys.readouterr().out
    assert code == 0
    assert "precision fp32: 100.00 %" in said
    assert "precision fp8: left out" in said
    assert {row["precision"] for row in rows} <= {"fp32", "bf16", "int4"}
    kept = {row["precision"]: float(row["retention"]) for row in rows if row["retention"]}
    assert kept["fp32"] == 1.0
    assert all(0.5 <= each <= 1.0 for each in kept.values())
    assert len({m.configuration.point.sm_clock_mhz for m in store.read()}) > 2
    assert all(float(row["memory_b"]) > 0 for row in rows if row["energy_per_unit_j"])
    asked = [m.configuration for m in sorted(store.read(), key=lambda m: m.trial)]
    assert asked[-1] in asked[:-1]  # however small the budget, it ends with a repeat
    assert store.read_answer().note
    assert result_of(read_log(store), store.read()).answer.best.figures.retention >= 0.5


def test_without_setters_batch_and_format_alone_are_searched(run):
    code, rows, store = run(observe_only=True, axes=AXES, limits=Limits(), quality_floor=None)

    assert code == 0
    assert all(m.configuration.point.is_default for m in store.read())
    assert 3 <= len({(row["precision"], row["batch"]) for row in rows}) <= 6


def test_what_is_known_of_the_quality_is_looked_up_whatever_the_clock(cluster, tmp_path):
    [site] = simulated_sites("h200_sxm", 1, str(tmp_path))
    space = AXES.space(RANDOM, [site])

    scores = score_beside(site, space, metric="class_agreement")

    score = lookup(scores.kept)
    by_format = {dict(each.knobs)["precision"]: score(each) for each in space}
    assert by_format["fp32"] == (1.0, None)
    assert by_format["fp8"] is None
    assert 0 < by_format["int4"][0] < 1
    assert by_format["int4"][1] > 0
    assert "left out" in words(space, scores)


def test_a_metric_that_cannot_score_the_workload_is_refused_as_such(cluster, tmp_path):
    [site] = simulated_sites("h200_sxm", 1, str(tmp_path))

    with pytest.raises(ConfigError, match="perplexity cannot be scored for digits-vit"):
        score_beside(site, AXES.space(RANDOM, [site]), metric="perplexity")
