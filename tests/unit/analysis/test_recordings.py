"""Recordings that are replayed: one observation each, however often they are played."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic_results import energy_j, measurement, time_s

from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_listing
from joulelab.analysis.wording import sentence

CLOCKS_MHZ = tuple(range(600, 1951, 75))


def replayed(clocks_mhz, *, sd=0.0, seed=0, rows=1, plays=3):
    """Play the recordings of the default and of some clocks in turn."""
    rng, found = np.random.default_rng(seed), []
    for minute, clock in enumerate([None, *clocks_mhz]):
        factors = np.exp(rng.normal(0, sd, (rows, 2)))
        for play in range(plays):
            energy, time = factors[play % rows]
            played = measurement(
                clock, repeat=play, minute=10 * minute + play, relative_u=1e-5,
                energy_factor=energy, time_factor=time,
            )  # fmt: skip
            found.append(replace(played, recording=f"table.csv:{clock}-{play % rows}"))
    return found


def phase_of(measurements):
    (phase,) = analyse_sweep(measurements).phases
    return phase


def test_a_recording_that_is_played_again_is_no_second_observation():
    phase = phase_of(replayed(CLOCKS_MHZ, sd=0.02))

    assert {row.num_valid for row in phase.rows} == {1}
    assert phase.is_replayed
    assert "about a smooth curve" in " ".join(sweep_listing(phase).legend)


@pytest.mark.parametrize("sd", [0.003, 0.02])
def test_sets_hold_the_best_clock_though_each_was_recorded_once(sd):
    best = min(CLOCKS_MHZ, key=lambda clock: energy_j(clock) * time_s(clock))

    phases = [phase_of(replayed(CLOCKS_MHZ, sd=sd, seed=seed)) for seed in range(200)]

    assert np.mean([phase.row(f"{best}MHz").in_set for phase in phases]) >= 0.95
    truth = 1 - energy_j(1200) / energy_j(2000)
    held = [not p.row("1200MHz").figures.saving.excludes(truth) for p in phases]
    assert np.mean(held) >= 0.92


def test_recorded_repeats_tell_the_scatter_themselves():
    phase = phase_of(replayed((800, 1200), sd=0.02, rows=3, plays=6))

    assert {row.num_valid for row in phase.rows} == {3}
    assert phase.dof == 6
    assert "recorded repeats" in " ".join(sweep_listing(phase).legend)


def test_few_clocks_recorded_once_give_no_set_and_no_interval():
    phase = phase_of(replayed((800, 1000, 1200)))

    assert phase.members == ()
    assert phase.best is None
    assert phase.row("800MHz").figures.saving.half_width == np.inf
    assert sentence(phase).startswith("No recommendation: ")
    assert "no intervals" in " ".join(sweep_listing(phase).legend)
