"""What each strategy of a search is for."""

import tracemalloc
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from search_surfaces import (
    CLOCKS_MHZ,
    SPEED,
    Surface,
    large_space,
    problem_on,
    searched,
    small_space,
)

from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import Constraint
from joulelab.searching.evidence import Evidence, Problem
from joulelab.searching.model.forecast import Forecaster
from joulelab.searching.space import SearchSpace, at_default
from joulelab.searching.strategies import STRATEGIES
from joulelab.searching.strategies.listed import fitted_ridge_mhz
from joulelab.searching.strategies.model_guided import ModelGuided


def test_seeds_give_other_random_orders():
    problem = problem_on(small_space())
    asked = [
        [s.ask() for _ in range(5)] for s in (STRATEGIES["random"](problem, seed=i) for i in (1, 2))
    ]

    assert asked[0] != asked[1]


def test_the_grid_is_measured_in_its_order():
    space = small_space()

    outcomes = searched(STRATEGIES["grid"](problem_on(space)), Surface(space), most=100)

    assert [outcome.candidate for outcome in outcomes] == list(space)


def test_the_ridge_of_a_known_voltage_curve_is_found():
    clock = np.linspace(510.0, 1410.0, 10)
    power = 90 + 0.15 * clock * (1 + np.maximum(clock - 1036, 0) / 1000) ** 2

    found = fitted_ridge_mhz(np.column_stack([clock, power]))

    assert found == pytest.approx(1036, abs=15)


def test_ridge_search_stays_near_the_ridge_after_its_probes():
    space = large_space()

    outcomes = searched(STRATEGIES["ridge"](problem_on(space)), Surface(space), most=60)

    clocks = [outcome.candidate.point.sm_clock_mhz for outcome in outcomes[11:]]
    assert all(850 < clock < 1150 for clock in clocks)


@pytest.mark.parametrize("seed", range(3))
def test_the_model_finds_one_percent_of_the_optimum_in_one_percent_of_a_grid(seed):
    space = large_space()
    surface = Surface(space, noise=0.005)
    strategy = ModelGuided(problem_on(space))

    outcomes = searched(strategy, surface, most=len(space) // 50, seed=seed)

    found = min(surface.log_edp(outcome.candidate) for outcome in outcomes)
    assert found - surface.log_edp(surface.best()) < 0.01


def test_the_model_stops_by_itself_long_before_the_grid_is_measured():
    space = large_space()
    strategy = ModelGuided(problem_on(space))

    outcomes = searched(strategy, Surface(space, noise=0.005), most=200)

    assert strategy.is_done
    assert len(outcomes) < len(space) // 20


@pytest.mark.parametrize("known", [{"gpu": GPUS["a100_sxm"]}, {"top_clock_mhz": 1410}])
def test_a_single_clock_below_the_drivers_is_measured(known):
    """The highest clock that was asked for was taken for the driver's: 1095 MHz was never tried,
    and the driver's clock, with 1410, called the best.
    """
    space = SearchSpace("vit", {"sm_clock_mhz": (1095,), "batch": (128,)})
    surface, problem = Surface(space, noise=0.003), replace(problem_on(space), **known)

    outcomes = searched(ModelGuided(problem), surface, most=5)

    assert surface.best().point.sm_clock_mhz == 1095
    assert surface.best() in {outcome.candidate for outcome in outcomes}


def test_the_drivers_clock_is_none_that_is_asked_for_where_higher_ones_can_be_set():
    """An RTX 4090 stays at 2520 MHz under load, and was believed to be at 3105."""
    space = SearchSpace("vit", {"sm_clock_mhz": (3105, 2520, 1500)})
    problem = replace(problem_on(space), gpu=GPUS["rtx_4090"])

    ratio = Forecaster(Evidence(problem)).ratio

    assert ratio == pytest.approx([2520 / 3105, 1.0, 2520 / 3105, 1500 / 3105])


def test_a_batch_that_never_fits_is_given_up_and_not_clock_by_clock():
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ, "batch": (64, 128, 256)})
    surface, strategy, tried = Surface(space, noise=0.003), ModelGuided(problem_on(space)), []
    for _ in range(25):
        if (asked := strategy.ask()) is None:
            break
        tried.append(dict(asked.knobs)["batch"])
        fits = tried[-1] != 256
        found = surface.outcome(asked, Random(0)) if fits else None
        strategy.tell(found or Outcome(candidate=asked, reason="out of memory"))

    assert 1 <= tried.count(256) <= 3
    assert len(tried) > 5


