"""What is minimised, and what must be kept to."""

from dataclasses import replace
from math import e, exp, log

import pytest

from joulelab.errors import ConfigError, MeasurementError, UnknownNameError
from joulelab.objectives import OBJECTIVES, Objective
from joulelab.searching.base import Figures, Outcome, cost_of
from joulelab.searching.constraints import Constraint, judge, order_of
from joulelab.searching.evidence import Evidence, Problem, combined
from joulelab.searching.space import SearchSpace

FIGURES = Figures(
    energy_j=200.0,
    energy_u_j=2.0,
    time_s=0.5,
    time_u_s=0.01,
    power_w=400.0,
    board="GPU-1",
    temperature_c=60.0,
    retention=0.98,
    retention_u=0.0049,
    latency_s=0.5,
    ttft_s=0.1,
    ttft_u_s=0.001,
    tpot_s=0.02,
    tpot_u_s=0.0001,
)
FASTER, FASTEST = replace(FIGURES, time_s=0.4), replace(FIGURES, time_s=0.3)
NOWHERE = {"cell": None, "baseline": None}


@pytest.mark.parametrize(("name", "cost"), [("energy", 200), ("edp", 100), ("ed2p", 50)])
def test_the_usual_objectives_are_energy_times_powers_of_time(name, cost):
    assert exp(cost_of(OBJECTIVES[name], FIGURES).log) == pytest.approx(cost)


def test_qep_is_edp_over_what_is_kept_of_quality():
    assert exp(cost_of(OBJECTIVES["qep"], FIGURES).log) == pytest.approx(100 / 0.98)


def test_uncertainties_add_in_squares_by_their_exponents():
    objective = Objective(name="own", time_exponent=2, quality_exponent=3)

    u = cost_of(objective, FIGURES).u

    assert u**2 == pytest.approx(0.01**2 + (2 * 0.02) ** 2 + (3 * 0.005) ** 2)


def test_a_goal_with_quality_refuses_figures_without_it():
    with pytest.raises(MeasurementError, match="evaluate the quality"):
        cost_of(OBJECTIVES["qep"], replace(FIGURES, retention=None))


def test_a_search_for_time_alone_is_refused():
    space = SearchSpace("gemm", {"sm_clock_mhz": (1000, 1200)})

    with pytest.raises(ConfigError, match="time alone is least at the highest clock"):
        Problem(space=space, objective=OBJECTIVES["time"])


@pytest.mark.parametrize(
    ("constraint", "excess"),
    [
        (Constraint(quantity="quality", bound=0.99), log(0.99 / 0.98)),
        (Constraint(quantity="latency_s", bound=0.4), log(0.5 / 0.4)),
        (Constraint(quantity="power_w", bound=300), log(400 / 300)),
        (Constraint(quantity="temperature_c", bound=50), log(60 / 50)),
        (Constraint(quantity="memory_b", bound=1e9), log(2)),
        (Constraint(quantity="slowdown", bound=0.05), log(0.5 / 0.4 / 1.05)),
        (Constraint(quantity="slowdown", bound=0.05, against="baseline"), log(0.5 / 0.3 / 1.05)),
        (Constraint(quantity="ttft_s", bound=0.08), log(0.1 / 0.08)),
        (Constraint(quantity="tpot_s", bound=0.01), log(2)),
        (Constraint(quantity="throughput_per_s", bound=2.5), log(2.5 / 2.0)),
    ],
)
def test_a_violation_is_the_log_ratio_to_the_bound(constraint, excess):
    figures = replace(FIGURES, memory_b=2e9)

    found = judge(figures, {"cell": FASTER, "baseline": FASTEST}, [constraint])

    assert found.violation == pytest.approx(excess)
    assert not found.is_feasible


def test_a_quantity_at_its_bound_keeps_to_it_with_even_odds():
    found = judge(FIGURES, NOWHERE, [Constraint(quantity="latency_s", bound=0.5)])

    assert found.violation == pytest.approx(0.0)
    assert found.probability == pytest.approx(0.5)
    assert not found.is_feasible


