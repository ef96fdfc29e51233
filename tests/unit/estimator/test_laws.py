"""What says how close estimates come to breaking a law: it must see one that is broken."""

import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from programs_by_hand import model, product

from joulelab.estimator.pricing.predict import Totals, estimate
from joulelab.hardware.processors import PROCESSORS

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import estimate_laws as laws

A100 = PROCESSORS["a100_sxm"]
TWICE = [A100, A100]


def totals_of(*, latency_s=(1.0, 2.0), energy_j=(100.0, 600.0), peak_w=(200.0, 380.0)):
    """Return totals of one phase on two processors."""
    shaped = [np.reshape(each, (2, 1, 1)) for each in (latency_s, energy_j, (0.5, 0.5), peak_w)]
    return Totals(
        phases=("forward",),
        latency_s=shaped[0],
        energy_j=shaped[1],
        roofline_s=shaped[2],
        peak_power_w=shaped[3],
    )


def made():
    return estimate(model(product(64, 64, 64)), A100, events=True)


def with_event_energy(estimate_, energy_j):
    phase = estimate_.phases[0]
    events = (replace(phase.events[0], energy_j=energy_j), *phase.events[1:])
    return replace(estimate_, phases=(replace(phase, events=events),))


def test_power_is_compared_with_the_limit_of_400_w():
    assert laws.cap_share(totals_of(), TWICE) == pytest.approx(380 / 400)


def test_a_mean_power_above_every_peak_counts():
    assert laws.cap_share(totals_of(energy_j=(100.0, 1600.0)), TWICE) == pytest.approx(2.0)


def test_the_fastest_processor_comes_closest_to_its_roofline():
    assert laws.roofline_share(totals_of()) == pytest.approx(0.5)


def test_the_least_energy_is_found():
    assert laws.least_energy_j(totals_of(energy_j=(100.0, -1.0))) == -1.0


def test_a_larger_batch_of_less_energy_is_seen():
    smaller = totals_of(energy_j=(200.0, 300.0))

    assert laws.largest_shrinkage(totals_of(), smaller) == pytest.approx(2.0)


def test_parts_of_an_estimate_sum_to_it():
    assert laws.partition_error(made()) < 1e-12


def test_an_event_that_lost_energy_is_seen():
    whole = made()
    lost = with_event_energy(whole, whole.phases[0].events[0].energy_j * 0.5)

    assert laws.partition_error(lost) > 1e-6


def test_a_negative_event_is_seen():
    assert laws.partition_error(with_event_energy(made(), -1e-12)) == inf


def test_an_estimate_without_events_divides_nothing():
    assert laws.partition_error(estimate(model(product(64, 64, 64)), A100)) == inf
