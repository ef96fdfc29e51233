"""Phases are recognised at whatever clock they run."""

from dataclasses import replace

import numpy as np
import pytest

from joulelab.core.device import Activity, EventReason
from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.governor.loads import PHASES, phase_cost
from joulelab.governor.observing import Observation
from joulelab.governor.phase import DEFAULT, Average, Recogniser, Signature
from joulelab.hardware import GPUS

H200 = GPUS["h200_sxm"]


def window(phase, clock_mhz, start_s=0.0):
    """What a simulated GPU that is exactly its kind shows of a phase."""
    point = PhaseModel(H200, phase_cost(phase, H200)).at(clock_mhz, H200.mem_clocks_mhz[0])
    return seen(point.activity, clock_mhz, point.power_w, start_s)


def seen(activity, clock_mhz, power_w=300.0, start_s=0.0, least_mhz=None):
    return Observation(
        start_s=start_s,
        stop_s=start_s + 0.1,
        power_w=power_w,
        activity=activity,
        sm_clock_mhz=clock_mhz,
        least_clock_mhz=least_mhz or clock_mhz,
        is_settled=least_mhz is None,
        reasons=EventReason.NONE,
    )


def test_a_window_in_which_the_clock_rises_late_is_still_of_its_phase():
    """Its work went as at the clock before, slower than the mean of both explains.

    It was taken for the begin of another phase, whose clock was put in force for a look.
    """
    top, low = window("prefill", 1980), window("prefill", 495)
    recogniser = Recogniser(1980)
    for number in range(3):
        known = recogniser.recognise(top, DEFAULT)
        if number:
            known.add(top, recogniser.signature(top), DEFAULT)
    rising = seen(low.activity, (495 + 1980) / 2, least_mhz=495)
    as_counted = Signature.of(low, 1980)

    rate = replace(rising, activity=slowed(low.activity, 495 / rising.sm_clock_mhz))
    assert Signature.of(rate, 1980).rates == pytest.approx(as_counted.rates)
    assert recogniser.recognise(rate, OperatingPoint(sm_clock_mhz=1980)) is known
    assert recogniser.recognise(replace(rate, least_clock_mhz=1237.5), DEFAULT) is None


def slowed(activity, share):
    """The activity of the same rates of operations at a clock that is higher by 1 / share."""
    names = ("tensor_active", "fp64_active", "fp32_active", "fp16_active")
    return replace(activity, **{n: share * (getattr(activity, n) or 0.0) for n in names})


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_is_recognised_at_every_clock_from_what_it_is_at_the_highest(phase):
    top, low = window(phase, 1980), window(phase, 1095)
    recogniser = Recogniser(1980)
    for number in range(3):
        known = recogniser.recognise(top, DEFAULT)
        if number:
            known.add(top, recogniser.signature(top), DEFAULT)

    assert recogniser.recognise(low, OperatingPoint(sm_clock_mhz=1095)) is known


@pytest.mark.parametrize("phase", PHASES[:4])
def test_no_phase_is_taken_for_another(phase):
    signature = Signature.of(window(phase, 1980), 1980)

    for other in set(PHASES) - {phase}:
        for clock_mhz in (1980, 1095):
            assert signature.distance(Signature.of(window(other, clock_mhz), 1980)) > 1


def test_the_speed_of_a_phase_follows_from_its_counters():
    model = PhaseModel(H200, phase_cost("decode", H200))
    top_s, low_s = (model.at(c, H200.mem_clocks_mhz[0]).duration_s for c in (1980, 900))

    low, top = (Signature.of(window("decode", c), 1980) for c in (900, 1980))

    assert low.speed(top) == pytest.approx(top_s / low_s, rel=1e-3)


def test_a_window_of_two_phases_is_of_neither():
    recogniser = Recogniser(1980)
    for phase in ("prefill", "decode"):
        for _ in range(3):
            recogniser.recognise(window(phase, 1980), DEFAULT)
    one, two = (window(phase, 1980).activity for phase in ("prefill", "decode"))
    mixed = Activity(
        gr_engine_active=1.0,
        tensor_active=(one.tensor_active + two.tensor_active) / 2,
        dram_active=(one.dram_active + two.dram_active) / 2,
    )

    assert recogniser.recognise(seen(mixed, 1980), DEFAULT) is None


def test_a_new_phase_begins_with_two_windows_alike_at_the_drivers_own_clock():
    recogniser, low = Recogniser(1980), OperatingPoint(sm_clock_mhz=1095)

    assert recogniser.recognise(window("decode", 1095), low) is None
    assert recogniser.recognise(window("decode", 1095), low) is None
    assert recogniser.recognise(window("decode", 1980), DEFAULT) is not None


def test_work_that_is_faster_than_it_can_be_is_another_phase():
    """Two batch sizes may have one proportion of operations and bytes."""
    recogniser = Recogniser(1980)
    half = window("communication", 1980).activity
    recogniser.recognise(seen(half, 1980), DEFAULT)
    known = recogniser.recognise(seen(half, 1980), DEFAULT)
    known.add(seen(half, 1980), recogniser.signature(seen(half, 1980)), DEFAULT)
    faster = Activity(
        gr_engine_active=half.gr_engine_active,
        tensor_active=0.0,
        dram_active=1.5 * half.dram_active,
    )

    assert recogniser.recognise(seen(faster, 1980), DEFAULT) is not known


def test_an_average_forgets():
    average = Average()
    for _ in range(100):
        average.add(1.0, kept=0.9)
    for _ in range(50):
        average.add(2.0, kept=0.9)

    assert average.mean == pytest.approx(2.0 - 0.9**50, abs=1e-3)


def test_the_uncertainty_of_an_average_falls_with_the_root_of_the_windows():
    draw, average = np.random.default_rng(0), Average()
    for value in draw.normal(1.0, 0.05, size=400):
        average.add(float(value), kept=1.0)

    assert average.relative_u == pytest.approx(0.05 / 20, rel=0.1)
