"""Energy of a loop, on a GPU whose power is known at every instant."""

import pytest
from fake_gpu import FOREIGN_PID, LOAD_W

from joulelab.errors import ConfigError
from joulelab.integrations.energy_log import INTERVAL_S, EnergyLog
from joulelab.monitor import Monitor

ALWAYS_S = 1e-9
"""Read at every step."""


def test_energy_is_told_in_all_and_per_sample_and_token_since_the_last_time(gpu, monitor):
    with EnergyLog(monitor, interval_s=ALWAYS_S) as energy:
        gpu.clock.sleep_s(2.0)
        energy.step(samples=4, tokens=100)
        first = energy.metrics()
        gpu.clock.sleep_s(3.0)
        energy.step(samples=2, tokens=100)
        second = energy.metrics()

    assert first["energy_j"] == pytest.approx(2 * LOAD_W, rel=0.01)
    assert first["energy_per_sample_j"] == pytest.approx(2 * LOAD_W / 4, rel=0.01)
    assert second["energy_j"] == pytest.approx(5 * LOAD_W, rel=0.01)
    assert second["power_w"] == pytest.approx(LOAD_W, rel=0.01)
    assert second["energy_per_sample_j"] == pytest.approx(3 * LOAD_W / 2, rel=0.01)
    assert second["energy_per_token_j"] == pytest.approx(3 * LOAD_W / 100, rel=0.01)


def test_what_is_drawn_while_the_sensors_are_waited_for_is_in_the_energy_since_the_start(
    gpu, monitor
):
    """Each read waited for the sensors between two windows: 6 % was missing with a read every
    half second, and 0.8 % with one every five."""
    whole = monitor.begin("whole")
    with EnergyLog(monitor, interval_s=ALWAYS_S) as energy:
        for _ in range(20):
            gpu.clock.sleep_s(0.3)
            energy.step(samples=1)
    monitor.end(whole)

    assert energy.metrics()["energy_j"] == pytest.approx(whole.energy_j, rel=0.01)


def test_a_monitor_that_was_not_open_is_stopped_with_the_log_and_an_open_one_goes_on(gpu, monitor):
    """A log started the monitor it was given and left it open: it sampled until the program ended.

    Another log of the same monitor begins where it has ended.
    """
    closed = Monitor(devices=[gpu])
    for _ in range(2):
        with EnergyLog(closed) as energy:
            gpu.clock.sleep_s(2.0)
            energy.step()
        assert energy.metrics()["energy_j"] == pytest.approx(2 * LOAD_W, rel=0.01)
        assert not closed.is_open
    with EnergyLog(monitor):
        gpu.clock.sleep_s(2.0)

    assert monitor.is_open


def test_between_two_reads_nothing_new_is_told(gpu, monitor):
    with EnergyLog(monitor, interval_s=1e6) as energy:
        gpu.clock.sleep_s(2.0)
        energy.step(samples=1)
        assert energy.metrics() == {}

    assert energy.metrics()["energy_j"] == pytest.approx(2 * LOAD_W, rel=0.01)


def test_a_budget_is_spent_when_so_much_energy_was_used(gpu, monitor):
    with EnergyLog(monitor, max_energy_j=3.5 * LOAD_W, interval_s=ALWAYS_S) as energy:
        spent = []
        for _ in range(5):
            gpu.clock.sleep_s(1.0)
            energy.step()
            spent.append(energy.is_spent)

    assert spent == [False, False, False, True, True]


def test_energy_is_read_when_the_budget_should_be_reached(gpu, monitor):
    """On an H200 a budget of 6 kJ was overshot by 1.2 kJ, what the loop took between two reads."""
    with EnergyLog(monitor, max_energy_j=2.5 * LOAD_W) as energy:
        assert energy._due_s == INTERVAL_S
        gpu.clock.sleep_s(2.0)
        energy._settle(goes_on=True)

        assert energy._due_s == pytest.approx(0.5, rel=0.02)


def test_a_stretch_without_work_that_no_sensor_resolves_costs_nothing(gpu, monitor):
    """On an H200 the 2 ms between the last step and the end made the whole energy unknown."""
    with EnergyLog(monitor, interval_s=ALWAYS_S) as energy:
        gpu.clock.sleep_s(2.0)
        energy.step(samples=1)
        gpu.clock.sleep_s(0.002)

    assert energy.reason == ""
    assert energy.metrics()["energy_j"] == pytest.approx(2 * LOAD_W, rel=0.01)


def test_energy_that_is_not_known_is_absent_from_then_on_and_the_reason_is_told(gpu, monitor):
    with EnergyLog(monitor, interval_s=ALWAYS_S) as energy:
        gpu.clock.sleep_s(2.0)
        energy.step(samples=1)
        assert "energy_j" in energy.metrics()
        gpu.pids = lambda t_s: {FOREIGN_PID}
        gpu.clock.sleep_s(3.0)
        energy.step(samples=1)
        assert energy.metrics() == {}

    assert str(FOREIGN_PID) in energy.reason


@pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_must_be_a_positive_number(number):
    with pytest.raises(ConfigError, match="max_energy_j must be positive"):
        EnergyLog(max_energy_j=number)
