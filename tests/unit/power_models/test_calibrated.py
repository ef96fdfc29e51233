"""Boards that were calibrated, as power models take them over."""

from dataclasses import replace

import numpy as np
import pytest
from calibrated_by_law import board_like, facts_by_law
from synthetic_runs import CLOCKS_MHZ, rows_by_law

from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.power_models.board_fit import calibrated_spec
from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.physics_laws import PowerShape, shape_by_catalogue
from joulelab.power_models.members.stacked import StackedModel
from joulelab.power_models.members.tabular import MeanModel
from joulelab.power_models.operating_model import OperatingModel, load_operating_model
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows

KEY = "a100_sxm"
OTHER = board_like(KEY, constant=1.25, ridge=1.08, rise=0.8, knee=0.85)


@pytest.fixture(scope="module")
def facts():
    return facts_by_law(OTHER)


@pytest.fixture(scope="module")
def trained():
    power, time = (StackedModel(t, calibration_folds=0) for t in ("power_w", "time_s"))
    return OperatingModel(power=power, time=time).fit(runs_of_rows(rows_by_law(6, gpu=KEY)))


@pytest.fixture(scope="module")
def there():
    return runs_of_rows(rows_by_law(2, gpu=KEY, seed=9))


def test_constants_of_a_board_are_those_by_which_its_loads_were_made(facts):
    found = calibrated_spec(GPUS[KEY], facts)

    top_mhz = OTHER.default_clock_mhz
    assert found.power.constant_w == pytest.approx(OTHER.power.constant_w, rel=0.02)
    assert found.voltage.ridge_mhz == pytest.approx(OTHER.voltage.ridge_mhz, rel=0.02)
    assert found.voltage.at(top_mhz) == pytest.approx(OTHER.voltage.at(top_mhz), rel=0.01)
    assert found.timing.memory_knee_mhz == pytest.approx(OTHER.timing.memory_knee_mhz, rel=0.02)


@pytest.mark.parametrize("num_clocks", [0, 4])
def test_too_few_clocks_leave_what_the_catalogue_says(num_clocks):
    spec = GPUS[KEY]

    assert calibrated_spec(spec, facts_by_law(OTHER, num_clocks=num_clocks)) == spec


def test_power_at_rest_and_bandwidth_of_an_observer_are_taken():
    seen = facts_by_law(
        OTHER, num_clocks=0, facts=[("resting_power_w", 61.0), ("memory_b_per_s", 1e12)]
    )

    found = calibrated_spec(GPUS[KEY], seen)

    assert found.power.idle_w == 61.0
    assert found.timing.memory_efficiency * found.memory_bandwidth_b_per_s == pytest.approx(1e12)


def test_what_the_law_of_a_label_departs_by_is_what_was_measured_of_its_board(trained, facts):
    model = PhysicsModel(calibration_folds=0).fit(runs_of_rows(rows_by_law(6, gpu=KEY)))

    moved = model.on_board(KEY, calibrated_spec(GPUS[KEY], facts))

    own = moved.measured[KEY]
    constant, ridge = (np.exp(own[0]), np.exp(own[3]))
    assert (constant, ridge) == pytest.approx((1.25, 1.08), rel=0.02)
    before, after = (PowerShape.of(shape_by_catalogue(GPUS[KEY]) + each) for each in (0 * own, own))
    assert after.p0 / before.p0 == pytest.approx(1.25, rel=0.02)
    assert not model.measured


def test_an_anchor_is_met_on_a_calibrated_board_and_other_clocks_follow_the_law(
    trained, facts, there
):
    queries = queries_of(there)
    anchors = queries.nearest((1.0,))
    own = trained.on_board(KEY, facts).adapt(there.select(anchors), profiled=there)
    usual = trained.adapt(there.select(anchors), profiled=there)

    power_w, usual_w = (model.predict(queries, "power_w") for model in (own, usual))

    assert power_w[anchors] == pytest.approx(there.power_w[anchors], rel=0.01)
    lowest = queries.sm_clock_mhz == min(CLOCKS_MHZ)
    assert (power_w[lowest] > 1.02 * usual_w[lowest]).all()  # more of it is constant there


def test_a_calibration_that_says_what_the_catalogue_does_changes_nothing(trained, there):
    known = trained.on_board(KEY, facts_by_law(GPUS[KEY]))

    queries = queries_of(there)
    for quantity in ("power_w", "time_s"):
        expected = trained.predict(queries, quantity)
        assert known.predict(queries, quantity) == pytest.approx(expected, rel=0.02)


def test_a_stored_model_still_knows_the_board(trained, facts, there, tmp_path):
    known = trained.on_board(KEY, facts)
    known.save(tmp_path)

    queries = queries_of(there)
    again = load_operating_model(tmp_path).predict(queries, "power_w")

    assert again == pytest.approx(known.predict(queries, "power_w"))
    assert again != pytest.approx(trained.predict(queries, "power_w"), rel=0.01)


def test_a_model_without_a_law_refuses_a_calibration(facts):
    runs = runs_of_rows(rows_by_law(4, gpu=KEY))
    model = OperatingModel(power=MeanModel("power_w"), time=MeanModel("time_s")).fit(runs)

    with pytest.raises(ConfigError, match=r"physics or stacked is required.*'mean'"):
        model.on_board(KEY, facts)


def test_a_calibration_of_a_gpu_that_the_catalogue_lacks_is_refused(trained, facts):
    unknown = replace(facts, device=replace(facts.device, name="Maker X"))

    with pytest.raises(ConfigError, match="GPU of the catalogue, got 'Maker X'"):
        trained.on_board(KEY, unknown)
