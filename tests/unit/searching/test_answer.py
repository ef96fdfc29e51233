"""What a search says at its end."""

from dataclasses import replace
from math import log

import pytest
from search_surfaces import problem_on, small_space

from joulelab.errors import ConfigError, MeasurementError
from joulelab.searching.answer import answer
from joulelab.searching.base import BOARD_ENERGY_SD, Figures, Outcome
from joulelab.searching.constraints import Constraint
from joulelab.searching.evidence import Evidence

SPACE = small_space()


def figures(energy_j, time_s, *, u=0.001, retention=None, board="GPU-1"):
    return Figures(
        energy_j=energy_j,
        energy_u_j=energy_j * u,
        time_s=time_s,
        time_u_s=time_s * u,
        power_w=energy_j / time_s,
        retention=retention,
        board=board,
    )


def evidence_of(*measured, objective="energy", constraints=()):
    evidence = Evidence(problem_on(SPACE, objective, constraints))
    for place, each in enumerate(measured):
        evidence.add(Outcome(candidate=SPACE[place], figures=each))
    return evidence


def test_an_answer_compares_with_the_baseline_with_intervals():
    found = answer(evidence_of(figures(2.0, 1.0), figures(1.5, 1.1)), spent_j=1000.0)

    assert found.best.configuration == SPACE[1]
    assert found.energy_ratio.value == pytest.approx(0.75)
    assert found.time_ratio.value == pytest.approx(1.1)
    assert found.cost_ratio.value == pytest.approx(0.75)
    relative = found.energy_ratio.half_width / found.energy_ratio.value
    assert relative == pytest.approx(1.96 * 0.001 * 2**0.5, rel=0.01)


def test_power_is_energy_over_time_with_the_boards_taken_out_of_both():
    """It was that of the board that measured: 327 W beside 46.4 mJ in 148 us, which are 314 W."""
    evidence = evidence_of(figures(300.0, 1.0), figures(200.0, 1.0))
    evidence.add(Outcome(candidate=SPACE[0], figures=figures(330.0, 1.0, board="GPU-2")))

    shown = answer(evidence, spent_j=0.0).compared[SPACE[1]].figures

    assert shown.energy_j == pytest.approx(200.0 * 1.1**0.5, rel=1e-3)
    assert shown.power_w == pytest.approx(shown.energy_j / shown.time_s)


def test_a_search_pays_after_what_it_spent_over_what_a_unit_saves():
    found = answer(evidence_of(figures(2.0, 1.0), figures(1.5, 1.1)), spent_j=1000.0)

    assert found.pays_after.value == pytest.approx(2000)
    assert found.pays_after.low < 2000 < found.pays_after.high


def test_a_search_that_saves_nothing_for_certain_never_pays():
    same = answer(evidence_of(figures(2.0, 1.0), figures(1.999, 1.0)), spent_j=1000.0)

    assert same.pays_after is None


def test_what_failed_and_was_never_measured_is_told():
    evidence = evidence_of(figures(2.0, 1.0), figures(1.5, 1.1))
    evidence.add(Outcome(candidate=SPACE[1], reason="throttled"))
    evidence.add(Outcome(candidate=SPACE[2], reason="out of memory"))

    assert answer(evidence, spent_j=0.0).failed == (SPACE[2],)


def test_the_front_leaves_out_what_breaks_a_constraint():
    limit = Constraint(quantity="slowdown", bound=0.2)
    evidence = evidence_of(
        figures(2.0, 1.0), figures(1.5, 1.1), figures(1.0, 2.0), constraints=[limit]
    )

    found = answer(evidence, spent_j=0.0)

    assert [each.configuration for each in found.front] == [SPACE[0], SPACE[1]]
    assert found.best.configuration == SPACE[1]


def test_an_answer_without_the_baseline_is_refused():
    evidence = Evidence(problem_on(SPACE))
    evidence.add(Outcome(candidate=SPACE[1], figures=figures(1.0, 1.0)))

    with pytest.raises(MeasurementError, match="needs the baseline"):
        answer(evidence, spent_j=0.0)


def test_an_answer_without_the_baseline_says_why_that_failed():
    evidence = Evidence(problem_on(SPACE))
    evidence.add(Outcome(candidate=SPACE.baseline, reason="bf16 needs tensor units"))

    with pytest.raises(MeasurementError, match="it failed: bf16 needs tensor units"):
        answer(evidence, spent_j=0.0)


def test_boards_that_nothing_ties_are_compared_as_far_as_boards_of_a_kind_differ():
    same = answer(evidence_of(figures(2.0, 1.0), figures(1.5, 1.1)), spent_j=0.0)
    other = answer(
        evidence_of(figures(2.0, 1.0), replace(figures(1.5, 1.1), board="GPU-2")), spent_j=0.0
    )

    assert other.energy_ratio.value == pytest.approx(same.energy_ratio.value, rel=1e-6)
    margin = log(other.energy_ratio.high / other.energy_ratio.value)
    assert margin == pytest.approx(1.96 * 2**0.5 * BOARD_ENERGY_SD, rel=0.1)


def test_a_negative_energy_spent_is_refused():
    with pytest.raises(ConfigError, match="spent_j"):
        answer(evidence_of(figures(2.0, 1.0)), spent_j=-1.0)
