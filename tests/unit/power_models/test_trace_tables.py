"""Tables of samples and of steps, read and answered."""

import numpy as np
import pytest
from synthetic_traces import traces

from joulelab.errors import ConfigError
from joulelab.power_models.traces import BASELINE, TRACE_MODELS
from joulelab.power_models.traces.readers import read_recordings, read_schedules
from joulelab.power_models.traces.serving import ServedTraceModel, frame_of_schedule

RAMP = """recording,t_s,phase,tensor_active,power_w
a,10.0,prefill,0.9,100
a,10.1,prefill,0.9,120
a,10.2,decode,0.2,140
a,10.3,decode,0.2,160
b,0.0,decode,0.3,200
b,0.26,idle,0.0,200
b,0.4,idle,0.0,200
"""


def written(tmp_path, text):
    path = tmp_path / "samples.csv"
    path.write_text(text)
    return path


def test_power_of_a_step_is_the_mean_of_the_ramp_and_its_load_that_of_the_middle(tmp_path):
    a, b = read_recordings(written(tmp_path, RAMP), step_s=0.1)

    assert a.name == "a"
    assert a.power_w == pytest.approx([110.0, 130.0, 150.0])
    assert a.schedule.phase.tolist() == ["prefill", "prefill", "decode"]
    assert a.schedule.inputs["tensor_active"].tolist() == [0.9, 0.9, 0.2]
    assert b.energy_j == pytest.approx(200.0 * 0.4)
    assert b.schedule.phase.tolist() == ["decode", "decode", "decode", "idle"]


def test_a_schedule_needs_no_power(tmp_path):
    text = "\n".join(line.rpartition(",")[0] for line in RAMP.splitlines()) + "\n"

    found = read_schedules(written(tmp_path, text), step_s=0.1)

    assert list(found) == ["a", "b"]
    assert len(found["a"]) == 3


def test_a_clock_is_read_as_a_share_of_the_highest(tmp_path):
    text = "t_s,sm_active,sm_clock_mhz,power_w\n0,0.5,705,100\n1,0.5,705,100\n"

    (found,) = read_recordings(written(tmp_path, text), step_s=0.5, board="a100_sxm")

    assert found.name == "samples"
    assert found.schedule.inputs["clock_ratio"] == pytest.approx(np.full(2, 705 / 1410))
    with pytest.raises(ConfigError, match="'sm_clock_mhz' needs the GPU"):
        read_recordings(written(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("power_w", "power_mw", "Column 'power_w' is required"),
        ("t_s", "when", "Column 't_s' is required"),
        (",140", ",140000", r"Column 'power_w' .*row 4 has 140000: .*milliwatts"),
        (",160", ",0", r"Column 'power_w' .*row 5 has 0"),
        (",160", ",", r"Column 'power_w' must hold a number, row 5 has none"),
        ("10.3", "10.2", r"Column 't_s' must rise within recording 'a', row 5 has 10.2"),
        ("0.2,140", "20,140", r"Column 'tensor_active' .*row 4 has 20: .*percentage"),
        ("0.2,140", ",140", r"Column 'tensor_active' must hold a number, row 4 has none"),
        ("idle,0.0,200", ",0.0,200", r"Column 'phase' must not be empty, row 7"),
        ("tensor_active", "other", "At least one activity is required"),
    ],
)
def test_what_cannot_be_is_refused_with_column_and_row(tmp_path, old, new, told):
    with pytest.raises(ConfigError, match=told):
        read_recordings(written(tmp_path, RAMP.replace(old, new, 1)))


def test_a_recording_shorter_than_a_step_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no longer than recording 'a'"):
        read_recordings(written(tmp_path, RAMP), step_s=1.0)


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
