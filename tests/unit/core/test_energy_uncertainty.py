"""The stated uncertainty against a recording of a real counter and its power samples."""

import numpy as np
import pytest
from reference_data import reference_csv

from joulelab.core.counter import EnergyCounter
from joulelab.core.ticks import CounterPolls


@pytest.fixture(params=["bf16_1024", "bf16_8192"])
def recording(request):
    """The counter, and times and joules of the integrated samples, scaled to the counter."""
    polls = reference_csv(f"h200_steady_{request.param}_polls.csv")
    start_s, energy_mj, _, stop_s = np.loadtxt(polls, delimiter=",", skiprows=1, unpack=True)
    counter = EnergyCounter(
        CounterPolls(before_s=start_s, after_s=stop_s, energy_j=energy_mj / 1e3)
    )
    samples = reference_csv(f"h200_steady_{request.param}_samples.csv")
    time_s, power_mw = np.loadtxt(samples, delimiter=",", skiprows=1, unpack=True)
    new = np.r_[True, np.diff(time_s) > 1e-3]
    time_s, power_w = time_s[new], power_mw[new] / 1e3
    energy_j = np.r_[0, np.cumsum(np.diff(time_s) * (power_w[1:] + power_w[:-1]) / 2)]
    first_s, last_s = counter.ticks.time_s[[5, -5]]
    scale = counter.window(first_s, last_s).energy_j / np.diff(
        np.interp([first_s, last_s], time_s, energy_j)
    )
    return counter, time_s, scale * energy_j


def errors(recording, length_s, num_windows=4000):
    counter, time_s, energy_j = recording
    random = np.random.default_rng(0)
    first_s, last_s = counter.ticks.time_s[[5, -5]]
    starts_s = random.uniform(first_s, last_s - length_s - 0.1, num_windows)
    stops_s = starts_s + length_s + random.uniform(-0.05, 0.05, num_windows)
    windows = [counter.window(*edges) for edges in zip(starts_s, stops_s, strict=True)]
    reference_j = np.interp(stops_s, time_s, energy_j) - np.interp(starts_s, time_s, energy_j)
    error_j = np.array([window.energy_j for window in windows]) - reference_j
    return error_j / reference_j, error_j / np.array([window.energy_u_j for window in windows])


def test_energy_of_a_second_is_known_to_half_a_percent(recording):
    relative, _ = errors(recording, 1.0)

    assert relative.std() < 0.005


@pytest.mark.parametrize("length_s", [0.5, 1.0, 2.0])
def test_the_stated_uncertainty_is_the_scatter_of_the_errors(recording, length_s):
    _, normalised = errors(recording, length_s, num_windows=1000)

    assert 0.6 < normalised.std() < 1.35


def test_a_tick_every_100_ms_is_found_in_the_recording(recording):
    counter, _, _ = recording

    assert counter.ticks.period_s == pytest.approx(0.1, abs=1e-4)
