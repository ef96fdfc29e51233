"""Searches that must keep to more than time: quality, temperature, memory and power."""

from dataclasses import dataclass, field, replace
from math import log
from random import Random

import numpy as np
import pytest
from scripted_strategy import Scripted
from search_surfaces import CLOCKS_MHZ, Surface, searched

from joulelab.objectives import OBJECTIVES
from joulelab.searching.answer import answer
from joulelab.searching.base import Outcome
from joulelab.searching.constraints import Constraint
from joulelab.searching.evidence import Evidence, Kept, Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace, at_default
from joulelab.searching.strategies import STRATEGIES
from joulelab.searching.strategies.front_guided import expected_growth
from joulelab.searching.strategies.model_guided import ModelGuided

KEPT = {"fp32": 1.0, "tf32": 0.999, "bf16": 0.99, "int8": 0.95}
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "int8": 1}
GUIDED = pytest.mark.parametrize("name", ["model-guided", "front-guided"])


@dataclass
class Measured(Surface):
    """A surface of which temperature, memory and quality are measured too.

    It is 30 degrees warm and 0.1 K warmer per watt; an image of a batch needs 10 MB a byte.
    """

    kept: dict = field(default_factory=lambda: KEPT)
    kept_u: float = 0.0005

    def power_w(self, configuration):
        energy_j, time_s, _ = self.truth(configuration)
        return energy_j / time_s

    def temperature_c(self, configuration):
        return 30 + 0.1 * self.power_w(configuration)

    def memory_b(self, configuration):
        knobs = dict(configuration.knobs)
        return 1e9 + 1e7 * knobs["batch"] * BYTES[knobs["precision"]]

    def quality(self, configuration):
        return self.kept[dict(configuration.knobs)["precision"]]

    def figures(self, configuration, random):
        return replace(
            super().figures(configuration, random),
            temperature_c=self.temperature_c(configuration),
            memory_b=self.memory_b(configuration),
            retention=self.quality(configuration),
            retention_u=self.kept_u,
        )


def space_of(batches=(4, 32, 128), precisions=("fp32", "tf32", "int8")):
    axes = {"sm_clock_mhz": CLOCKS_MHZ[::3], "batch": batches, "precision": precisions}
    return SearchSpace("vit", axes)


def qualities(space, kept=KEPT):
    names = {cell: dict(cell)["precision"] for cell in (space.baseline.knobs, *space.cells)}
    return {cell: Kept(retention=kept[n], outputs=n, u=0.0005) for cell, n in names.items()}


def bounded(space, quantity, bound, *, objective="edp", known=None):
    limit = Constraint(quantity=quantity, bound=bound)
    known = known if known is not None else {}
    return Problem(
        space=space, objective=OBJECTIVES[objective], constraints=(limit,), qualities=known
    )


def best_cost(surface, allowed):
    return min(surface.log_edp(each) for each in surface.space if allowed(each))


def found_by(strategy):
    evidence = strategy.evidence
    best = evidence.ranked()[0]
    assert evidence.judgement(best).is_feasible
    return best


@GUIDED
@pytest.mark.parametrize("is_known", [True, False], ids=["known before", "seen in trials"])
def test_the_best_that_keeps_the_quality_is_found(name, is_known):
    space = space_of()
    surface = Measured(space, noise=0.002)
    problem = bounded(space, "quality", 0.995, known=qualities(space) if is_known else {})
    strategy = STRATEGIES[name](problem, seed=0)

    outcomes = searched(strategy, surface, most=25)

    chosen = found_by(strategy)
    assert surface.quality(chosen) >= 0.995
    assert surface.log_edp(chosen) - best_cost(surface, lambda c: KEPT[dict(c.knobs)["precision"]]
                                               >= 0.995) < 0.015  # fmt: skip
    if is_known:
        assert all(surface.quality(each.candidate) >= 0.995 for each in outcomes)


