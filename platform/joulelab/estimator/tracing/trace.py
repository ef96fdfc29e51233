"""Trace any PyTorch program to the kernels that it launches.

The dispatcher shows every operator that eager PyTorch would run. Under :func:`fake_tensors` the
program's tensors have a shape and a type but no memory, so a network of any size is traced in
about a second::

    with fake_tensors():
        network = fake_network(build, torch.bfloat16)
        tokens = torch.zeros(1, 512, dtype=torch.long)
        program = trace_program(lambda: network(tokens), network=network, inputs=tokens)

Fake tensors live on the CPU device: there attention stays one kernel, where a trace for a fake
GPU would break it into products and a softmax. The sequence of operators is otherwise that of a
GPU, one launch each, although a few of them launch two kernels there.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from joulelab.core.cost import KernelCost
from joulelab.errors import ConfigError
from joulelab.estimator.graph.kernels import kernels_of
from joulelab.estimator.graph.values import Storages, tensors_held
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.memos import nothing_remembered
from joulelab.estimator.tracing.modules import ModulePath
from joulelab.estimator.tracing.operators import Describer
from joulelab.estimator.tracing.recorder import Recorder


@contextmanager
def fake_tensors() -> Generator[None]:
    """Give tensors made in a ``with`` block no memory, and keep no gradients."""
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one opaque operator, without a formula
    try:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        mode.cache_enabled = False  # from it, results that share a storage come back apart
        with nothing_remembered(), mode, torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)


def trace(
    program: Callable[[], object], *, tf32_matmul: bool = False, tf32_conv: bool = True
) -> tuple[KernelCost, ...]:
    """Run ``program`` and return its kernels in the order of their launches.

    Args:
        program: What to run, on fake tensors or on real ones.
        tf32_matmul: Single-precision products and attention use TF32; off by default in PyTorch.
        tf32_conv: Single-precision convolutions use TF32; on by default in PyTorch.

    Raises:
        ConfigError: If the program calls an operator of matrix kind that has no FLOP formula.
    """
    traced = trace_program(program, tf32_matmul=tf32_matmul, tf32_conv=tf32_conv, strict=True)
    return kernels_of(traced)


def trace_program(
    step: Callable[[], object],
    *,
    network: torch.nn.Module | None = None,
    inputs: object = (),
    kv: object = (),
    optimizer: torch.optim.Optimizer | None = None,
    gradients: bool = False,
    tf32_matmul: bool = False,
    tf32_conv: bool = True,
    strict: bool = False,
) -> Program:
    """Run ``step`` once and return its operators, how values flow between them, and its memory.

    Stages are told apart by themselves: what autograd's engine runs is backward, what an
    optimizer's ``step`` runs is optimizer.

    Args:
        step: What to run, on fake tensors or on real ones.
        network: Its parameters and buffers are weights, and its modules name the operators;
            several networks may be given as one ``torch.nn.ModuleDict``.
        inputs: Tensors passed in, in a nest of lists, tuples, mappings and objects. Tensors
            from outside of the step that are not declared count as inputs when they are used.
        kv: Key-value cache passed in: tensors, or the object that holds them. Only an object
            lets its tensors go while the program replaces them, as it does on a device.
        optimizer: Optimizer whose state is counted apart.
        gradients: Record what a backward pass needs, as a training step must.
        tf32_matmul: Single-precision products and attention use TF32; off by default in PyTorch.
        tf32_conv: Single-precision convolutions use TF32; on by default in PyTorch.
        strict: Refuse operators of matrix kind that have no FLOP formula, rather than mark them.

    Raises:
        ConfigError: If a shape depends on values that fake tensors do not have; or, if
            ``strict``, naming every operator without a formula.
    """
    storages = Storages()
    parameters = [] if network is None else [*network.parameters(), *network.buffers()]
    storages.declare(parameters, "parameter")
    optimizer_b = storages.declare(tensors_held(optimizer and optimizer.state), "state")
    kv_b = storages.declare(tensors_held(kv), "input")
    storages.declare(tensors_held(inputs), "input")
    describer = Describer(storages, tf32_matmul=tf32_matmul, tf32_conv=tf32_conv)
    recorder = Recorder(storages, ModulePath(network), describer)
    with torch.set_grad_enabled(gradients), recorder.recording():
        step()
    recorder.count_gradients(() if network is None else network.parameters())
    if strict:
        _require_counted(describer.uncounted)
    return Program(
        operators=tuple(recorder.operators),
        parameter_b=float(storages.size_b["parameter"]),
        input_b=float(storages.size_b["input"]),
        live_b=tuple(recorder.live_b),
        peak_live_b=float(storages.peak_live_b),
        kv_b=float(kv_b),
        optimizer_b=float(optimizer_b),
        gradient_b=float(recorder.gradient_b),
    )


def _require_counted(uncounted: Mapping[str, int]) -> None:
    if uncounted:
        named = "; ".join(f"{reason}, calls: {count}" for reason, count in uncounted.items())
        raise ConfigError(
            f"Matrix work cannot be counted: {named}. "
            "Add a formula to joulelab.estimator.tracing.formulas."
        )
