"""What the programs of a network's phases run, traced on tensors without memory.

Between two launches an eager program calls modules, wrappers of tensor subclasses, views and much
else. Every call of a Python function, and every call that such a function makes of a compiled one,
is counted while the program is traced; what tracing itself runs is left out, and whether a class
is one of an abstract one, which Python works out once per process.

Where a tensor has a class of its own, as the weights of torchao do, PyTorch hands each function of
it, down to reading its shape, from compiled code to Python: that counts several calls.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from joulelab.core.cost import KernelCost
from joulelab.core.number_format import number_format
from joulelab.tracing.kernels import averaged, kernels_of, repeated
from joulelab.tracing.precision import at_precision
from joulelab.tracing.program import Program, ProgramPhase
from joulelab.tracing.trace import trace_program, trace_training

Kernels = tuple[KernelCost, ...]


class Loop(ABC):
    """A program that is run as all of its steps, and counted by one of them.

    The cost of a loop is that of the step in its middle, :attr:`num_steps` times over. What
    starts it, and what its first and last steps do otherwise, must be small against a step.
    """

    num_steps: int
    """How many steps it takes, at least one."""

    @abstractmethod
    def start(self) -> None:
        """Bring the state to before the first step."""

    @abstractmethod
    def step(self, index: int) -> None:
        """Take the step ``index``; those before it have been taken."""

    @abstractmethod
    def skip_to(self, index: int) -> None:
        """Bring the state to before the step ``index``, with values of no meaning."""

    def __call__(self) -> None:
        """Take all steps."""
        self.start()
        for index in range(self.num_steps):
            self.step(index)


def trace_counted(
    program: Callable[[], object], *, trace: Callable[..., Program] = trace_program, **options: Any
) -> tuple[Program, int]:
    """Trace ``program``; return it and its calls in Python; ConfigError if it cannot be counted."""
    calls = HostCalls()
    return trace(calls.during(program), strict=True, **options), calls.count


def traced_phase(
    phase: str,
    program: Callable[[], object],
    *,
    network: torch.nn.Module,
    precision: str,
    trains: bool,
) -> ProgramPhase:
    """Trace one execution of ``program``; of a :class:`Loop` its middle step, for all of them."""
    step, count = program, 1
    if isinstance(program, Loop):
        step, count = _middle_step(program), program.num_steps
    traced, calls = trace_counted(
        step,
        trace=trace_training if trains else trace_program,
        network=network,
        tf32_matmul=precision == "tf32",
        tf32_conv=precision != "fp32",
    )
    # An estimate of fp32 lets convolutions use TF32, PyTorch's default; a measurement does not.
    # Quantised layers were traced as such.
    if precision == "fp32" or number_format(precision).is_quantised:
        traced = replace(traced, precision=precision)
    return ProgramPhase(
        phase=phase,
        work=1.0,
        program=at_precision(traced, precision),
        count=count,
        host_calls=calls,
    )


class TracedCalls(NamedTuple):
    """Kernels of one call or of several together, calls in Python, and the most bytes held."""

    kernels: Kernels
    host_calls: int
    held_b: float


def traced_steps(
    step: Callable[[int], Callable[[], object]],
    skip: Callable[[int], None],
    num_steps: int,
    *,
    kernels: Callable[[Program], Kernels] = kernels_of,
    **options: Any,
) -> TracedCalls:
    """Trace the first and the last of some steps, after ``skip`` of those in between."""
    if num_steps < 1:
        return TracedCalls((), 0, 0.0)
    traced = [trace_counted(step(0), **options)]
    if num_steps > 1:
        skip(num_steps - 2)
        traced.append(trace_counted(step(num_steps - 1), **options))
    (first, calls), (last, last_calls) = traced[0], traced[-1]
    mean = averaged(kernels(first), kernels(last))
    return TracedCalls(
        kernels=repeated(mean, num_steps),
        host_calls=num_steps * ((calls + last_calls) // 2),
        held_b=max(program.held_b for program, _ in traced),
    )


def _middle_step(loop: Loop) -> Callable[[], object]:
    middle = loop.num_steps // 2
    loop.skip_to(middle)
    return lambda: loop.step(middle)


_HANDED_OVER = ("__torch_function__", "__torch_dispatch__")
_CALLS_TO_HAND_OVER = 12
"""Calls that take as long as handing a function over, besides the Python that it is handed to.

A linear layer of torchao's fp8 hands over eight; without, it takes 7.6 us less for each, on a core
on which the calls of a module that does nothing take 0.6 us each."""

_OF_TRACING = (
    "/torch/_subclasses/",
    "/torch/utils/_python_dispatch.py",
    "/torch/utils/_device.py",
    "/torch/_compile.py",
    "/torch/_dynamo/",
    "/torch/_library/simple_registry.py",
    "/weakref.py",
    "/torch/_prims_common/",
    "/torch/_refs/",
    "/torch/fx/",
    "/joulelab/tracing/",
)
"""Code that runs, with all that it calls, because tensors have no memory or calls are recorded."""


class HostCalls:
    """Counts the calls of programs."""

    def __init__(self) -> None:
        self.count = 0

    def during(self, program: Callable[[], object]) -> Callable[[], object]:
        """Return ``program`` such that its calls are counted."""

        def counted() -> object:
            before = sys.getprofile()
            sys.setprofile(self._watch())
            try:
                return program()
            finally:
                sys.setprofile(before)

        return counted

    def _watch(self) -> Callable[[FrameType, str, Any], None]:
        """Return what the interpreter calls at each call and return, millions of times."""
        depth = 0  # of frames that belong to tracing, 0 outside of it

        def see(frame: FrameType, event: str, _: Any) -> None:
            nonlocal depth
            if depth:
                if event == "call":
                    depth += 1
                elif event == "return":
                    depth -= 1
            elif event == "call":
                code = frame.f_code
                if code.co_name == "__subclasscheck__" or _is_of_tracing(code.co_filename):
                    depth = 1
                else:
                    self._add(code, handed_over=code.co_name.endswith(_HANDED_OVER))
            elif event == "c_call":
                self._add(frame.f_code)

        return see

    def _add(self, code: CodeType, *, handed_over: bool = False) -> None:
        self.count += _CALLS_TO_HAND_OVER * handed_over
        self.count += not _is_watch(code.co_filename, code.co_name)


@cache
def _is_of_tracing(path: str) -> bool:
    path = path.replace("\\", "/")
    return any(part in path for part in _OF_TRACING)


@cache
def _is_watch(path: str, name: str) -> bool:
    """Whether it is what starts the count, or wraps the call of a module because hooks watch it."""
    own = {"counted": __file__, "inner": "/nn/modules/module.py"}
    return name in own and path.replace("\\", "/").endswith(own[name])
