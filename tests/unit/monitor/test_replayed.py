"""Windows on GPUs that play a recording: of what was recorded, all; of the rest, nothing."""

import time

import pytest

from joulelab import Monitor
from joulelab.devices.replay import ReplayDevice
from joulelab.errors import MeasurementError
from joulelab.workloads.idle import Recorded, RecordedSettings

BARE = "gpu,app,sm_clock_mhz,power_w,time_s\nA100,lbm,1410,300,4.27\n"
WITH_REST = "gpu,app,sm_clock_mhz,power_w,time_s,idle_power_w\nA100,lbm,1410,300,4.27,60\n"


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "sweep.csv"
    path.write_text(BARE)
    return path


def opened(table):
    (address,) = ReplayDevice.discover(str(table))
    return ReplayDevice.open(address)


@pytest.mark.parametrize("text", [BARE, WITH_REST])
def test_windows_of_recorded_runs_hold_what_was_recorded(table, text):
    """The last of them lacked a sample at its end, where nothing was recorded after it."""
    table.write_text(text)
    device = opened(table)
    program = device.host(Recorded(RecordedSettings(app="lbm")))

    with Monitor(devices=[device]) as monitor, monitor.window() as both:
        with monitor.window() as one:
            program.run("run")
        with monitor.window() as other:
            program.run("run")

    assert both.findings == one.findings == other.findings == ()
    for window in (one, other):
        assert window.energy_j == pytest.approx(300 * 4.27, abs=2 * window.energy_u_j)
        assert window.duration_s == pytest.approx(4.27)
    assert both.energy_j == pytest.approx(one.energy_j + other.energy_j)


def test_a_window_in_which_no_time_passed_has_no_energy(table):
    """It had 0 J, was valid, and its power divided by zero."""
    with Monitor(devices=[opened(table)]) as monitor, monitor.window() as window:
        pass

    (finding,) = window.findings
    assert finding.reason == "too_short"
    with pytest.raises(MeasurementError, match="none passed on the clock of A100"):
        _ = window.power_w


def test_a_recording_rests_in_the_programs_time(table):
    table.write_text(WITH_REST)

    with Monitor(device="replay", store=table) as monitor, monitor.window() as window:
        time.sleep(0.3)

    assert window.findings == ()
    assert window.duration_s >= 0.3
    assert window.power_w == pytest.approx(60, rel=1e-6)


def test_of_rest_that_was_not_recorded_nothing_is_known(table):
    with Monitor(device="replay", store=table) as monitor, monitor.window() as window:
        time.sleep(0.1)

    with pytest.raises(MeasurementError, match="none where it holds no power at rest"):
        _ = window.energy_j
