"""A Tuner of a user's own over pinned GPUs: what it gets, what is kept, what is measured twice."""

from collections import Counter

import pytest
from actor_fixtures import QUICK
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from joulelab.errors import UnknownNameError
from joulelab.objectives import OBJECTIVES
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace
from joulelab.tracking.store import ResultStore
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.tune import StrategySearcher, measuring

CLOCKS_MHZ = (600, 990, 1200)

DRIVER = """
import sys
from pathlib import Path
from actor_fixtures import QUICK
from ray import tune
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.tune import measuring, own

class Loud(own.StudyProgress):
    def __call__(self, event):
        print(type(event).__name__, flush=True)

own.StudyProgress = Loud
folder, socket = Path(sys.argv[1]), Path(sys.argv[2])
lab = Laboratory(
    num_gpus=1, study="own", results_dir=folder / "results", store=folder / "driver",
    tracking_uri="none", guard_socket=socket, procedure=QUICK,
)
with measuring("gemm", lab=lab, repeats=9) as trainable:
    tuner = tune.Tuner(
        trainable,
        param_space={"sm_clock_mhz": tune.grid_search([600, 990])},
        tune_config=tune.TuneConfig(metric="edp", mode="min"),
        run_config=tune.RunConfig(name="tuner", storage_path=str(folder), verbose=0),
    )
    tuner.fit()
"""


@pytest.fixture
def lab(cluster, tmp_path, guard_socket):
    return Laboratory(
        num_gpus=1,
        study="own",
        results_dir=tmp_path / "results",
        store=tmp_path / "driver",
        tracking_uri="none",
        guard_socket=guard_socket,
        procedure=QUICK,
    )


def tuner_of(trainable, folder, **options):
    how = {"metric": "edp", "mode": "min", "reuse_actors": True} | options.pop("how", {})
    return tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(**how),
        run_config=tune.RunConfig(name="tuner", storage_path=str(folder), verbose=0),
        **options,
    )


def valid(lab):
    return [m for m in ResultStore(lab.study_dir("own")).read() if m.valid]


def test_a_tuner_of_ones_own_gets_figures_or_errors_and_the_results_folder_all_of_them(
    lab, tmp_path
):
    space = {"sm_clock_mhz": tune.grid_search([*CLOCKS_MHZ[:2], 1000]), "precision": "tf32"}

    with measuring("gemm", lab=lab) as trainable:
        how = {"reuse_actors": False}  # as by default
        grid = tuner_of(trainable, tmp_path, param_space=space, how=how).fit()

    [error] = grid.errors
    assert "one of the device's 110 clocks, got 1000" in str(error)
    measured = {m.configuration.point.sm_clock_mhz: m for m in valid(lab)}
    assert set(measured) == set(CLOCKS_MHZ[:2])
    assert {dict(m.configuration.knobs)["precision"] for m in measured.values()} == {"tf32"}
    with_figures = [result for result in grid if result.error is None]
    assert len(with_figures) == 2
    for result in with_figures:
        known = measured[result.config["sm_clock_mhz"]]
        assert result.metrics["energy_j"] == known.energy_per_unit_j
        assert result.metrics["board"] == known.device.uuid


def test_a_scheduler_of_tunes_ends_trials_whose_first_repeats_are_poor(lab, tmp_path):
    space = {"sm_clock_mhz": tune.grid_search([*CLOCKS_MHZ, 345])}
    asha = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)

    with measuring("gemm", lab=lab, repeats=4) as trainable:
        how = {"scheduler": asha, "max_concurrent_trials": 1}
        grid = tuner_of(trainable, tmp_path, param_space=space, how=how).fit()

    repeats = Counter(m.configuration.point.sm_clock_mhz for m in valid(lab))
    assert set(repeats) == {*CLOCKS_MHZ, 345}
    assert repeats[grid.get_best_result().config["sm_clock_mhz"]] == 4
    assert min(repeats.values()) < 4


def test_a_tuner_that_was_killed_is_restored_and_measures_nothing_twice(lab, tmp_path, kill_driver):
    kill_driver(DRIVER, TUNE_GLOBAL_CHECKPOINT_S="1")
    before = {m.measurement_id for m in valid(lab)}

    with measuring("gemm", lab=lab, repeats=9) as trainable:
        grid = tune.Tuner.restore(str(tmp_path / "tuner"), trainable).fit()

    after = Counter((m.configuration, m.repeat) for m in valid(lab))
    assert len(before) >= 10
    assert before <= {m.measurement_id for m in valid(lab)}
    assert set(after.values()) == {1}
    assert len(after) == 9 * 2
    assert {result.metrics["training_iteration"] for result in grid} == {9}


def test_a_strategy_of_ours_searches_in_a_tuner_of_ones_own(lab, tmp_path):
    clocks_mhz = tuple(range(600, 1500, 60))
    problem = Problem(
        space=SearchSpace("gemm", {"sm_clock_mhz": clocks_mhz}), objective=OBJECTIVES["edp"]
    )

    with measuring("gemm", lab=lab) as trainable:
        how = {"search_alg": StrategySearcher(problem), "num_samples": 8}
        how |= {"max_concurrent_trials": 1}
        grid = tuner_of(trainable, tmp_path, how=how).fit()

    asked = [result.config["sm_clock_mhz"] for result in grid]
    assert None in asked  # the baseline, which is on no axis
    assert 3 <= len(set(asked)) == len(asked) <= 8
    assert set(asked) - {None} <= set(clocks_mhz)


def test_an_unknown_program_is_refused_before_there_is_a_trial(lab):
    with pytest.raises(UnknownNameError, match="gemm"), measuring("gem", lab=lab):
        pytest.fail("There is no trainable for it.")
