"""What a call of a user's program costs, found by tracing one where there is no GPU."""

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from joulelab.tracing.gpu_choices import replaced
from joulelab.tracing.kernels import kernels_of
from joulelab.tracing.trace import fake_tensors
from joulelab.workloads.network_cost import TracedCalls, trace_counted

Call = Callable[[], object]


def traced_call(
    make: Callable[[], Call], close: Callable[[], None], *, makes_tensors: bool
) -> TracedCalls:
    """Trace the second call of what ``make`` returns; the first makes what lasts between calls.

    Args:
        make: Returns what is called.
        close: Lets it go again, however the trace ends.
        makes_tensors: Whether all tensors are made by it, and so can do without memory. Others,
            and a program that depends on their values, compute what they compute, on the CPU.

    Raises:
        ConfigError: If a kernel's operations cannot be counted.
    """
    if makes_tensors:
        with suppress(Exception), fake_tensors(), torch.enable_grad():  # anything may need values
            return _second_call(make, close)
    return _second_call(make, close)


def _second_call(make: Callable[[], Call], close: Callable[[], None]) -> TracedCalls:
    with ExitStack() as stack:
        stack.callback(close)
        stack.enter_context(_optimizers_of_gpu())
        call = make()
        call()
        program, host_calls = trace_counted(
            call,
            gradients=True,
            tf32_matmul=torch.get_float32_matmul_precision() != "highest",
            tf32_conv=torch.backends.cudnn.allow_tf32,
        )
    return TracedCalls(kernels_of(program), host_calls, program.held_b)


@contextmanager
def _optimizers_of_gpu() -> Generator[None]:
    """Let optimizers work on lists of tensors, as they do by default on a GPU."""
    module: Any = sys.modules[torch.optim.Optimizer.__module__]
    types = [*module._foreach_supported_types, FakeTensor]  # noqa: SLF001
    with (
        replaced(module, "_get_foreach_kernels_supported_devices", lambda: ["cpu"]),
        replaced(module, "_foreach_supported_types", types),
    ):
        yield