def test_clocks_that_the_power_cap_makes_identical_are_measured_once():
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ, "batch": (128,)})
    surface = Surface(space, cap_w=200.0)
    capped = next(c for c in space if c.point.sm_clock_mhz == 1125)
    assert surface.truth(capped)[2]
    strategy = ModelGuided(problem_on(space))
    strategy.tell(surface.outcome(space.baseline, Random(0)))
    strategy.tell(surface.outcome(capped, Random(0)))

    outcomes = searched(strategy, surface, most=len(space))

    assert all(outcome.candidate.point.sm_clock_mhz < 1125 for outcome in outcomes)


def test_a_clock_that_the_cap_held_is_not_tried_again():
    """Others that failed are: but what holds a clock will hold it again."""
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ, "batch": (128,)})
    surface, strategy = Surface(space), ModelGuided(problem_on(space))
    strategy.tell(surface.outcome(space.baseline, Random(0)))
    best = surface.best()
    found = surface.outcome(best, Random(0))
    strategy.tell(Outcome(candidate=best, reason="power_capped", capped=True, held=found.figures))

    outcomes = searched(strategy, surface, most=len(space))

    assert outcomes
    assert best not in {each.candidate for each in outcomes}


def test_what_a_policy_forbids_is_asked_for_once_and_says_nothing_of_other_clocks():
    """Three refused clocks counted as a batch that does not fit, and the search ended."""
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ, "batch": (128,)})
    surface, strategy, tried = Surface(space, noise=0.003), ModelGuided(problem_on(space)), []
    lowest, highest = surface.best().point.sm_clock_mhz - 15, surface.best().point.sm_clock_mhz + 15

    while (asked := strategy.ask()) is not None and len(tried) < 60:
        tried.append(asked)
        is_allowed = lowest <= (asked.point.sm_clock_mhz or lowest) <= highest
        found = surface.outcome(asked, Random(0)) if is_allowed else None
        strategy.tell(found or Outcome(candidate=asked, reason="not_allowed", barred=True))

    barred = [each for each in tried if each.point.sm_clock_mhz not in range(lowest, highest + 1)]
    barred = [each for each in barred if each.point.sm_clock_mhz is not None]
    assert len(barred) == len(set(barred)) > 3
    assert surface.best() in tried


