import json
from dataclasses import replace

import numpy as np
import pytest
from reference_data import reference_csv
from synthetic_results import energy_j, power_w, sweep

from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_report
from joulelab.analysis.temperature import power_per_kelvin
from joulelab.errors import ConfigError

CLOCKS_MHZ = tuple(range(600, 1951, 150))
GROWTH_W_PER_K = 0.4


def heated(m, temperature_c):
    """Return a measurement of a board that leaks more than at 55 degrees, or less."""
    clock_mhz = m.configuration.point.sm_clock_mhz or 2000
    share = 1 + GROWTH_W_PER_K * (temperature_c - 55.0) / power_w(clock_mhz)
    windows = tuple(replace(w, energy_j=w.energy_j * share) for w in m.windows)
    both = {"temperature_start_c": temperature_c - 0.5, "temperature_stop_c": temperature_c + 0.5}
    return replace(m, windows=windows, observed=replace(m.observed, **both))


def warm_sweep(seed=0, *, noise=0.003, **changes):
    random = np.random.default_rng(seed)
    rows = sweep(CLOCKS_MHZ, noise=noise, board_spread=0.0, seed=seed, **changes)
    return [heated(m, float(random.uniform(40, 70))) for m in rows]


def only_phase(rows, reference_c=55.0):
    (phase,) = analyse_sweep(rows, reference_temperature_c=reference_c).phases
    return phase


def test_energies_are_put_to_one_temperature():
    phase = only_phase(warm_sweep(noise=0.0))

    assert phase.temperature.power_per_k_w == pytest.approx(GROWTH_W_PER_K, rel=0.02)
    for row, figures in phase.measured:
        expected = energy_j(row.point.sm_clock_mhz or 2000)
        assert figures.energy_per_unit_j == pytest.approx(expected, rel=1e-3)


def test_at_another_temperature_low_clocks_gain_most():
    warm, cold = (only_phase(warm_sweep(), each) for each in (65.0, 45.0))

    ratio = [
        a.energy_per_unit_j / b.energy_per_unit_j
        for (_, a), (_, b) in zip(warm.measured, cold.measured, strict=True)
    ]
    assert ratio[-1] == pytest.approx(1 + 20 * GROWTH_W_PER_K / power_w(600), rel=0.02)
    assert ratio[-1] > ratio[0] > 1


def test_it_scatters_less_and_intervals_hold_the_truth():
    held = []
    for seed in range(60):
        rows = warm_sweep(seed)
        phase = only_phase(rows)
        assert phase.repeat_sd < 0.6 * analyse_sweep(rows).phases[0].repeat_sd
        for row, figures in phase.measured:
            if not row.point.is_default:
                truth = 1 - energy_j(row.point.sm_clock_mhz) / energy_j(2000)
                held.append(not figures.saving.excludes(truth))
    assert 0.92 <= np.mean(held) <= 0.98


def test_an_uncertain_slope_widens_what_it_moves():
    rows = warm_sweep(noise=0.02)

    near, far = (only_phase(rows, each).row("600MHz").figures for each in (55.0, 75.0))

    assert far.energy_per_unit_u_j > 1.3 * near.energy_per_unit_u_j


def test_what_the_power_cap_held_is_left_as_it_is():
    rows = [
        replace(m, observed=replace(m.observed, power_cap_share=0.5))
        if m.configuration.point.is_default
        else m
        for m in warm_sweep(num_boards=1)
    ]

    warm, cold = (only_phase(rows, each).default.figures for each in (65.0, 45.0))

    assert warm.energy_per_unit_j == cold.energy_per_unit_j


def test_the_report_and_its_methods_say_what_was_done():
    rows = warm_sweep()
    result = analyse_sweep(rows, reference_temperature_c=55.0)

    report = sweep_report(result, rows)

    assert "Energies are at 55 °C" in report.answer.note
    assert "W/K" in report.sections[0].methods
    assert set(report.frame.to_pandas()["reference_temperature_c"]) == {55.0}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (warm_sweep(repeats=1, sentinel_every=99, num_boards=1), "needs repeats"),
        (sweep(CLOCKS_MHZ), "more than one temperature"),
        (
            [
                replace(m, observed=replace(m.observed, temperature_start_c=None))
                for m in warm_sweep()
            ],
            "the temperature of every measurement",
        ),
    ],
)
def test_a_sweep_that_does_not_tell_is_refused(rows, why):
    with pytest.raises(ConfigError, match=why):
        only_phase(rows)


def test_a_temperature_far_from_what_was_measured_is_refused():
    with pytest.raises(ConfigError, match="must be near what was measured"):
        only_phase(warm_sweep(), 200.0)


def test_slots_of_two_seconds_come_nearer_to_a_steady_board():
    """An H100's, in random order; no slope was fitted to the long runs they are compared with."""
    slots = json.loads(reference_csv("h100_slots.json").read_text())
    long = {s["name"]: s for s in slots if s["kind"] == "long" and s["name"] != "resnet50_b32"}
    fast = [s for s in slots if s["kind"] == "fast" and s["name"] in long]
    power = np.array([_steady_w(s["samples"]) for s in fast])
    heat = np.array([(s["temp0"] + s["temp"]) / 2 for s in fast])

    slope, u, dof = power_per_kelvin(power, heat, [s["name"] for s in fast])

    reference = np.array([[long[s["name"]][key] for s in fast] for key in ("power", "temp")])
    corrected = power - slope * (heat - reference[1])
    before, after = (np.sqrt(np.mean((p / reference[0] - 1) ** 2)) for p in (power, corrected))
    assert slope == pytest.approx(0.18, abs=0.05)
    assert u < 0.15
    assert dof == len(fast) - len(long) - 1
    assert after < 0.8 * before


def _steady_w(samples):
    """Return the mean power from half a second to one and a half, as quick measures it."""
    at_s, power_w = np.array(samples).T
    return power_w[(at_s > 0.5) & (at_s < 1.5)].mean()
