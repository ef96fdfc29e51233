from dataclasses import replace
from math import log

import numpy as np
import pytest
from synthetic_results import STUDY, board, energy_j, measurement, power_w, sweep, time_s

from joulelab.analysis.sweep import analyse_sweep
from joulelab.core.measurement import Finding
from joulelab.errors import ConfigError, UnknownNameError

CLOCKS_MHZ = tuple(range(600, 1951, 75))
THROTTLED = Finding(reason="throttled", detail="The power cap held for 40 % of the time.")


def only_phase(measurements, objective="edp", **options):
    (phase,) = analyse_sweep(measurements, objective, **options).phases
    return phase


def exact(clocks_mhz=(1000, 1500), **changes):
    """Measure the default and some clocks twice each, without noise."""
    return [
        measurement(clock, repeat=repeat, minute=10 * i + repeat, **changes)
        for i, clock in enumerate([None, *clocks_mhz])
        for repeat in range(2)
    ]


def test_figures_are_those_of_the_curves():
    figures = only_phase(exact()).row("1500MHz").figures

    assert figures.energy_per_unit_j == pytest.approx(energy_j(1500))
    assert figures.time_per_unit_s == pytest.approx(time_s(1500))
    assert figures.power_w == pytest.approx(power_w(1500))
    assert figures.edp_js == pytest.approx(energy_j(1500) * time_s(1500))
    assert figures.ed2p_js2 == pytest.approx(energy_j(1500) * time_s(1500) ** 2)


def test_saving_and_slowdown_are_against_the_default():
    figures = only_phase(exact()).row("1500MHz").figures

    assert figures.saving.value == pytest.approx(1 - energy_j(1500) / energy_j(2000))
    assert figures.slowdown.value == pytest.approx(time_s(1500) / time_s(2000) - 1)


def test_repeats_without_scatter_keep_the_stated_uncertainty():
    figures = only_phase(exact(relative_u=0.004)).row("1500MHz").figures

    assert figures.energy_per_unit_u_j / figures.energy_per_unit_j == pytest.approx(
        0.004 / 2**0.5, rel=0.01
    )
    assert figures.saving.low < figures.saving.value < figures.saving.high


@pytest.mark.parametrize(("objective", "a", "b"), [("energy", 1, 0), ("edp", 1, 1), ("ed2p", 1, 2)])
def test_the_best_is_the_minimum_of_the_objective(objective, a, b):
    phase = only_phase(exact(CLOCKS_MHZ, relative_u=1e-9), objective)

    expected = min(CLOCKS_MHZ, key=lambda clock: energy_j(clock) ** a * time_s(clock) ** b)
    assert phase.recommended == f"{expected}MHz"
    assert phase.members == (phase.recommended,)


@pytest.mark.parametrize("seed", range(4))
def test_of_a_flat_optimum_the_fastest_point_is_recommended_whatever_the_noise(seed):
    """The clock of lowest EDP was recommended: 555, 480 or 645 MHz, from run to run."""
    flat = tuple(range(900, 1351, 15))

    phase = only_phase(sweep(flat, noise=0.004, repeats=3, seed=seed))

    fastest = min(phase.members, key=lambda label: phase.row(label).figures.time_per_unit_s)
    assert phase.recommended == fastest
    assert phase.lowest == phase.members[0]
    assert phase.row(phase.lowest).point.sm_clock_mhz < phase.row(fastest).point.sm_clock_mhz


def test_the_default_is_recommended_as_soon_as_it_may_be_the_lowest():
    rows = [
        measurement(clock, repeat=i, minute=i, energy_factor=factor)
        for clock in (None, 1950)
        for i, factor in enumerate([0.9, 1.0, 1.1])
    ]

    phase = only_phase(rows)

    assert (phase.recommended, phase.lowest) == ("default", "1950MHz")


def test_boards_that_differ_do_not_move_the_saving():
    rows = [
        measurement(clock, index=index, minute=minute, energy_factor=[1.0, 1.1][index])
        for minute, (clock, index) in enumerate([(None, 0), (None, 1), (1500, 1), (1000, 0)])
    ]

    figures = only_phase(rows).row("1500MHz").figures

    assert figures.saving.value == pytest.approx(1 - energy_j(1500) / energy_j(2000))


def test_rows_come_with_the_default_first_and_then_from_the_highest_clock():
    labels = [row.point.label for row in only_phase(sweep(CLOCKS_MHZ)).rows]

    assert labels[:3] == ["default", "1950MHz", "1875MHz"]
    assert labels[-1] == "600MHz"


def test_invalid_measurements_are_counted_with_their_reasons_and_excluded():
    rows = [*exact(), measurement(1500, minute=99, energy_factor=5, findings=[THROTTLED])]

    phase = only_phase(rows)

    row = phase.row("1500MHz")
    assert (row.num_valid, row.num_invalid, row.reasons) == (2, 1, ("throttled",))
    assert row.figures.energy_per_unit_j == pytest.approx(energy_j(1500))
    assert [e.label for e in phase.exclusions] == ["1500MHz"]