def test_no_clock_is_locked_above_the_one_at_which_the_cap_held_the_drivers():
    """Up to seven were, one by one, all of which the cap held again."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ, "batch": (1, 128)}
    space = SearchSpace("vit", axes, references=True)
    surface, strategy = Surface(space), ModelGuided(problem_on(space))
    usual = at_default(next(each for each in space if dict(each.knobs)["batch"] == 128))
    told = surface.outcome(usual, Random(0))
    strategy.tell(surface.outcome(space.baseline, Random(0)))
    strategy.tell(replace(told, capped=True, held_mhz=900.0))

    outcomes = searched(strategy, surface, most=len(space))

    own = [each.candidate for each in outcomes if each.candidate.knobs == usual.knobs]
    assert own
    assert max(each.point.sm_clock_mhz for each in own) <= 900


def test_a_clock_that_may_be_capped_in_one_phase_waits_for_another_one_that_tells():
    """Three of one batch were out at once, and the cap held all of them."""
    space = SearchSpace("llama", {"sm_clock_mhz": CLOCKS_MHZ, "batch": (1, 128)})
    surface = Surface(space)
    fastest_s = min(surface.truth(each)[1] for each in space)
    limit = Constraint(quantity="throughput_per_s", bound=0.5 / fastest_s)
    strategy = ModelGuided(problem_on(space, "ed2p", [limit]))
    strategy.tell(surface.outcome(space.baseline, Random(0)))
    probe = next(c for c in space if c.point.sm_clock_mhz == 945 and ("batch", 128) in c.knobs)
    strategy.tell(surface.outcome(probe, Random(0)))

    asked = [each for _ in range(30) if (each := strategy.ask()) is not None]

    open_ = [each for each in asked if each.point.sm_clock_mhz > 0.7 * max(CLOCKS_MHZ)]
    assert len(asked) > 8
    assert len(open_) <= 1


def test_clocks_and_power_limits_are_searched_together():
    axes = {"sm_clock_mhz": CLOCKS_MHZ, "power_limit_w": (150.0, 200.0, 250.0), "batch": (16, 128)}
    space = SearchSpace("vit", axes)
    surface = Surface(space, noise=0.003, cap_w=300.0)
    strategy = ModelGuided(problem_on(space))

    outcomes = searched(strategy, surface, most=20)

    found = min(surface.log_edp(outcome.candidate) for outcome in outcomes)
    assert found - surface.log_edp(surface.best()) < 0.01


def test_the_best_within_a_slowdown_limit_is_found_and_not_a_faster_or_slower_one():
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ}, knobs={"batch": 64})
    surface = Surface(space, noise=0.002)
    limit = Constraint(quantity="slowdown", bound=0.1)
    strategy = ModelGuided(problem_on(space, "energy", [limit]))

    searched(strategy, surface, most=12)

    slowest_s = 1.1 * surface.truth(space.baseline)[1]
    allowed = [each for each in space if surface.truth(each)[1] <= slowest_s]
    best_j = min(surface.truth(each)[0] for each in allowed)
    chosen = strategy.evidence.ranked()[0]
    assert chosen in allowed
    assert surface.truth(chosen)[0] < 1.01 * best_j


def told(strategy, asked, *, time_s, power_w):
    figures = Figures(
        energy_j=power_w * time_s,
        energy_u_j=0.003 * power_w * time_s,
        time_s=time_s,
        time_u_s=0.002 * time_s,
        power_w=power_w,
        board="one",
    )
    strategy.tell(Outcome(candidate=asked, figures=figures))


@pytest.mark.parametrize("name", ["a100_sxm", "v100_sxm2", "h200_sxm", "l4", "rtx_4090"])
def test_the_first_probe_is_where_memory_and_host_differ_and_the_next_is_elsewhere(name):
    spec = GPUS[name]
    space = SearchSpace("gemm", {"sm_clock_mhz": spec.study_clocks_mhz})
    strategy = ModelGuided(Problem(space=space, objective=OBJECTIVES["edp"], gpu=spec))
    full_w = 0.6 * spec.default_power_limit_w

    told(strategy, strategy.ask(), time_s=1.0, power_w=full_w)
    first = strategy.ask()
    told(strategy, first, time_s=1.3, power_w=0.5 * full_w)
    second = strategy.ask()

    first_mhz, second_mhz = first.point.sm_clock_mhz, second.point.sm_clock_mhz
    assert first_mhz < spec.timing.memory_knee_mhz
    assert abs(second_mhz - first_mhz) > 0.05 * max(spec.study_clocks_mhz)


def test_what_is_asked_for_before_the_baseline_is_known_goes_to_a_clock_set_beforehand():
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ}, knobs={"batch": 64})
    strategy = ModelGuided(problem_on(space))

    baseline, ahead = strategy.ask(), strategy.ask()

    assert baseline == space.baseline
    assert ahead.point.sm_clock_mhz == pytest.approx(0.7 * max(CLOCKS_MHZ), abs=8)


def test_a_suggestion_among_ten_thousand_takes_little_memory():
    """The derivatives of every cost by what is unknown of every cell took 1.2 GB."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ, "batch": range(1, 41), "precision": tuple(SPEED)}
    space = SearchSpace("vit", axes)
    strategy = ModelGuided(problem_on(space))
    searched(strategy, Surface(space, noise=0.005), most=8)

    tracemalloc.start()
    asked = strategy.ask()
    _, most_b = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(space) > 9000
    assert asked is not None
    assert most_b < 50e6


def test_several_asks_at_once_do_not_all_look_at_the_same_cell():
    space = large_space()
    surface = Surface(space, noise=0.005)
    strategy = ModelGuided(problem_on(space))
    searched(strategy, surface, most=3)

    asked = [strategy.ask() for _ in range(4)]

    assert len({each.knobs for each in asked}) >= 3


def test_the_set_of_equals_holds_an_optimum_that_was_never_measured():
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ}, knobs={"batch": 64})
    surface, random = Surface(space, noise=0.003), Random(2)
    strategy = ModelGuided(problem_on(space))
    for clock_mhz in (1410, 1200, 1110, 900, 750):
        measured = next(c for c in space if c.point.sm_clock_mhz == clock_mhz)
        strategy.tell(surface.outcome(measured, random))

    equals = strategy.equals()

    assert surface.best() not in strategy.evidence.measured
    assert surface.best() in equals
    assert len(equals) < len(space) // 2
    assert surface.log_edp(equals[0]) - surface.log_edp(surface.best()) < 0.01


def test_no_equals_are_named_where_nothing_keeps_to_the_constraints():
    space = small_space()
    limit = Constraint(quantity="latency_s", bound=1e-6)
    strategy = ModelGuided(problem_on(space, constraints=[limit]))
    searched(strategy, Surface(space), most=5)

    assert strategy.equals() == ()
