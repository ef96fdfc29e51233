from dataclasses import replace

import numpy as np
import pytest
from synthetic_runs import runs_by_law

from joulelab.errors import ConfigError
from joulelab.power_models.members.tabular import MeanModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import profile_of, sweep
from joulelab.power_models.serving import (
    ServedModel,
    frame_of_queries,
    queries_of_frame,
)


@pytest.fixture(scope="module")
def runs():
    return runs_by_law(12, noise=0.01)


@pytest.fixture(scope="module")
def model(runs):
    return OperatingModel(power=MeanModel(), time=MeanModel("time_s")).fit(runs)


@pytest.fixture
def queries(runs):
    return sweep(profile_of(runs, "a100_sxm", "app03"), [510.0, 900.0, 1410.0])


def test_a_table_of_queries_comes_back_as_it_was(queries):
    again = queries_of_frame(frame_of_queries(queries))

    assert again.profiles == queries.profiles
    assert again.sm_clock_mhz.tolist() == queries.sm_clock_mhz.tolist()


def test_where_a_power_limit_held_a_profile_comes_back_as_well(queries):
    limits = {"power_limit_w": 400.0, "reached_mhz": 1290.0, "held_mhz": 1290.0}
    held = replace(queries, profiles=tuple(replace(p, **limits) for p in queries.profiles))

    assert queries_of_frame(frame_of_queries(held)).profiles == held.profiles


def test_predictions_are_those_of_the_model_with_their_intervals(model, queries):
    answer = ServedModel(model).predict(frame_of_queries(queries), {"level": 0.8})

    interval = model.predict_interval(queries, "edp_js", 0.8)
    assert answer["edp_js"].tolist() == model.predict(queries, "edp_js").tolist()
    assert answer["edp_js_lower"].tolist() == interval.lower.tolist()
    assert answer["edp_js_upper"].tolist() == interval.upper.tolist()
    assert (answer["outside"] == "").all()


def test_a_row_outside_the_domain_is_told_and_its_interval_wider(model, queries):
    frame = frame_of_queries(queries)
    frame.loc[1, "dram_active"] = 0.05
    frame.loc[1, "fp_active"] = 1.0

    answer = ServedModel(model).predict(frame)

    assert "fp_active of 'app03' on 'a100_sxm' is 1; trained on" in answer["outside"][1]
    assert answer["outside"][0] == answer["outside"][2] == ""
    width = np.log(answer["power_w_upper"] / answer["power_w_lower"])
    assert width[1] > 1.3 * width[0]


def test_a_row_outside_the_domain_is_refused_where_that_is_asked(model, queries):
    frame = frame_of_queries(queries)
    frame.loc[2, "fp_active"] = 1.0

    with pytest.raises(ConfigError, match="row 2 is not: fp_active"):
        ServedModel(model).predict(frame, {"outside": "refuse"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sm_clock_mhz": np.nan}, "'sm_clock_mhz' must hold a number, row 0"),
        ({"dram_active": 40.0}, "Row 0: dram_active must be a share"),
        ({"board": "a101"}, "Row 0: Unknown GPU 'a101'"),
        ({"profile_time_s": "soon"}, "'profile_time_s' must hold numbers, row 0 has 'soon'"),
    ],
)
def test_a_wrong_value_is_named_with_its_row(model, queries, change, told):
    frame = frame_of_queries(queries).astype(dict.fromkeys(change, object))
    for name, value in change.items():
        frame.loc[0, name] = value

    with pytest.raises(ConfigError, match=told):
        ServedModel(model).predict(frame)


def test_a_missing_column_is_named(model, queries):
    frame = frame_of_queries(queries).drop(columns=["board", "sm_clock_mhz"])

    with pytest.raises(ConfigError, match=r"Columns \['board', 'sm_clock_mhz'\] are required"):
        ServedModel(model).predict(frame)


@pytest.mark.parametrize("params", [{"outside": "ignore"}, {"levle": 0.9}])
def test_a_wrong_parameter_is_named(model, queries, params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        ServedModel(model).predict(frame_of_queries(queries), params)