def test_the_best_below_a_temperature_is_found():
    space = space_of(precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(bounded(space, "temperature_c", 52.0))

    outcomes = searched(strategy, surface, most=20)

    chosen = found_by(strategy)
    assert sum(surface.temperature_c(each.candidate) > 52.0 for each in outcomes) <= 4
    assert surface.temperature_c(chosen) <= 52.0
    best = best_cost(surface, lambda each: surface.temperature_c(each) <= 52.0)
    assert surface.log_edp(chosen) - best < 0.015
    assert best - surface.log_edp(surface.best()) > 0.05  # it binds


def test_the_best_that_fits_into_memory_is_found():
    space = space_of()
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(bounded(space, "memory_b", 2e9))

    searched(strategy, surface, most=25)

    chosen = found_by(strategy)
    assert surface.memory_b(chosen) <= 2e9
    best = best_cost(surface, lambda each: surface.memory_b(each) <= 2e9)
    assert surface.log_edp(chosen) - best < 0.015
    assert best > surface.log_edp(surface.best())


def test_the_best_below_a_power_is_found():
    space = space_of(precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(bounded(space, "power_w", 200.0))

    searched(strategy, surface, most=20)

    chosen = found_by(strategy)
    assert surface.power_w(chosen) <= 201.0
    best = best_cost(surface, lambda each: surface.power_w(each) <= 199.0)
    assert surface.log_edp(chosen) - best < 0.015
    assert best > surface.log_edp(surface.best())


def test_what_breaks_a_bound_breaks_it_at_higher_clocks_as_well():
    """53 to 55 degrees were once tried after 52.65 had been measured at a lower clock."""
    space = space_of(batches=(32,), precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(bounded(space, "temperature_c", 52.0))
    random = Random(0)
    for place in (0, 5, len(space) - 1):
        strategy.tell(surface.outcome(space[place], random))
    broken, kept = space[5].point.sm_clock_mhz, space[-1].point.sm_clock_mhz
    assert surface.temperature_c(space[5]) > 52.0 > surface.temperature_c(space[-1])

    feasible = strategy.forecast().feasible

    clocks = np.array([each.point.sm_clock_mhz or max(CLOCKS_MHZ) for each in space])
    assert feasible[clocks > broken].max() <= 0.05
    assert feasible[clocks == kept] == 1.0


@dataclass
class Locked(Measured):
    """A board on which a trial is invalid whose clock the power cap holds down, as on real ones."""

    def outcome(self, configuration, random):
        found = super().outcome(configuration, random)
        if not found.capped or configuration.point.sm_clock_mhz is None:
            return found
        return replace(found, figures=None, reason="power_capped", held=found.figures)


def test_a_bound_that_the_baseline_breaks_does_not_burn_the_budget():
    """Of 20 trials 17 once went down the capped clocks of the largest batch, one by one."""
    space = space_of(batches=(1, 8, 128), precisions=("bf16",))
    surface = Locked(space, noise=0.002, cap_w=300.0)
    strategy = ModelGuided(bounded(space, "throughput_per_s", 600.0))

    def keeps(configuration):
        _, time_s, capped = surface.truth(configuration)
        return 1 / time_s >= 600.0 and not (capped and configuration.point.sm_clock_mhz)

    outcomes = searched(strategy, surface, most=20)

    assert not keeps(space.baseline)
    assert sum(not keeps(each.candidate) for each in outcomes) <= 6
    assert sum(each.capped for each in outcomes) <= 4
    chosen = found_by(strategy)
    assert keeps(chosen)
    assert surface.log_edp(chosen) - best_cost(surface, keeps) < 0.015


def test_neighbours_of_a_trial_that_is_out_wait_for_whether_it_keeps_to_the_bound():
    """Five neighbours at once were tried beyond a bound that the first of them would have shown."""
    space = space_of(batches=(1, 8, 128), precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(bounded(space, "throughput_per_s", 700.0))
    searched(strategy, surface, most=2)
    feasible = strategy.forecast().feasible

    asked = [each for _ in range(6) if (each := strategy.ask()) is not None]

    doubtful = [each for each in asked if feasible[space.index(each)] < 0.95]
    cells = [each.knobs for each in doubtful]
    assert doubtful
    assert len(set(cells)) == len(cells)


def test_what_misses_a_bound_by_far_leaves_no_hope_for_lower_clocks():
    """Lower clocks of the fastest batch were tried for a throughput that it had missed by half."""
    space = space_of(batches=(1, 128), precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(bounded(space, "throughput_per_s", 2000.0))
    random = Random(0)
    highest = max(
        (c for c in space if dict(c.knobs)["batch"] == 128), key=lambda c: c.point.sm_clock_mhz or 0
    )
    for each in (space.baseline, highest):
        strategy.tell(surface.outcome(each, random))
    assert surface.truth(highest)[1] > 2 / 2000.0

    feasible = strategy.forecast().feasible

    lower = [space.index(each) for each in space if each.knobs == highest.knobs and each != highest]
    assert feasible[lower].max() < 1e-6


def test_what_is_sure_to_break_a_bound_is_not_repeated():
    """Where nothing kept to a bound, what came nearest was measured again, as if it were chosen."""
    space = space_of(batches=(1, 128), precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    problem = bounded(space, "throughput_per_s", 1e6)
    race = Race(problem, ModelGuided(problem), num_trials=30)

    outcomes = searched(race, surface, most=30)

    tried = [each.candidate for each in outcomes]
    assert len(set(tried)) == len(tried) <= 6
    assert race.is_done


def test_a_limit_that_holds_one_phase_of_a_request_holds_no_power_that_others_exceed():
    """A prefill at the cap, in a request of 80 W, made every clock above 80 W count as capped."""
    space = space_of(batches=(1, 128), precisions=("bf16",))
    surface = Measured(space, noise=0.002)
    strategy = ModelGuided(Problem(space=space, objective=OBJECTIVES["edp"]))
    random = Random(0)
    large = next(c for c in space if dict(c.knobs)["batch"] == 128)
    strategy.tell(replace(surface.outcome(space.baseline, random), capped=True))
    strategy.tell(surface.outcome(large, random))
    assert surface.power_w(large) > 1.2 * surface.power_w(space.baseline)

    is_capped = strategy.forecast().is_capped

    assert not is_capped.any()


def test_what_a_slowdown_is_over_is_measured_before_a_repeat_of_what_it_is_asked_of():
    """A clock whose slowdown nobody knew was measured four times."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ[::3], "batch": (8, 32)}
    space = SearchSpace("vit", axes, references=True)
    race = Race(bounded(space, "slowdown", 0.05), Scripted([]))
    surface, random = Measured(space, noise=0.02), Random(0)
    usual, best, open_ = (
        next(c for c in space if (c.point.sm_clock_mhz, dict(c.knobs)["batch"]) == which)
        for which in ((None, 32), (1365, 32), (1365, 8))
    )
    told = [surface.outcome(each, random) for each in (usual, usual, best, best, best)]
    dearest = max(each.figures.energy_j for each in told[-3:])
    as_good = replace(told[-1].figures, energy_j=1.005 * dearest)
    for each in (*told, Outcome(candidate=open_, figures=as_good)):
        race.tell(each)
    assert open_ in race.standing().members

    assert race.ask() == at_default(open_)


def test_a_slowdown_is_over_the_same_batch_at_the_drivers_clock():
    """A larger batch once made up for any clock: +5 % allowed 345 MHz."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ[::3], "batch": (1, 64)}
    space = SearchSpace("vit", axes, references=True)
    surface = Measured(space, noise=0.001)
    problem = bounded(space, "slowdown", 0.05)
    race = Race(problem, ModelGuided(problem), num_trials=25)

    searched(race, surface, most=25)

    def slowdown(configuration):
        return surface.truth(configuration)[1] / surface.truth(at_default(configuration))[1] - 1

    chosen = race.standing().best
    assert race.standing().is_feasible
    assert race.evidence.reference(chosen) is not None
    assert slowdown(chosen) <= 0.052
    best = best_cost(surface, lambda each: slowdown(each) <= 0.05)
    assert surface.log_edp(chosen) - best < 0.02


def test_what_a_slowdown_is_over_is_measured_before_a_second_clock_of_its_batch():
    """Five clocks of a batch were once tried beyond its bound, which nothing told as yet."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ[::3], "batch": (1, 16, 64)}
    space = SearchSpace("vit", axes, references=True)
    surface = Measured(space, noise=0.001)
    strategy = ModelGuided(bounded(space, "slowdown", 0.05))
    random, asked = Random(0), []

    while len(asked) < 20 and (each := strategy.ask()) is not None:
        asked.append(each)
        if len(asked) >= 4:  # four are out at once
            strategy.tell(surface.outcome(asked[-4], random))

    for cell in space.cells:
        of_cell = [each for each in asked if each.knobs == cell]
        assert at_default(of_cell[0]) in of_cell[:2]


def test_a_search_under_a_slowdown_looks_first_at_what_it_is_over():
    """Clocks at 0.7 of the highest came first, and broke the bound in three of four batches."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ, "batch": (4, 32, 128)}
    space = SearchSpace("vit", axes, references=True)
    strategy = ModelGuided(bounded(space, "slowdown", 0.05))

    asked = [strategy.ask() for _ in range(4)]

    others = [each for each in asked if each.knobs != space.baseline.knobs]
    assert others
    assert all(each.point.is_default for each in others)


def test_what_was_not_measured_and_may_be_as_good_is_counted():
    space = space_of()
    surface = Measured(space, noise=0.005)
    strategy = ModelGuided(Problem(space=space, objective=OBJECTIVES["edp"]))
    searched(strategy, surface, most=8)

    found = answer(strategy.evidence, spent_j=80.0)

    measured = set(strategy.evidence.measured)
    assert not measured & set(found.unmeasured)
    assert surface.best() in {*found.standing.members, *found.unmeasured}
    assert len(found.unmeasured) < len(space) / 2
    assert found.unmeasured_j == pytest.approx(10.0 * len(found.unmeasured))


@GUIDED
def test_a_lost_quality_that_is_known_before_is_never_measured(name):
    kept = KEPT | {"int8": 0.0}
    space = space_of()
    surface = Measured(space, noise=0.002, kept=kept)
    problem = Problem(space=space, objective=OBJECTIVES["qep"], qualities=qualities(space, kept))

    outcomes = searched(STRATEGIES[name](problem, seed=0), surface, most=40)

    assert all(surface.quality(each.candidate) > 0 for each in outcomes)


def test_a_lost_quality_is_on_no_front_whatever_the_goal():
    kept = KEPT | {"int8": 0.0}
    space = space_of()
    problem = Problem(space=space, objective=OBJECTIVES["edp"], qualities=qualities(space, kept))
    strategy = STRATEGIES["front-guided"](problem)

    searched(strategy, Measured(space, noise=0.002, kept=kept), most=30)

    found = answer(strategy.evidence, spent_j=1.0)
    assert all(choice.figures.retention > 0 for choice in found.front)


@GUIDED
def test_a_lost_quality_that_trials_show_never_wins_nor_is_on_the_front(name):
    kept = KEPT | {"int8": 0.0}
    space = space_of()
    surface = Measured(space, noise=0.002, kept=kept)
    strategy = STRATEGIES[name](Problem(space=space, objective=OBJECTIVES["qep"]), seed=0)

    outcomes = searched(strategy, surface, most=40)

    lost = [each for each in outcomes if surface.quality(each.candidate) == 0]
    found = answer(strategy.evidence, spent_j=1.0)
    shown = [found.standing.best, *found.standing.members, *(c.configuration for c in found.front)]
    assert lost  # its cells were tried once, being the fastest by far
    assert len(lost) <= len([cell for cell in space.cells if dict(cell)["precision"] == "int8"])
    assert all(surface.quality(each) > 0 for each in shown)
    assert all(choice.figures.retention > 0 for choice in found.front)


def test_an_error_of_quality_that_all_share_keeps_no_search_going():
    space = space_of(precisions=("fp32", "tf32"))
    surface = Measured(space, noise=0.002, kept_u=0.05)
    known = {
        cell: replace(each, u=0.05 if each.outputs == "tf32" else None)
        for cell, each in qualities(space).items()
    }
    strategy = ModelGuided(Problem(space=space, objective=OBJECTIVES["qep"], qualities=known))

    outcomes = searched(strategy, surface, most=len(space))

    assert strategy.is_done
    assert len(outcomes) < 30


def volume(costs):
    """Return the hypervolume of costs: what each adds to those before it."""
    return sum(
        expected_growth(
            costs[n : n + 1, :2], np.zeros((1, 2)), costs[n : n + 1, 2], costs[:n], np.full(3, 1.1)
        )[0]
        for n in range(len(costs))
    )


def test_a_tenth_of_the_trials_finds_the_front_of_energy_time_and_quality():
    space = space_of()
    surface = Measured(space, noise=0.002)
    problem = Problem(space=space, objective=OBJECTIVES["qep"], qualities=qualities(space))
    true = {
        each: (
            log(surface.truth(each)[0]),
            log(surface.truth(each)[1]),
            -log(surface.quality(each)),
        )
        for each in space
    }
    every = np.array(list(true.values()))
    low, high = every.min(axis=0), every.max(axis=0)

    def share(name):
        outcomes = searched(STRATEGIES[name](problem, seed=1), surface, most=len(space) // 10)
        found = np.array([true[each.candidate] for each in outcomes])
        return volume((found - low) / (high - low)) / volume((every - low) / (high - low))

    assert share("front-guided") > 0.99
    assert share("front-guided") > share("random")


def test_clocks_that_the_cap_will_not_let_be_locked_are_not_said_to_be_open():
    """An answer said that 59 others might be as good, most of which cannot be measured."""
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ, "batch": (64, 128)})
    surface, random = Surface(space), Random(0)
    evidence = Evidence(Problem(space=space, objective=OBJECTIVES["ed2p"]))
    evidence.add(surface.outcome(space.baseline, random))
    held = next(c for c in space if c.point.sm_clock_mhz == 1125 and ("batch", 128) in c.knobs)
    seen = surface.outcome(held, random).figures
    evidence.add(Outcome(candidate=held, reason="power_capped", capped=True, held=seen))

    found = answer(evidence, spent_j=20.0)

    open_mhz = [c.point.sm_clock_mhz for c in found.unmeasured if c.knobs == held.knobs]
    assert open_mhz
    assert max(open_mhz) < 1125
