"""Trace models behind a table."""

import numpy as np
import pytest
from synthetic_traces import traces

from joulelab.errors import ConfigError
from joulelab.power_models.traces import BASELINE, TRACE_MODELS
from joulelab.power_models.traces.serving import ServedTraceModel, frame_of_schedule

RECORDINGS = traces(10, noise=0.02)


@pytest.fixture(scope="module")
def served():
    return ServedTraceModel(TRACE_MODELS[BASELINE]().fit(RECORDINGS))


def test_a_table_of_steps_is_answered_as_its_schedule(served):
    schedule = RECORDINGS[0].schedule

    told = served.predict(frame_of_schedule(schedule), {"level": 0.8})

    energy = served.model.predict_energy(schedule, 0.8)
    assert told["power_w"].to_numpy() == pytest.approx(served.model.predict(schedule))
    assert told["energy_j"].iloc[0] == pytest.approx(told["power_w"].sum() * schedule.step_s)
    assert told["energy_j_lower"].iloc[-1] == pytest.approx(energy.lower_j)
    assert set(told["outside"]) == {""}


def test_an_unknown_phase_is_told_or_refused(served):
    frame = frame_of_schedule(RECORDINGS[0].schedule).assign(phase="training")

    assert "Phase 'training' was not trained on." in served.predict(frame)["outside"].iloc[0]
    with pytest.raises(ConfigError, match="Phase 'training'"):
        served.predict(frame, {"outside": "refuse"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dram_active": 40.0}, r"Column 'dram_active' .*row 0 has 40: .*percentage"),
        ({"dram_active": np.nan}, r"Column 'dram_active' must hold a number, row 0 has none"),
        ({"phase": ""}, r"Column 'phase' must not be empty, row 0 is"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_column_and_row(served, change, told):
    frame = frame_of_schedule(RECORDINGS[0].schedule).assign(**change)

    with pytest.raises(ConfigError, match=told):
        served.predict(frame)


def test_a_missing_column_and_an_empty_table_are_refused(served):
    frame = frame_of_schedule(RECORDINGS[0].schedule)

    with pytest.raises(ConfigError, match="Column 'tensor_active' is required"):
        served.predict(frame.drop(columns="tensor_active"))
    with pytest.raises(ConfigError, match="At least one step"):
        served.predict(frame.iloc[:0])


@pytest.mark.parametrize("params", [{"outside": "ignore"}, {"levels": 0.9}])
def test_a_wrong_parameter_is_named(served, params):
    with pytest.raises(ConfigError, match="must be"):
        served.predict(frame_of_schedule(RECORDINGS[0].schedule), params)
