"""What a clock changes of what a kernel takes."""

import pytest

from joulelab.attribution.clock_law import ClockLaw
from joulelab.hardware import GPUS

LAW = ClockLaw(GPUS["h200_sxm"])
HIGH, LOW = 1980.0, 1500.0


def energy_j(stretch, memory_b=0.0, law=LAW, clock_mhz=LOW, was_mhz=HIGH):
    return law.energy_j(1.0, clock_mhz, was_mhz, memory_b=memory_b, stretch=stretch)


def test_what_takes_longer_as_the_clock_falls_goes_with_voltage_squared():
    assert energy_j(HIGH / LOW) == pytest.approx(LAW.factor(LOW, HIGH))
    assert energy_j(2.0) == energy_j(HIGH / LOW)  # it waits, which is no matter of the clock


def test_what_waits_for_the_memory_draws_less_for_as_long():
    assert energy_j(1.0) == pytest.approx(LAW.factor(LOW, HIGH) * LOW / HIGH)


def test_bytes_of_the_memory_take_the_same_at_every_clock():
    moved_b = 0.3 / LAW.spec.power.dram_j_per_b

    assert energy_j(1.0, moved_b) == pytest.approx(0.3 + 0.7 * energy_j(1.0))
    assert energy_j(1.0, 1e30) == pytest.approx(0.6 + 0.4 * energy_j(1.0))


def test_there_and_back_is_where_it_was():
    up = LAW.energy_j(energy_j(1.2), HIGH, LOW, memory_b=0.0, stretch=1 / 1.2)

    assert up == pytest.approx(1.0)


@pytest.mark.parametrize("clock_mhz", [None, HIGH])
def test_nothing_changes_at_the_same_clock_or_an_unknown_one(clock_mhz):
    assert energy_j(1.3, 1e9, clock_mhz=clock_mhz) == pytest.approx(1.0)


def test_nothing_changes_on_a_gpu_of_which_nothing_is_known():
    assert energy_j(1.3, 1e9, law=ClockLaw(None)) == 1.0