def test_two_standard_uncertainties_within_a_bound_are_97_7_percent():
    bound = 0.5 * exp(2 * 0.02)

    found = judge(FIGURES, NOWHERE, [Constraint(quantity="latency_s", bound=bound)])

    assert found.probability == pytest.approx(0.97725, abs=1e-5)
    assert found.is_feasible


def test_probabilities_of_several_constraints_multiply():
    bounds = [
        Constraint(quantity="latency_s", bound=0.5),
        Constraint(quantity="quality", bound=0.98),
    ]

    assert judge(FIGURES, NOWHERE, bounds).probability == pytest.approx(0.25)


def test_the_baseline_is_no_slower_than_itself_however_uncertain():
    found = judge(FIGURES, {"cell": FIGURES}, [Constraint(quantity="slowdown", bound=0.0)])

    assert found.is_feasible


def test_whether_a_slowdown_is_kept_to_is_open_without_what_it_is_over():
    found = judge(FIGURES, NOWHERE, [Constraint(quantity="slowdown", bound=0.05)])

    assert (found.violation, found.probability) == (0.0, 0.5)


def test_a_slowdown_is_over_the_batch_or_over_the_baseline():
    with pytest.raises(UnknownNameError, match="cell"):
        Constraint(quantity="slowdown", bound=0.1, against="cel")


def test_a_program_that_holds_no_memory_keeps_to_any_bound_on_it():
    """A simulated one whose cost names no bytes ended the search with "math domain error"."""
    figures = replace(FIGURES, memory_b=0.0)

    found = judge(figures, NOWHERE, [Constraint(quantity="memory_b", bound=1e9)])

    assert found.is_feasible
    assert found.violation == 0.0


def test_a_bounded_quantity_that_nobody_measured_is_refused():
    with pytest.raises(MeasurementError, match="memory_b is bounded"):
        judge(FIGURES, NOWHERE, [Constraint(quantity="memory_b", bound=1e9)])


@pytest.mark.parametrize(("quantity", "bound"), [("power_w", 0.0), ("slowdown", -0.1)])
def test_a_bound_that_nothing_keeps_to_is_refused(quantity, bound):
    with pytest.raises(ConfigError, match="positive bound"):
        Constraint(quantity=quantity, bound=bound)


def test_no_cost_buys_a_violation():
    goal, bounds = OBJECTIVES["edp"], [Constraint(quantity="latency_s", bound=0.6)]
    dear, cheap = replace(FIGURES, energy_j=1e9), replace(FIGURES, energy_j=1e-9, latency_s=0.61)
    worse = replace(cheap, latency_s=0.7)

    order = sorted((worse, cheap, dear), key=lambda f: order_of(goal, f, judge(f, NOWHERE, bounds)))

    assert order == [dear, cheap, worse]


def test_repeats_are_taken_together_on_the_logarithmic_scale():
    once, again = replace(FIGURES, energy_j=100.0), replace(FIGURES, energy_j=100.0 * e)

    both = combined([once, again])

    assert both.energy_j == pytest.approx(100 * e**0.5)
    assert both.energy_u_j / both.energy_j == pytest.approx(0.5)  # sd 1/sqrt(2), over sqrt(2)
    assert both.time_u_s / both.time_s == pytest.approx(0.02 / 2**0.5)


def test_evidence_ranks_what_was_measured_and_counts_what_failed():
    space = SearchSpace("gemm", {"sm_clock_mhz": (1000, 1200)})
    evidence = Evidence(Problem(space=space, objective=OBJECTIVES["edp"]))
    for place, energy_j in ((0, 3.0), (1, 1.0)):
        figures = replace(FIGURES, energy_j=energy_j)
        evidence.add(Outcome(candidate=space[place], figures=figures))
    evidence.add(Outcome(candidate=space[2], reason="throttled"))

    assert evidence.ranked() == [space[1], space[0]]
    assert evidence.baseline.energy_j == 3.0
    assert evidence.num_failures(space[2]) == 1
    assert evidence.mean(space[2]) is None