def test_a_point_without_a_valid_measurement_has_no_figures():
    rows = [*exact(), measurement(1950, minute=99, findings=[THROTTLED])]

    row = only_phase(rows).row("1950MHz")

    assert row.figures is None
    assert row.observed_clock_mhz == 1950


def test_nothing_valid_gives_rows_and_no_best():
    phase = only_phase([measurement(1500, findings=[THROTTLED])])

    assert (phase.recommended, phase.members, phase.measured) == (None, (), ())


def test_without_a_default_there_is_a_best_but_no_saving():
    phase = only_phase([m for m in exact() if not m.configuration.point.is_default])

    assert phase.recommended == "1000MHz"
    assert phase.default is None
    assert phase.row("1000MHz").figures.saving is None


def test_a_single_point_is_its_own_best():
    phase = only_phase(exact(clocks_mhz=()))

    assert (phase.recommended, phase.members) == ("default", ("default",))


def test_a_single_repeat_uses_the_stated_uncertainties():
    rows = [measurement(clock, relative_u=0.003) for clock in (None, 1000, 1500)]

    phase = only_phase(rows)

    assert (phase.repeat_sd, phase.dof) == (None, 0)
    u = phase.row("1000MHz").figures.energy_per_unit_u_j
    assert u / energy_j(1000) == pytest.approx(0.003)


def test_energies_of_another_source_are_left_out_and_said():
    odd = measurement(1500, minute=99, energy_factor=3)
    odd = replace(odd, windows=tuple(replace(w, source="samples") for w in odd.windows))

    phase = only_phase([*exact(), odd])

    assert phase.source == "counter"
    assert phase.row("1500MHz").figures.energy_per_unit_j == pytest.approx(energy_j(1500))
    assert "not from the counter" in phase.exclusions[0].why


def test_a_board_that_nothing_ties_to_the_others_is_left_out_and_said():
    phase = only_phase([*exact(), measurement(700, index=1)])

    assert phase.row("700MHz").figures is None
    assert "shares no operating point" in phase.exclusions[0].why


def test_phases_knobs_and_products_are_never_mixed():
    other = replace(board(5), name="Another GPU")
    rows = [*exact(), *exact(phase="prefill")]
    rows += [replace(m, device=other, measurement_id=f"o-{m.measurement_id}") for m in exact()]

    phases = analyse_sweep(rows).phases

    assert [(p.phase, p.device_name) for p in phases] == [
        ("decode", "Another GPU"), ("decode", "Invented GPU"), ("prefill", "Invented GPU"),
    ]  # fmt: skip


def test_drift_of_the_sentinels_is_found():
    rows = sweep(CLOCKS_MHZ, num_boards=1, noise=0.001, drift_per_minute=log(1.03) / 60)

    (drift,) = only_phase(rows).drifts

    assert drift.change.value == pytest.approx(1.03 ** (drift.span_s / 3600) - 1, abs=0.004)
    assert drift.exceeds(0.01)


def test_a_board_clock_that_was_restarted_times_no_drift():
    rows = sweep(CLOCKS_MHZ, num_boards=1, noise=0.001)
    restarted = [
        replace(m, windows=tuple(replace(w, start_s=w.start_s % 600) for w in m.windows))
        for m in rows
    ]

    (expected,), (drift,) = only_phase(rows).drifts, only_phase(restarted).drifts

    assert drift.span_s == pytest.approx(expected.span_s)


def test_the_front_holds_the_fastest_and_the_thriftiest_point():
    phase = only_phase(sweep(CLOCKS_MHZ))

    rows = phase.measured
    fastest = min(rows, key=lambda pair: pair[1].time_per_unit_s)
    thriftiest = min(rows, key=lambda pair: pair[1].energy_per_unit_j)
    assert fastest[1].on_front
    assert thriftiest[1].on_front
    assert not phase.row("600MHz").figures.on_front


def test_intervals_of_the_saving_hold_the_truth():
    truth = 1 - energy_j(1200) / energy_j(2000)

    held = [
        not only_phase(sweep((900, 1200, 1600), seed=seed)).row("1200MHz")
        .figures.saving.excludes(truth)
        for seed in range(100)
    ]  # fmt: skip

    assert np.mean(held) > 0.88


def test_an_unknown_objective_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'edp'"):
        analyse_sweep(exact(), "edpp")


def test_measurements_of_two_studies_are_refused():
    with pytest.raises(ConfigError, match="of one study"):
        analyse_sweep([measurement(), replace(measurement(), study="another")])


def test_the_result_is_of_the_study():
    assert analyse_sweep(exact()).study == STUDY
