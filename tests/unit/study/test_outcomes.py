"""What a strategy is told of what was measured."""

from dataclasses import asdict, replace

import pytest

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.searching.constraints import Constraint, judge
from joulelab.study.events import outcome_of, result_of

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
    known = {k: v for k, v in asdict(outcome.figures).items() if v is not None}
    result = result_of(outcome)
    assert known.items() <= result.items()
    assert result["edp"] == pytest.approx(outcome.figures.energy_j * outcome.figures.time_s)
    assert result["ed2p"] == pytest.approx(outcome.figures.energy_j * outcome.figures.time_s**2)
    assert "qep" not in result  # its quality was not evaluated
    assert "reason" not in result


def test_memory_of_a_trial_is_that_of_its_largest_phase(bench):
    first, second = measured(bench, batch=8)
    larger = replace(first, observed=replace(first.observed, memory_used_b=20_000_000_000))

    assert outcome_of([larger, second]).figures.memory_b == 20_000_000_000


def test_memory_that_a_phase_did_not_tell_is_left_to_the_others(bench):
    first, second = measured(bench, batch=8)
    unread = replace(first, observed=replace(first.observed, memory_used_b=None))
    silent = replace(second, observed=replace(second.observed, memory_used_b=None))

    assert outcome_of([unread, second]).figures.memory_b == second.observed.memory_used_b
    assert outcome_of([unread, silent]).figures.memory_b is None


def test_a_limit_of_memory_parts_small_batches_from_large_ones(bench):
    limit = [Constraint(quantity="memory_b", bound=24e9)]
    small, large = (outcome_of(measured(bench, batch=batch)).figures for batch in (8, 64))

    assert judge(small, {}, limit).is_feasible
    assert not judge(large, {}, limit).is_feasible


def test_phases_weigh_as_much_as_they_do_in_a_request(bench):
    """A request of 512 tokens once counted as one token that is read and one that is generated."""
    prefill, decode = measured(bench, batch=8, prompt_tokens=512, new_tokens=64)

    figures = outcome_of([prefill, decode]).figures

    request_j = 512 * prefill.energy_per_unit_j + 64 * decode.energy_per_unit_j
    request_s = 512 * prefill.time_per_unit_s + 64 * decode.time_per_unit_s
    assert figures.energy_j == pytest.approx(request_j / 576)
    assert figures.time_s == pytest.approx(request_s / 576)
    assert figures.latency_s == pytest.approx(8 * request_s)
    assert figures.ttft_s == pytest.approx(8 * 512 * prefill.time_per_unit_s)
    assert figures.tpot_s == pytest.approx(8 * decode.time_per_unit_s)
    assert figures.tpot_u_s == pytest.approx(8 * decode.time_per_unit_u_s)


def test_a_clock_that_the_cap_holds_tells_what_it_took_without_figures(bench):
    configuration = Configuration.of(
        "gemm", {"precision": "fp16"}, OperatingPoint(sm_clock_mhz=1980)
    )
    records = bench.measure(Trial(study="s", name="t", configuration=configuration))

    outcome = outcome_of([record.measurement for record in records])

    assert outcome.capped
    assert outcome.figures is None
    assert outcome.held.power_w == pytest.approx(700, rel=0.03)


def test_a_trial_tells_the_lowest_clock_at_which_the_cap_held_a_phase(bench):
    prefill, decode = measured(bench, batch=64)
    lower = replace(decode, observed=replace(decode.observed, sm_clock_mhz=345.0))

    outcome = outcome_of([prefill, lower])

    assert outcome.capped
    assert prefill.observed.power_cap_share > 0.9
    assert decode.observed.power_cap_share == 0.0
    assert outcome.held_mhz == prefill.observed.sm_clock_mhz < 1980


def test_a_trial_that_does_not_fit_is_told_as_that(bench):
    outcome = outcome_of(measured(bench, batch=1024))

    assert outcome.figures is None
    assert outcome.reason.startswith("unsupported: NVIDIA H200 has 151 GB of memory")
    assert result_of(outcome) == {"reason": outcome.reason, "capped": False}
