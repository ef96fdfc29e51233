"""The error of a quality in comparisons: once for all that has the same outputs."""

from math import exp

import pytest

from joulelab.objectives import OBJECTIVES
from joulelab.searching.answer import answer
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.evidence import Evidence, Kept, Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.standing import standing
from joulelab.searching.strategies.listed import Grid

SPACE = SearchSpace("vit", {"batch": (1, 2), "precision": ("fp32", "bf16")})
KEPT = {
    cell: Kept(retention=1.0, outputs="fp32")
    if dict(cell)["precision"] == "fp32"
    else Kept(retention=0.98, outputs="bf16", u=0.05)
    for cell in SPACE.cells
}
PROBLEM = Problem(space=SPACE, objective=OBJECTIVES["qep"], qualities=KEPT)
ENERGY_J = {("fp32", 1): 3.0, ("fp32", 2): 1.05, ("bf16", 1): 1.02, ("bf16", 2): 1.0}


def outcome(configuration):
    knobs = dict(configuration.knobs)
    energy_j = ENERGY_J[knobs["precision"], knobs["batch"]]
    return outcome_of(configuration, energy_j, KEPT[configuration.knobs])


def outcome_of(configuration, energy_j, kept):
    figures = Figures(
        energy_j=energy_j,
        energy_u_j=0.001 * energy_j,
        time_s=1.0,
        time_u_s=0.0,
        power_w=energy_j,
        board="a",
        retention=kept.retention,
        retention_u=kept.u,
    )
    return Outcome(candidate=configuration, figures=figures)


def named(configurations):
    return {(dict(c.knobs)["precision"], dict(c.knobs)["batch"]) for c in configurations}


@pytest.fixture
def evidence():
    found = Evidence(PROBLEM)
    for configuration in SPACE:
        found.add(outcome(configuration))
    return found


def test_what_has_the_same_outputs_is_told_apart_by_its_energy_alone(evidence):
    now = standing(evidence)

    assert ("bf16", 1) not in named(now.members)  # 2 % more energy, and the same error of quality


def test_what_has_other_outputs_may_be_the_best_within_the_error_of_quality(evidence):
    now = standing(evidence)

    assert named(now.members) == {("bf16", 2), ("fp32", 2)}
    assert now.possible_regret > 0.05
    assert now.open_regret == 0.0


def test_repeats_are_not_spent_on_what_only_a_better_score_could_tell():
    race = Race(PROBLEM, Grid(PROBLEM))
    asked = []
    while (configuration := race.ask()) is not None:
        asked.append(configuration)
        race.tell(outcome(configuration))

    assert len(asked) == len(SPACE) + 1  # the best alone, to see how trials scatter
    assert race.is_done


def test_the_error_of_quality_widens_the_interval_of_the_cost_against_another_format():
    space = SearchSpace("vit", {"precision": ("fp32", "int8"), "batch": (1, 2)})
    known = {
        cell: Kept(retention=1.0, outputs=name, u=0.05 if name == "int8" else None)
        for cell in space.cells
        for name in (dict(cell)["precision"],)
    }
    evidence = Evidence(Problem(space=space, objective=OBJECTIVES["qep"], qualities=known))
    for configuration in space:
        kept = known[configuration.knobs]
        energy_j = 0.5 if kept.outputs == "int8" else 1.0
        evidence.add(outcome_of(configuration, energy_j, kept))

    found = answer(evidence, spent_j=1.0)

    assert found.cost_ratio.value == pytest.approx(0.5)
    assert found.cost_ratio.high == pytest.approx(0.5 * exp(1.96 * 0.05), rel=0.01)
    assert found.energy_ratio.high < 0.51
