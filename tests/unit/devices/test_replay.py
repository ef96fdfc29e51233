"""A recording plays as it was recorded, and nothing is made up between its points."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from fake_gpu import FakeGpu
from reference_data import reference_csv

from joulelab.bench import Bench
from joulelab.core.clock import MonotonicClock
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trace import PowerTrace
from joulelab.core.trial import Trial
from joulelab.devices.replay import ReplayDevice
from joulelab.devices.replay.recording import Take
from joulelab.errors import ConfigError, DeviceNotFoundError, DeviceUnsupportedError
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.idle import Recorded, RecordedSettings

QUICK = Procedure(idle_s=0, warmup_min_s=0.5, warmup_max_s=5, window_s=2, min_windows=2, limit_s=9)
COLUMNS = "gpu,app,sm_clock_mhz,power_w,time_s\n"
TABLE = f"""{COLUMNS}\
A100,lbm,1410,300,10
A100,lbm,1005,150,12
A100,lbm,1005,156,12.5
A100,tpacf,1410,185,7
V100,lbm,1380,250,20
"""


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "sweep.csv"
    path.write_text(TABLE)
    return path


def opened(path, uuid="REPLAY-A100"):
    (address,) = [a for a in ReplayDevice.discover(str(path)) if a.uuid == uuid]
    return ReplayDevice.open(address)


def recorded(app):
    return Recorded(RecordedSettings(app=app))


def trial(app="lbm", point=None):
    configuration = Configuration.of("recorded", {"app": app}, point)
    return Trial(study="replay", name="t", configuration=configuration)


def test_every_gpu_of_a_table_is_a_board_with_its_clocks(table):
    addresses = ReplayDevice.discover(str(table))

    assert [a.uuid for a in addresses] == ["REPLAY-A100", "REPLAY-V100"]
    assert opened(table).capabilities().sm_clocks_mhz == (1410, 1005)
    assert opened(table, "REPLAY-V100").capabilities().sm_clocks_mhz == (1380,)


def test_a_run_takes_the_recorded_time_and_energy_at_the_clock_in_force(table):
    device = opened(table)
    program = device.host(recorded("lbm"))
    device.apply(OperatingPoint(sm_clock_mhz=1005))

    start_s, start_j = device.clock.now_s(), device.read_energy_j()
    work = program.run("run")

    assert work == 1
    assert device.clock.now_s() - start_s == pytest.approx(12)
    assert device.read_energy_j() - start_j == pytest.approx(12 * 150)
    assert device.read_state().sm_clock_mhz == 1005


def test_each_measurement_plays_one_of_the_repeats_in_turn(table):
    device = opened(table)
    program = device.host(recorded("lbm"))
    device.apply(OperatingPoint(sm_clock_mhz=1005))
    ends_s = [device.clock.now_s()]

    names = []
    for _ in range(3):
        for _ in range(2):
            program.run("run")
            ends_s.append(device.clock.now_s())
        names.append(program.recording)
        program.rest()

    assert np.diff(ends_s) == pytest.approx([12, 12, 12.5, 12.5, 12, 12])
    assert names == ["sweep.csv:3", "sweep.csv:4", "sweep.csv:3"]


def test_repeats_go_on_where_other_programs_ran_between(table):
    """A search over programs or batches played the first repeat of each again and again."""
    device = opened(table)
    device.apply(OperatingPoint(sm_clock_mhz=1005))
    names = []

    for _ in range(2):
        program = device.host(recorded("lbm"))
        program.run("run")
        program.rest()
        names.append(program.recording)
        device.host(recorded("tpacf"))

    assert names == ["sweep.csv:3", "sweep.csv:4"]


def test_the_default_is_the_highest_recorded_clock(table):
    device = opened(table)

    device.host(recorded("lbm")).run("run")

    assert device.clock.now_s() == pytest.approx(10)
    assert device.read_state().sm_clock_mhz == 1410
    assert device.point_in_force.is_default


def test_power_and_samples_show_what_is_playing(table):
    device = opened(table)
    program = device.host(recorded("lbm"))
    powers = []
    device.clock.every(1.0, lambda: powers.append(_power(device)))

    program.run("run")

    samples = device.read_power_samples()
    assert powers[1:10] == [300.0] * 9
    assert samples.power_w == pytest.approx(300)
    assert samples.t_s[-1] == pytest.approx(device.clock.now_s(), abs=0.021)
    assert np.diff(samples.t_s) == pytest.approx(0.02)


def _power(device):
    try:
        return device.read_power_w()
    except DeviceUnsupportedError:
        return None


def test_rest_that_was_not_recorded_has_no_power_and_no_samples_and_moves_no_counter(table):
    device = opened(table)

    device.clock.sleep_s(3)

    with pytest.raises(DeviceUnsupportedError, match="at rest"):
        device.read_power_w()
    assert len(device.read_power_samples()) == 0
    assert device.read_energy_j() == 0


def test_rest_that_was_recorded_is_played(tmp_path):
    path = tmp_path / "sweep.csv"
    path.write_text("gpu,app,sm_clock_mhz,power_w,time_s,idle_power_w\nA100,lbm,1410,300,10,55\n")
    device = opened(path)

    device.clock.sleep_s(4)

    assert device.read_power_w() == 55
    assert device.read_energy_j() == pytest.approx(4 * 55)


def test_a_clock_that_was_not_recorded_is_refused_with_its_neighbours(table):
    with pytest.raises(ConfigError, match="got 1200; the nearest: 1005 and 1410"):
        opened(table).apply(OperatingPoint(sm_clock_mhz=1200))


def test_a_clock_at_which_another_app_was_recorded_is_refused_when_it_runs(table):
    device = opened(table)
    device.apply(OperatingPoint(sm_clock_mhz=1005))

    with pytest.raises(ConfigError, match=r"tpacf.*at 1005MHz; it was at 1410MHz"):
        device.host(recorded("tpacf")).run("run")


def test_an_app_that_was_not_recorded_is_refused_and_those_there_are_named(table):
    with pytest.raises(ConfigError, match=r"there are: recorded\(app=lbm\), recorded\(app=tpacf\)"):
        opened(table).host(recorded("stream"))


def test_a_workload_of_ours_does_not_run_on_somebody_elses_recording(table):
    with pytest.raises(ConfigError, match=r"gemm .* was not recorded on A100"):
        opened(table).host(WORKLOADS["gemm"].from_knobs({}))


def test_settings_outlive_the_object_as_those_of_a_driver_do(table):
    opened(table).apply(OperatingPoint(sm_clock_mhz=1005))

    other = opened(table)
    held = other.point_in_force
    other.reset()

    assert held == OperatingPoint(sm_clock_mhz=1005)
    assert opened(table).point_in_force.is_default


def test_the_bench_measures_a_recorded_run_as_it_was_recorded(table):
    with Bench(opened(table), procedure=QUICK) as bench:
        (record,) = bench.measure(trial("tpacf"))

    measurement = record.measurement
    assert measurement.valid, measurement.findings
    assert measurement.time_per_unit_s == pytest.approx(7)
    assert measurement.energy_per_unit_j == pytest.approx(7 * 185, rel=1e-3)
    assert measurement.observed.temperature_start_c is None
    assert measurement.observed.sm_clock_mhz == 1410


def test_idle_that_was_not_recorded_is_not_measured(table):
    with Bench(opened(table), procedure=replace(QUICK, idle_s=2.0)) as bench:
        (record,) = bench.measure(trial("tpacf"))

    assert record.measurement.idle is None


def test_the_bench_holds_the_recorded_clock(table):
    with Bench(opened(table), procedure=QUICK) as bench:
        (record,) = bench.measure(trial("lbm", OperatingPoint(sm_clock_mhz=1005)))

    measurement = record.measurement
    assert measurement.valid, measurement.findings
    assert measurement.power_w == pytest.approx(150, rel=1e-3)
    assert measurement.recording == "sweep.csv:3"
    assert measurement.observed.clock_residency == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("A100,lbm,1410,,10", r"sweep\.csv:2: power_w must be a positive number, got ''"),
        ("A100,lbm,1410,300,-1", "time_s must be a positive number, got '-1'"),
        ("A100,lbm,fast,300,1", "sm_clock_mhz must be a positive number, got 'fast'"),
        ("A100,lbm,1410,inf,1", "power_w must be a positive number, got 'inf'"),
    ],
)
def test_a_row_that_cannot_be_played_is_refused_by_its_line(tmp_path, line, said):
    path = tmp_path / "sweep.csv"
    path.write_text(f"gpu,app,sm_clock_mhz,power_w,time_s\n{line}\n")

    with pytest.raises(ConfigError, match=said):
        ReplayDevice.discover(str(path))


def test_a_table_without_the_columns_of_a_sweep_is_refused(tmp_path):
    path = tmp_path / "sweep.csv"
    path.write_text("gpu,app,power_w\n")

    with pytest.raises(ConfigError, match="but lacks sm_clock_mhz, time_s"):
        ReplayDevice.discover(str(path))


@pytest.mark.parametrize("store", [None, "nowhere.csv"])
def test_a_recording_that_is_not_there_is_refused(store):
    with pytest.raises(ConfigError, match=r"--store|does not exist"):
        ReplayDevice.discover(store)


def test_a_board_that_is_not_in_the_recording_is_not_found(table):
    address = replace(ReplayDevice.discover(str(table))[0], uuid="REPLAY-H100")

    with pytest.raises(DeviceNotFoundError, match="there are: REPLAY-A100, REPLAY-V100"):
        ReplayDevice.open(address)


def test_a_take_has_the_shape_of_its_trace_at_the_height_of_its_energy():
    t_s = np.linspace(-0.5, 2.5, 31)
    ramp = Take(
        duration_s=2, work=1, energy_j=400, recording="r", trace=PowerTrace(t_s, 100 + 50 * t_s)
    )

    # P = s (100 + 50 t) with E(2) = s (200 + 100) = 400, so s = 4/3.
    assert ramp.power_w(1.0) == pytest.approx(4 / 3 * 150)
    assert ramp.energy_until_j(1.0) == pytest.approx(4 / 3 * 125)
    assert ramp.energy_until_j(2.0) == pytest.approx(400)


def measured_folder(tmp_path):
    """Measure the fake GPU with a real bench, and store it as a study does."""
    procedure = replace(QUICK, idle_s=2.0)
    with Bench(FakeGpu(), procedure=procedure) as bench:
        records = bench.measure(
            Trial(study="s", name="t", configuration=Configuration.of("gemm", {"n": 512}))
        )
    store = ResultStore(tmp_path / "results")
    store.append(*records)
    store.close()
    return tmp_path / "results", records


def test_a_results_folder_of_ours_measures_again_as_it_was_measured(tmp_path):
    folder, records = measured_folder(tmp_path)
    (address,) = ReplayDevice.discover(str(folder))
    device = ReplayDevice.open(address)
    first = records[0].measurement

    with Bench(device, procedure=replace(QUICK, idle_s=2.0)) as bench:
        again = bench.measure(
            Trial(study="s", name="t", configuration=Configuration.of("gemm", {"n": 512}))
        )[0].measurement

    assert address.uuid == f"REPLAY-{first.device.uuid}"
    assert again.valid, again.findings
    assert again.energy_per_unit_j == pytest.approx(first.energy_per_unit_j, rel=2e-3)
    assert again.time_per_unit_s == pytest.approx(first.time_per_unit_s, rel=1e-3)
    assert again.idle_power_w == pytest.approx(first.idle_power_w, rel=5e-3)


def test_a_knob_that_was_not_recorded_is_refused(tmp_path):
    folder, _ = measured_folder(tmp_path)
    device = ReplayDevice.open(ReplayDevice.discover(str(folder))[0])

    with pytest.raises(ConfigError, match=r"there are: gemm\(n=512\)"):
        device.host(WORKLOADS["gemm"].from_knobs({"n": 1024}))


def test_a_program_of_a_results_folder_is_asked_for_by_its_own_name(tmp_path):
    """`recorded` stood in for the only one, and failed after half a minute for want of a phase."""
    folder, _ = measured_folder(tmp_path)
    device = ReplayDevice.open(ReplayDevice.discover(str(folder))[0])

    with pytest.raises(ConfigError, match=r"recorded .* was not recorded on .*; there are: gemm"):
        device.host(recorded(""))


def test_a_folder_without_measurements_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="valid measurements"):
        ReplayDevice.discover(str(tmp_path))


def test_a_published_sweep_replays_at_every_recorded_clock():
    path = reference_csv("a100_hpc_dvfs.csv")
    device = opened(path, "REPLAY-A100-GA100")
    program = device.host(recorded("lbm"))
    with path.open() as lines:
        rows = {int(r["sm_clock_mhz"]): r for r in csv.DictReader(lines) if r["app"] == "lbm"}

    for clock_mhz, row in rows.items():
        device.apply(OperatingPoint(sm_clock_mhz=clock_mhz))
        start_s, start_j = device.clock.now_s(), device.read_energy_j()
        program.run("run")
        assert device.clock.now_s() - start_s == pytest.approx(float(row["time_s"]))
        used_j = float(row["power_w"]) * float(row["time_s"])
        assert device.read_energy_j() - start_j == pytest.approx(used_j)

    assert len(rows) == 61


def test_samples_cover_what_was_recorded_to_its_very_ends(table):
    """A run of 12.01 s had its last sample at 12 s; a window of it was a gap of 10 ms."""
    table.write_text(f"{COLUMNS}A100,lbm,1410,300,12.01\n")
    device = opened(table)
    program = device.host(recorded("lbm"))

    program.run("run")

    assert device.read_power_samples().t_s[-1] == device.clock.now_s() == 12.01
    device.clock.sleep_s(1.0)  # of which nothing was recorded
    assert device.read_power_samples().t_s[-1] == 12.01


def test_in_real_time_a_board_rests_at_the_power_that_was_recorded(table):
    table.write_text(
        f"{COLUMNS.strip()},idle_power_w\nA100,lbm,1410,300,0.1,60\nA100,lbm,1005,150,0.2,50\n"
    )
    (address,) = ReplayDevice.discover(str(table))
    device = ReplayDevice.open_in_real_time(address)
    before_s, start_j, start_s = (
        device.clock.now_s(),
        device.read_energy_j(),
        device.clock.now_s(),
    )

    device.host(recorded("lbm")).run("run")
    end_s, used_j, after_s = (
        device.clock.now_s(),
        device.read_energy_j() - start_j,
        device.clock.now_s(),
    )

    assert isinstance(device.clock, MonotonicClock)
    assert end_s - start_s >= 0.1
    # The counter is read somewhere between the two readings of the clock around it.
    least_j, most_j = (30 + 60 * (s - 0.1) for s in (end_s - start_s, after_s - before_s))
    assert least_j - 1e-6 <= used_j <= most_j + 1e-6
    device.apply(OperatingPoint(sm_clock_mhz=1005))
    assert device.read_power_w() == 50
