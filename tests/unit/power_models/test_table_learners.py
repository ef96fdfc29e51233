"""What trees and networks are taught, and what they keep to."""

import functools

import numpy as np
import pytest
import skops.io
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import FunctionTransformer
from synthetic_runs import runs_by_law

from joulelab.errors import ConfigError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.features import medians
from joulelab.power_models.members.dnn import Networks
from joulelab.power_models.members.readings import thinned
from joulelab.power_models.members.tabular import INPUTS, RandomForestModel, decoded, examples
from joulelab.power_models.queries import profile_of, queries_of, sweep
from joulelab.power_models.state import read_state, write_state

RUNS = runs_by_law(12, noise=0.01)
QUERIES = queries_of(RUNS)
UNSEEN = sweep(profile_of(runs_by_law(1, seed=7), "a100_sxm", "app00"))
A100_LIMIT_W = 400.0


@functools.cache
def fitted(name, target="power_w"):
    return POWER_MODELS[name](target, calibration_folds=0).fit(RUNS)


def test_power_is_taught_as_the_log_of_its_share_of_the_limit():
    taught = examples(QUERIES, np.full(len(QUERIES), A100_LIMIT_W / np.e), "power_w")

    assert taught.outputs == pytest.approx(-1.0)
    assert taught.weights == pytest.approx(1.0)


def test_time_is_taught_as_its_elasticity():
    """Time as ratio^-0.5 has elasticity 0.5; the clock of the profile itself says nothing."""
    taught = examples(QUERIES, QUERIES.clock_ratio**-0.5, "time_s")

    at_profile = QUERIES.clock_ratio == 1.0
    assert taught.outputs[~at_profile] == pytest.approx(0.5)
    assert (taught.weights[at_profile] == 0.0).all()


@pytest.mark.parametrize("target", ["power_w", "time_s"])
def test_what_is_taught_decodes_to_what_was_measured(target):
    values = RUNS.power_w if target == "power_w" else QUERIES.clock_ratio**-0.3

    taught = examples(QUERIES, values, target)

    assert decoded(QUERIES, taught.outputs, target) == pytest.approx(values)


@pytest.mark.parametrize("name", ["dnn", "lightgbm", "random_forest", "xgboost"])
def test_time_at_the_clock_of_the_profile_is_that_of_the_profile(name):
    predicted = fitted(name, "time_s").predict(UNSEEN)

    assert predicted[-1] == pytest.approx(UNSEEN.profiles[0].time_s)


def test_an_application_weighs_the_same_however_many_clocks_it_has():
    first = RUNS.application == "app00"
    kept = ~first | (np.cumsum(first) <= 2)
    queries = queries_of(RUNS.select(kept), RUNS)

    weights = examples(queries, RUNS.power_w[kept], "power_w").weights

    sums = np.bincount(queries.profile, weights)
    assert sums == pytest.approx(sums[0])


def test_an_input_that_nobody_read_is_neither_refused_nor_invented():
    inputs = np.array([[np.nan, 1.0], [np.nan, 3.0], [np.nan, np.nan]])

    assert medians(inputs, 0.0) == pytest.approx([0.0, 2.0])


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_boosted_power_never_falls_as_the_clock_rises(name):
    assert (np.diff(fitted(name).predict(UNSEEN)) >= 0).all()


def test_a_small_table_is_learned_from():
    """Of fewer than 40 runs LightGBM grew no tree at all: it said the mean, whatever was asked."""
    few = runs_by_law(5)

    predicted = POWER_MODELS["lightgbm"](calibration_folds=0).fit(few).predict(queries_of(few))

    assert len(few) == 30
    assert np.corrcoef(np.log(predicted), np.log(few.power_w))[0, 1] > 0.9


def test_thinning_keeps_both_ends_of_each_application():
    rows = thinned(QUERIES, num_clocks=3)

    clocks = QUERIES.sm_clock_mhz[rows].reshape(-1, 3)
    assert (clocks[:, 0] == 510).all()
    assert (clocks[:, 2] == 1410).all()
    assert np.unique(QUERIES.profile[rows], return_counts=True)[1].tolist() == [3] * 12


def test_a_forest_with_anything_else_in_its_file_is_not_loaded(tmp_path):
    fitted("random_forest").save(tmp_path)
    kept = read_state(tmp_path)
    foreign = RandomForestRegressor(n_estimators=1).fit([[0.0]], [0.0])
    foreign.transform = FunctionTransformer(func=runs_by_law)
    skops.io.dump(foreign, tmp_path / "trees.skops")
    write_state(tmp_path, kept)

    with pytest.raises(ConfigError, match=r"synthetic_runs\.runs_by_law"):
        RandomForestModel.load(tmp_path)


def test_networks_side_by_side_answer_as_each_alone():
    networks = Networks(len(INPUTS), seed=1)
    inputs = torch.randn(5, len(INPUTS), generator=torch.Generator().manual_seed(0))

    together = networks(inputs)

    for number, answers in enumerate(together):
        values = inputs
        for layer in range(4):
            values = values @ networks.weights[layer][number] + networks.biases[layer][number]
            values = torch.nn.functional.selu(values) if layer < 3 else values
        assert torch.allclose(answers, values[:, 0], atol=1e-6)


def test_a_network_beyond_its_training_range_answers_as_at_its_edge():
    profile = UNSEEN.profiles[0]
    low, lower = (sweep(profile, [clock_mhz]) for clock_mhz in (510, 210))
    model = fitted("dnn")

    assert model.answer(lower) == pytest.approx(model.answer(low), rel=1e-6)
