"""The answer of a search in words."""

from joulelab.search.answer import answer
from joulelab.search.base import Figures, Outcome
from joulelab.search.evidence import Evidence, Problem
from joulelab.search.goal import goal_of
from joulelab.search.space import SearchSpace
from joulelab_actors.search.tell import sentence

SPACE = SearchSpace("gemm", {"sm_clock_mhz": (1200, 1100), "precision": ("bf16",)})
SCATTER = (0.999, 1.001, 1.0)


def evidence(energies_j, failed=()):
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
            )
            found.add(Outcome(candidate=candidate, figures=figures))
    for candidate in failed:
        found.add(Outcome(candidate=candidate, reason="no luck"))
    return found


def said(found):
    return sentence(answer(found, spent_j=2000.0), found)


def test_a_saving_is_told_with_its_interval_and_when_it_has_paid():
    words = said(evidence([10.0, 8.0, 9.0]))

    assert words.startswith("Choose 1200 MHz, precision bf16: -20.0 % ± 0.")
    assert "every other configuration that was measured is worse." in words
    assert words.endswith("2 kJ and has paid for itself after 1,000 units of work.")


def test_the_baseline_is_a_possible_answer():
    words = said(evidence([8.0, 10.0, 9.0]))

    assert words.startswith("Stay with the driver's clock, precision bf16")
    assert words.endswith("The search took 2 kJ.")


def test_what_could_not_be_measured_is_told_since_it_might_have_been_better():
    words = said(evidence([10.0, 8.0], failed=[SPACE[2]]))

    assert "1 configuration could not be measured" in words
