"""Calls in Python are counted, those of tracing are not."""

import sys
from abc import ABC, abstractmethod

import pytest
import torch

from joulelab.tracing.trace import fake_tensors, trace_program
from joulelab.workloads.network_cost import HostCalls


def inner():
    return None


def outer(times):
    for _ in range(times):
        inner()
        len("")


def test_python_functions_and_compiled_ones_count_one_each():
    few, many = HostCalls(), HostCalls()

    few.during(lambda: outer(1))()
    many.during(lambda: outer(11))()

    assert many.count - few.count == 20


def test_a_trace_counts_the_modules_that_a_real_run_would_call():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    real, traced, twice = HostCalls(), HostCalls(), HostCalls()
    tokens = torch.zeros(2, 4)
    real.during(lambda: network(tokens))()

    with fake_tensors():
        fake = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        values = torch.zeros(2, 4)
        trace_program(traced.during(lambda: fake(values)), network=fake)
        trace_program(twice.during(lambda: fake(fake(values))), network=fake)

    assert 0.8 * real.count <= traced.count <= 1.3 * real.count
    assert 1.8 * traced.count <= twice.count <= 2.2 * traced.count


def test_a_profile_function_sees_the_program_and_not_how_its_calls_are_recorded():
    """It was called for every call of PyTorch's in the trace, which took twice the time."""
    files, before = set(), sys.getprofile()

    def program():
        sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
        try:
            torch.ones(2).reshape(3)
        finally:
            sys.setprofile(before)

    with fake_tensors(), pytest.raises(RuntimeError, match="invalid for input of size 2"):
        trace_program(program)

    assert __file__ in files
    assert not [path for path in files if "/torch/_subclasses/" in path]


def test_what_python_works_out_once_about_classes_is_not_counted():
    class Shape(ABC):
        @abstractmethod
        def area(self): ...

    first, second = HostCalls(), HostCalls()
    first.during(lambda: isinstance(1, Shape))()
    second.during(lambda: isinstance(1, Shape))()

    assert first.count == second.count > 0


def test_the_profile_function_of_before_is_back_after_an_error():
    before = sys.getprofile()

    with pytest.raises(ZeroDivisionError):
        HostCalls().during(lambda: 1 / 0)()

    assert sys.getprofile() is before


class OfItsOwn(torch.Tensor):
    """A tensor of a class of its own, which hands over each function of it."""


def test_handing_a_function_over_to_python_counts_as_several_calls():
    plain, own = torch.zeros(2), torch.zeros(2).as_subclass(OfItsOwn)
    calls, handed = HostCalls(), HostCalls()

    calls.during(lambda: plain.abs())()
    handed.during(lambda: own.abs())()

    assert handed.count - calls.count > 12
