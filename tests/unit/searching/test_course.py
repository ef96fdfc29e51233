"""How a search went, trial by trial."""

from dataclasses import replace
from random import Random

import pytest
from search_surfaces import problem_on, small_space

from joulelab.searching.answer import answer
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import Constraint
from joulelab.searching.course import Course
from joulelab.searching.evidence import Evidence
from joulelab.searching.standing import compared

SPACE = small_space()


def outcome(place, energy_j, time_s=1.0, *, board="GPU-1", **changes):
    figures = Figures(
        energy_j=energy_j,
        energy_u_j=0.001 * energy_j,
        time_s=time_s,
        time_u_s=0.0,
        power_w=energy_j / time_s,
        board=board,
    )
    return replace(Outcome(candidate=SPACE[place], figures=figures), **changes)


def steps(*outcomes, constraints=()):
    course = Course(problem_on(SPACE, "energy", constraints))
    return [course.add(each, spent_j=10.0 * i) for i, each in enumerate(outcomes, 1)]


def test_the_best_so_far_never_gets_worse_and_costs_are_against_the_baseline():
    found = steps(outcome(0, 2.0), outcome(1, 1.0), outcome(2, 1.5))

    assert [step.cost_ratio for step in found] == pytest.approx([1.0, 0.5, 0.75])
    assert [step.best_cost_ratio for step in found] == pytest.approx([1.0, 0.5, 0.5])
    assert [step.best for step in found] == [SPACE[0], SPACE[1], SPACE[1]]
    assert [step.spent_j for step in found] == [10.0, 20.0, 30.0]


def test_a_trial_is_compared_with_the_baseline_of_its_own_board():
    found = steps(outcome(0, 2.0), outcome(0, 4.0, board="GPU-2"), outcome(1, 2.0, board="GPU-2"))

    assert found[-1].cost_ratio == pytest.approx(0.5, rel=1e-4)


def test_the_line_of_a_running_search_says_what_its_answer_does():
    """Of boards without a baseline it once took the mean baseline, where the answer did not."""
    random = Random(0)
    course, evidence = Course(problem_on(SPACE, "energy")), Evidence(problem_on(SPACE, "energy"))
    boards = {"GPU-1": 1.0, "GPU-2": 1.04, "GPU-3": 0.95}
    for place in [0, *(random.randrange(len(SPACE)) for _ in range(20))]:
        board = random.choice(list(boards)) if place else "GPU-1"
        energy_j = (2.0 - 0.01 * place) * boards[board] * random.uniform(0.99, 1.01)
        step = course.add(outcome(place, energy_j, board=board), spent_j=1.0)
        evidence.add(step.outcome)

        found = answer(evidence, spent_j=1.0)

        assert step.best == found.standing.best
        assert step.best_cost_ratio == pytest.approx(found.cost_ratio.value, rel=1e-9)


def test_before_the_baseline_there_is_nothing_to_compare_with():
    found = steps(outcome(1, 1.0), outcome(0, 2.0))

    assert found[0].cost_ratio is None
    assert found[0].best_cost_ratio is None
    assert found[1].best_cost_ratio == pytest.approx(0.5)


def test_what_breaks_a_constraint_is_not_the_best_once_that_can_be_told():
    limit = Constraint(quantity="slowdown", bound=0.1)

    found = steps(outcome(1, 1.0, 2.0), outcome(0, 2.0), outcome(2, 1.5), constraints=[limit])

    assert found[0].best is None
    assert [step.best for step in found[1:]] == [SPACE[0], SPACE[2]]
    assert found[-1].is_feasible


def test_trials_are_counted_by_what_came_of_them():
    held = Outcome(candidate=SPACE[1], reason="power_capped: held", capped=True)
    lost = Outcome(candidate=SPACE[2], reason="throttled: hot")

    last = steps(outcome(0, 2.0), held, lost)[-1]

    assert (last.num_valid, last.num_capped, last.num_failed) == (1, 1, 1)
    assert last.cost_ratio is None
    assert last.best == SPACE[0]


def test_boards_are_taken_out_of_the_figures_of_an_answer():
    evidence = Evidence(problem_on(SPACE, "energy"))
    for each in (
        outcome(0, 2.0),
        outcome(0, 4.0, board="GPU-2"),
        outcome(1, 1.0),
        outcome(2, 3.0, board="GPU-2"),
    ):
        evidence.add(each)

    found = compared(evidence)

    assert found[SPACE[1]].energy_ratio.value == pytest.approx(0.5, rel=1e-4)
    assert found[SPACE[2]].energy_ratio.value == pytest.approx(0.75, rel=1e-4)
    energies_j = [found[SPACE[place]].figures.energy_j for place in (0, 1, 2)]
    assert energies_j == pytest.approx([8**0.5, 2**0.5, 0.75 * 8**0.5], rel=1e-4)
    assert [each.configuration for each in answer(evidence, spent_j=0.0).front] == [SPACE[1]]


def test_a_clock_that_the_power_cap_holds_down_has_not_failed():
    evidence = Evidence(problem_on(SPACE, "energy"))
    evidence.add(outcome(0, 2.0))
    evidence.add(Outcome(candidate=SPACE[1], reason="power_capped: held", capped=True))
    evidence.add(Outcome(candidate=SPACE[2], reason="throttled: hot"))

    found = answer(evidence, spent_j=0.0)

    assert found.failed == (SPACE[2],)
    assert found.capped == (SPACE[1],)
