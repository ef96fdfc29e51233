"""A user's callable as a workload."""

import dataclasses

import pytest
from simulated_lab import Toy

from joulelab.core.cost import KernelCost, PhaseCost, WorkloadCost
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.workloads.program import workload_type

KERNEL = KernelCost(name="gemm", pipe="tensor_bf16", flop=1e9, dram_b=1e6)


class Counter:
    """Counts its calls."""

    made = 0

    def __init__(self, start: int = 3, name: str | None = None, act=print):
        type(self).made += 1
        self.count = start

    def __call__(self):
        self.count += 1


def run_once(kind, **knobs):
    workload = kind.from_knobs(knobs)
    workload.prepare()
    return workload.run("run")


def test_a_function_is_called_with_its_knobs_and_a_call_is_one_unit_of_work():
    seen = []

    def step(batch: int = 8):
        seen.append(batch)

    work = run_once(workload_type(step), batch=4)

    assert set(seen) == {4}
    assert work + 1 == len(seen)  # one call was the preparation's


def test_work_and_unit_of_a_call_are_told_by_the_callable_or_beside_it():
    def step():
        pass

    step.unit, step.work = "image", 32

    own = workload_type(step)
    given = workload_type(lambda batch=4: None, unit="row", work=lambda batch: batch / 32)

    assert (own.unit, run_once(own) % 32) == ("image", 0)
    assert (given.unit, run_once(given, batch=16) % 0.5) == ("row", 0)
    with pytest.raises(ConfigError, match="work must be a positive number"):
        given.from_knobs({"batch": 0})


def test_short_calls_are_repeated_before_the_gpu_is_waited_for():
    workload = workload_type(lambda: None).from_knobs({})
    workload.prepare()

    first, later = workload.run("run"), [workload.run("run") for _ in range(8)]

    assert later[-1] > 100 * first


def test_of_a_class_an_object_is_made_once_and_then_called():
    Counter.made = 0

    run_once(workload_type(Counter), start=1)

    assert Counter.made == 1


def test_arguments_with_plain_defaults_become_knobs_and_others_keep_their_default():
    settings = workload_type(Counter).settings_type

    assert {field.name: field.default for field in dataclasses.fields(settings)} == {
        "start": 3,
        "name": None,
    }


def test_an_unknown_knob_of_a_program_is_answered_with_the_closest_one():
    with pytest.raises(UnknownNameError, match=r"Did you mean .*'start'"):
        workload_type(Counter).from_knobs({"strat": 1})


def generator():
    yield 1


async def stream():
    yield 1


async def coroutine():
    pass


def needs_an_argument(x):
    pass


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        (generator, "generator or a coroutine"),
        (coroutine, "generator or a coroutine"),
        (stream, "generator or a coroutine"),
        (needs_an_argument, "needs the argument 'x'"),
        (5, "can be called"),
        (KernelCost, "can be called"),
    ],
)
def test_what_cannot_be_called_again_and_again_is_refused(target, complaint):
    with pytest.raises(ConfigError, match=complaint):
        workload_type(target)


def test_a_workload_is_taken_as_it_is_and_says_its_unit_itself():
    assert workload_type(Toy) is Toy
    with pytest.raises(ConfigError, match="Toy is a Workload"):
        workload_type(Toy, unit="image")


def test_a_program_without_a_cost_says_so_when_it_is_asked():
    workload = workload_type(Counter).from_knobs({})

    assert not workload.has_cost
    with pytest.raises(ConfigError, match="Counter has no cost, which simulated GPUs"):
        workload.cost()


def test_the_cost_of_a_call_becomes_that_of_the_program_for_its_knobs():
    def step(batch: int = 8):
        pass

    def cost(batch):
        return PhaseCost(phase="any", work=1, kernels=(KERNEL,) * batch, parameter_b=7.0)

    kind = workload_type(step, unit="row", work=2, cost=cost)

    assert kind.from_knobs({"batch": 3}).cost() == WorkloadCost(
        unit="row",
        phases=(PhaseCost(phase="run", work=2, kernels=(KERNEL,) * 3, parameter_b=7.0),),
        resident_b=7.0,
    )


def test_a_call_that_returns_work_undone_is_refused_before_it_is_measured():
    """Making a generator over and over was measured as the work that it would do."""
    workload = workload_type(lambda: generator()).from_knobs({})

    with pytest.raises(ConfigError, match="returns a generator or a coroutine"):
        workload.prepare()


def test_what_a_class_holds_is_given_back_when_the_program_is_closed():
    closed = []

    class Held:
        def __call__(self):
            pass

        def close(self):
            closed.append(True)

    workload = workload_type(Held).from_knobs({})
    workload.prepare()
    workload.close()
    workload.close()

    assert closed == [True]
