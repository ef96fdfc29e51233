"""Recordings from files of samples: what is read, and what is refused with its column and row."""

import numpy as np
import pytest

from joulelab.errors import ConfigError
from joulelab.power_models.traces.readers import read_recordings, read_schedules

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
