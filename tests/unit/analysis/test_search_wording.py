"""The answer of a search in words."""

from dataclasses import replace

import pytest

from joulelab.analysis.search_wording import constraint_words, sentence
from joulelab.search.answer import answer
from joulelab.search.base import Figures, Outcome
from joulelab.search.constraints import Constraint
from joulelab.search.evidence import Evidence, Problem
from joulelab.search.goal import goal_of
from joulelab.search.space import SearchSpace

SPACE = SearchSpace("vit", {"sm_clock_mhz": (1200, 1100), "precision": ("bf16",)})
SCATTER = (0.999, 1.001, 1.0)


def evidence(energies_j, lost=(), retention=None):
    """Three repeats of every configuration, all of which take a second."""
    found = Evidence(Problem(space=SPACE, goal=goal_of("edp")))
    for candidate, energy_j in zip(SPACE, energies_j, strict=False):
        for scatter in SCATTER:
            figures = Figures(
                energy_j=energy_j * scatter,
                energy_u_j=1e-4,
                time_s=1.0,
                time_u_s=1e-4,
                power_w=energy_j,
                board="a",
                retention=retention,
                retention_u=None if retention is None else 0.001,
            )
            found.add(Outcome(candidate=candidate, figures=figures))
    for outcome in lost:
        found.add(outcome)
    return found


def said(found, *, spent_j=2000.0):
    return sentence(answer(found, spent_j=spent_j), found.problem)


def test_a_saving_is_told_with_its_interval_and_when_it_has_paid():
    words = said(evidence([10.0, 8.0, 9.0]))

    assert words.startswith("Choose 1200 MHz, bf16: -20.0 % ± 0.")
    assert "every other configuration that was measured is worse." in words
    assert words.endswith("2 kJ and has paid for itself after 1,000 images.")


def test_a_search_that_a_budget_ended_says_that_it_is_not_settled():
    found = evidence([10.0, 8.0, 9.0])

    words = sentence(
        answer(found, spent_j=1.0), found.problem, stopped_by="the budget of 16 trials"
    )

    assert "It was ended by the budget of 16 trials before it was settled" in words
    assert "before it was settled" not in said(found)


def test_no_digit_is_told_that_is_not_known():
    words = said(evidence([10.0, 8.0, 9.0]), spent_j=2469134.0)

    assert "2.47 MJ and has paid for itself after 1,230,000 images." in words


def test_the_baseline_is_a_possible_answer():
    words = said(evidence([8.0, 10.0, 9.0]))

    assert words.startswith("Stay with the driver's clock, bf16")
    assert words.endswith("The search took 2 kJ.")


def test_the_quality_that_is_kept_is_told_where_it_was_evaluated():
    assert "time, quality 99.1 % ± 0.2 % of the reference's;" in said(
        evidence([10.0, 8.0, 9.0], retention=0.991)
    )


def test_what_could_not_be_measured_is_told_since_it_might_have_been_better():
    lost = Outcome(candidate=SPACE[2], reason="throttled: hot")

    words = said(evidence([10.0, 8.0], lost=[lost]))

    assert "1 configuration could not be measured" in words


def test_what_the_power_cap_held_down_is_told_as_that_and_not_as_unmeasured():
    """A search once called clocks above the power cap configurations that it had missed."""
    held = Outcome(candidate=SPACE[2], reason="power_capped: held", capped=True)

    words = said(evidence([10.0, 8.0], lost=[held]))

    assert "could not be measured" not in words
    assert "1 configuration ran slower than asked, held down by the power cap" in words


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Constraint(quantity="slowdown", bound=0.05), "at most 5 % more time than the baseline"),
        (Constraint(quantity="quality", bound=0.95), "at least 0.95 of the reference's quality"),
        (Constraint(quantity="power_w", bound=350), "at most 350 W"),
        (Constraint(quantity="memory_b", bound=23.5e9), "at most 23.5 GB of device memory"),
    ],
)
def test_constraints_are_told_as_what_they_ask_for(constraint, words):
    assert constraint_words(constraint) == words


def test_an_answer_that_may_break_a_constraint_says_so():
    found = evidence([10.0, 8.0, 9.0])
    limit = Constraint(quantity="power_w", bound=5)
    strict = Evidence(replace(found.problem, constraints=(limit,)))
    for outcome in found.outcomes:
        strict.add(outcome)

    assert "it is not sure to keep to every constraint" in said(strict)
