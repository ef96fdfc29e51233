"""A board is calibrated once: what was planted is found within what is stated."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from joulelab.bench import Bench
from joulelab.cli.calibrate import Calibrate
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceIdentity
from joulelab.core.plan import plan_sweep, sweep_points
from joulelab.core.procedure import Procedure
from joulelab.core.trace import PowerTrace
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.errors import ConfigError
from joulelab.guard import ObserveOnly
from joulelab.hardware import GPUS
from joulelab.hardware.board_facts import BoardFacts, ClockPoint, Fact, board_text, read_board_facts
from joulelab.hardware.processors import find_host
from joulelab.running.board import measure_board
from joulelab.running.step_response import lag_of, ridge_of
from joulelab.workloads import WORKLOADS

SPEC = GPUS["a100_sxm"]
IDENTITY = DeviceIdentity(uuid="U", name="N", backend="nvml", driver_version="570")
HOST = (
    Fact(name="operator_s.add", value=4e-6),
    Fact(name="python.module_s", value=1e-6),
    Fact(name="others.disturbed_share", value=0.3),
)


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    (address,) = fleet("a100_sxm", 1, str(tmp_path_factory.mktemp("board")))
    device = SimulatedDevice.open(address)
    yield device
    device.close()


@pytest.fixture(scope="module")
def found(device):
    with Bench(device) as bench:
        return measure_board(device, bench, host=lambda: HOST)


def known(found, name):
    return next((fact.value, fact.u) for fact in found.facts if fact.name == name)


def facts(**changes):
    usual = {
        "schema": 1,
        "device": IDENTITY,
        "host": "here",
        "measured_at": "2026-01-01T00:00:00+00:00",
        "joulelab_version": "0",
        "facts": HOST,
    }
    return BoardFacts(**usual | changes)


@pytest.mark.slow
def test_a_board_is_known_within_ten_minutes_of_it(device, found):
    assert device.clock.now_s() < 600
    assert not [fact.name for fact in found.facts if fact.value is None and "fp8" not in fact.name]


@pytest.mark.slow
def test_what_was_planted_is_found_within_three_standard_uncertainties(device, found):
    board, volts2 = device.machine.board, float(SPEC.voltage.at(SPEC.default_clock_mhz)) ** 2
    power, middle_c = SPEC.power, 37.0  # of a board that cools down from some 40 to 36 degrees
    planted = {
        "counter_tick_s": SPEC.sensor.energy_tick_s,
        "ridge_mhz": SPEC.voltage.ridge_mhz,
        "resting_power_w": board.gain * power.idle_w + board.offset_w,
        "leakage_w_per_k": board.gain
        * board.leakage_scale
        * power.leakage_w
        * power.leakage_per_k
        * volts2
        * board.voltage_scale**2
        * exp(power.leakage_per_k * (middle_c - SPEC.thermal.reference_c)),
    }
    for name, true in planted.items():
        value, u = known(found, name)
        assert abs(value - true) <= 3 * u + 1e-9, f"{name}: {value} ± {u}, planted {true}"
        assert u < 0.1 * true


@pytest.mark.slow
def test_samples_come_as_late_as_they_average(found):
    value, u = known(found, "sample_lag_s")

    assert value == pytest.approx(SPEC.sensor.instant_window_s / 2, abs=3 * u)
    assert known(found, "power_lag_s")[0] > value  # and are held until the next


@pytest.mark.slow
def test_searches_begin_from_what_was_found_instead_of_the_catalogue(found):
    spec = found.on(SPEC)

    assert spec.voltage.ridge_mhz == found.value("ridge_mhz") != SPEC.voltage.ridge_mhz
    assert spec.power.idle_w == found.value("resting_power_w")
    reached_b_per_s = spec.timing.memory_efficiency * SPEC.memory_bandwidth_b_per_s
    assert reached_b_per_s == pytest.approx(found.value("memory_b_per_s"))


@pytest.mark.slow
def test_an_observer_sets_nothing_and_says_what_is_missing(tmp_path):
    (address,) = fleet("a100_sxm", 1, str(tmp_path))
    device = SimulatedDevice.open(address)
    with Bench(device, control=ObserveOnly(device, address)) as bench:
        found = measure_board(device, bench, sets_clocks=False)
    device.close()

    assert found.value("ridge_mhz") is None
    assert found.curve == ()
    assert found.value("memory_b_per_s") > 1e12
    assert next(f.reason for f in found.facts if f.name == "ridge_mhz") == "no clock may be set"


def test_a_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "board.json"
    path.write_text(board_text(facts()))

    assert read_board_facts(path) == facts()
    assert find_host(str(path)).operator_s == {"add": 4e-6}
    assert find_host(str(path)).disturbed == 0.3


def test_a_file_without_a_host_gives_none(tmp_path):
    path = tmp_path / "board.json"
    path.write_text(board_text(facts(facts=())))

    with pytest.raises(ConfigError, match="does not say what launching takes"):
        find_host(str(path))


@pytest.mark.parametrize(
    ("device", "host", "said"),
    [
        (replace(IDENTITY, uuid="V"), "here", "board was U and is V"),
        (replace(IDENTITY, driver_version="580"), "here", "driver was 570 and is 580"),
        (IDENTITY, "there", "host was here and is there"),
    ],
)
def test_another_board_driver_or_host_is_refused_and_named(device, host, said):
    with pytest.raises(ConfigError, match=said):
        facts().check(device, host)

    facts().check(IDENTITY, "here")


def test_a_file_of_another_version_is_refused(tmp_path):
    path = tmp_path / "board.json"
    path.write_text(board_text(facts(schema=0)))

    with pytest.raises(ConfigError, match="version 1, got 0"):
        read_board_facts(path)


def test_the_delay_of_a_boxcar_is_half_of_it():
    t_s = np.arange(-0.4, 1.8, 0.01)
    power_w = 100 + 300 * np.clip(t_s / 0.2, 0, 1)

    assert lag_of("lag_s", t_s, power_w, 0.0).value == pytest.approx(0.1, abs=0.001)


def test_a_step_that_is_none_gives_no_delay():
    t_s = np.arange(-0.4, 1.8, 0.01)

    assert lag_of("lag_s", t_s, np.full_like(t_s, 100.0), 0.0).value is None


def curve(knee_mhz, clocks_mhz=range(400, 1900, 60)):
    return [
        ClockPoint(
            load="gemm",
            sm_clock_mhz=mhz,
            power_w=100 + 0.2 * mhz * (1 + 0.6 * max(0, mhz - knee_mhz) / 1000) ** 2,
            power_u_w=1.0,
            rate_per_s=1.0,
        )
        for mhz in clocks_mhz
    ]


def test_the_knee_is_where_power_leaves_its_line():
    fact = ridge_of(curve(1150), "gemm")

    assert fact.value == pytest.approx(1150, abs=fact.u)


def test_power_that_is_a_line_has_no_knee():
    assert "no knee" in ridge_of(curve(5000), "gemm").reason


def test_few_clocks_tell_of_no_knee():
    assert "at 3 clocks" in ridge_of(curve(1150, (400, 900, 1500)), "gemm").reason


@pytest.mark.slow
def test_the_command_writes_the_file_and_shows_each_figure(tmp_path, capsys):
    path = tmp_path / "board.json"
    command = Calibrate(
        board=True,
        device="simulated",
        gpu="a100_sxm",
        store=str(tmp_path / "store"),
        observe_only=True,
        out=path,
    )

    assert command.run() == 0

    found = read_board_facts(path)
    shown = capsys.readouterr().out
    assert found.device.uuid == "SIM-a100_sxm-0"
    assert all(fact.name in shown for fact in found.facts)
    assert found.value("python.module_s") is None  # no GPU is there for PyTorch to see


def late(value_s, u=0.002):
    return facts(
        facts=(
            Fact(name="sample_period_s", value=0.02),
            Fact(name="sample_lag_s", value=value_s, u=u),
        )
    )


def test_only_sensors_that_are_surely_late_are_waited_for():
    assert late(0.01).adapted(Procedure()) == Procedure()
    assert late(0.013).adapted(Procedure()) == Procedure()
    assert late(None).adapted(Procedure()) == Procedure()
    assert facts().adapted(Procedure()) == Procedure()
    assert late(0.41).adapted(Procedure()).sample_lag_s == pytest.approx(0.4)
    assert late(0.41).adapted(Procedure(sample_lag_s=0.1)).sample_lag_s == 0.1


def swept(device, procedure, workload="bert", batch=32):
    """Sweep a program; return seconds a point after the first, and how many were not quick."""
    points = sweep_points(device.capabilities().sm_clocks_mhz, mode="dvfs", every=8)
    settings = WORKLOADS[workload].from_knobs({"batch": batch}).settings
    configurations = [Configuration.of(workload, settings, point) for point in points]
    first, *others = plan_sweep("late", configurations, repeats=2)
    with Bench(device, procedure=procedure) as bench:
        bench.measure(first)
        begin_s = device.clock.now_s()
        records = [bench.measure(trial)[0] for trial in others]
    not_quick = sum(record.measurement.pace == "reference" for record in records)
    return (device.clock.now_s() - begin_s) / len(others), not_quick


@pytest.fixture
def averaging(tmp_path, monkeypatch):
    """A board whose samples are means over 0.8 s, as some boards' sensors show them."""
    (address,) = fleet("a100_sxm", 1, str(tmp_path))
    device = SimulatedDevice.open(address)
    read = device.read_power_samples

    def averaged():
        trace = read()
        power_w = np.convolve(trace.power_w, np.full(40, 1 / 40), mode="valid")
        return PowerTrace(t_s=trace.t_s[39:], power_w=power_w)

    monkeypatch.setattr(device, "read_power_samples", averaged)
    yield device
    device.close()


QUICK = Procedure(pace="quick", idle_s=1.0)


def test_late_samples_cost_no_reference_once_the_calibration_knows_them(averaging):
    known_s, known_again = swept(averaging, late(0.41).adapted(QUICK))
    unknown_s, unknown_again = swept(averaging, QUICK)

    assert known_again == 0 < unknown_again
    assert known_s < 0.6 * unknown_s


def test_windows_in_which_the_power_limit_lowers_the_clock_are_taken_again_without_a_rest(
    averaging,
):
    """A point of ViT at the driver's clock took 29 s, since its first windows trended by 2.5 %."""
    _, again = swept(averaging, late(0.41).adapted(QUICK), "vit", 64)

    assert again == 0
