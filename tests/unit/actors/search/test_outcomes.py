"""What a strategy is told of what was measured."""

from dataclasses import replace

import pytest

from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.measure import Bench
from joulelab.search.constraints import Constraint, judge
from joulelab_actors.search.outcomes import outcome_from, outcome_of, result_of

KNOBS = {"model": "llama-2-7b", "precision": "bf16"}
QUICK = Procedure(idle_s=0.0, min_windows=2, limit_s=10.0)


@pytest.fixture
def bench(tmp_path):
    (address,) = fleet("h200_sxm", 1, str(tmp_path))
    with Bench(SimulatedDevice.open(address), procedure=QUICK) as bench:
        yield bench


def measured(bench, **knobs):
    configuration = Configuration.of("llama", {**KNOBS, **knobs})
    records = bench.measure(Trial(study="s", name="t", configuration=configuration))
    return [record.measurement for record in records]


def test_a_trial_tells_the_memory_that_its_workload_took(bench):
    phases = measured(bench, batch=8)

    outcome = outcome_of(phases)

    parameters_b, cached_b = 2 * 6_738_415_616, 2 * 2 * 32 * 4096 * 8 * 576
    assert outcome.figures.memory_b == parameters_b + cached_b
    assert outcome_from(outcome.candidate, result_of(outcome)) == outcome


def test_memory_of_a_trial_is_that_of_its_largest_phase(bench):
    first, second = measured(bench, batch=1)
    larger = replace(first, observed=replace(first.observed, memory_used_b=20_000_000_000))

    assert outcome_of([larger, second]).figures.memory_b == 20_000_000_000


def test_memory_that_a_phase_did_not_tell_is_left_to_the_others(bench):
    first, second = measured(bench, batch=1)
    unread = replace(first, observed=replace(first.observed, memory_used_b=None))
    silent = replace(second, observed=replace(second.observed, memory_used_b=None))

    assert outcome_of([unread, second]).figures.memory_b == second.observed.memory_used_b
    assert outcome_of([unread, silent]).figures.memory_b is None


def test_a_limit_of_memory_parts_small_batches_from_large_ones(bench):
    limit = [Constraint(quantity="memory_b", bound=24e9)]
    small, large = (outcome_of(measured(bench, batch=batch)).figures for batch in (8, 64))

    assert judge(small, None, limit).is_feasible
    assert not judge(large, None, limit).is_feasible


def test_a_trial_that_does_not_fit_is_told_as_that(bench):
    outcome = outcome_of(measured(bench, batch=1024))

    assert outcome.figures is None
    assert outcome.reason.startswith("unsupported: NVIDIA H200 has 141 GB of memory")
