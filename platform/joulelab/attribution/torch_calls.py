"""Record what a program calls on a real device: operators, modules, and what they were given."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.profiler import record_function
from torch.utils._pytree import tree_map
from typing_extensions import override

from joulelab.attribution.profile import kernel_name
from joulelab.attribution.torch_data import sample_of
from joulelab.attribution.traced import cache_regions
from joulelab.core.process import synchronise
from joulelab.errors import ConfigError
from joulelab.tracing.calls import Call, tensors_in
from joulelab.tracing.operators import Describer, Storages
from joulelab.tracing.program import ALL_REDUCE, Operator
from joulelab.tracing.recorder import ModulePath, Recorder
from joulelab.workloads import accelerator
from joulelab.workloads.base import Workload
from joulelab.workloads.generation import Generation
from joulelab.workloads.network import TorchWorkload
from joulelab.workloads.network_cost import Loop
from joulelab.workloads.program import Program

MARK = "joulelab-call-"
IN_A_ROW = 6
"""Executions of a profile: one that warms up, and those that are timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLike:
    """What is needed to make a tensor like one that was passed in."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    # Whether it was there before the program ran, as weights and caches of keys: the GPU's own
    # cache has seen all of them since.
    is_cold: bool
    data: torch.Tensor | None = None  # a sample of what it holds; None where that was not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call of an operator that launches kernels."""

    operator: Operator
    kernel: str
    function: torch._ops.OpOverload  # what PyTorch calls
    # Its arguments, tensors as TensorLike; empty unless they were asked for. Of calls of one
    # signature, the first keeps data.
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A phase's program, to be run once or some times."""

    # Runs it once; the device may still work when it returns. It may be run IN_A_ROW times
    # after a reset.
    once: Callable[[], object]
    whole: Callable[[], object]  # runs the phase
    executions: int = 1  # how often a phase runs it
    work: float = 1.0  # units of work of one execution
    # Brings the state to where a late execution finds it.
    reset: Callable[[], object] = lambda: None
    network: torch.nn.Module | None = None  # its modules; None where it has none of its own
    around: Callable[[], Any] = nullcontext  # what is entered around it


def steps_of(workload: Workload[Any], phase: str) -> Steps:
    """Return the program of a phase of a workload that is prepared on this process's GPU.

    Raises ConfigError if it runs nothing in this process that can be followed.
    """
    if isinstance(workload, Program) and workload.call is not None:
        work = workload.request.size  # of its one phase
        return Steps(once=workload.call, whole=workload.call, work=work)
    if not isinstance(workload, TorchWorkload) or not workload.prepared_programs:
        raise ConfigError(
            f"{type(workload).__name__} runs no program of PyTorch in this process, so its calls "
            "cannot be followed."
        )
    steps = _of_program(workload, phase)
    whole = workload.executions(phase) * workload.work(phase)
    return replace(steps, work=whole / steps.executions)


def _of_program(workload: TorchWorkload[Any], phase: str) -> Steps:
    program = workload.prepared_programs[phase]
    around = partial(
        accelerator.computing,
        workload.settings.precision,
        gradients=phase in workload.training_phases,
    )
    shared: dict[str, Any] = {"network": workload.prepared_network, "around": around}
    if isinstance(program, Loop):
        return _of_loop(program, workload.executions(phase), shared)
    generation = getattr(program, "__self__", None)
    if phase == "decode" and isinstance(generation, Generation):
        return _decode(generation, workload.settings.new_tokens, shared)
    executions = workload.executions(phase)
    return Steps(once=program, whole=program, executions=executions, **shared)


def _of_loop(loop: Loop, times: int, shared: Mapping[str, Any]) -> Steps:
    """Return the last steps of a loop, one after the other: their state is that of a row."""
    index = 0

    def reset() -> None:
        nonlocal index
        index = max(0, loop.num_steps - IN_A_ROW)
        loop.skip_to(index)

    def once() -> None:
        nonlocal index
        if index == loop.num_steps:
            reset()
        loop.step(index)
        index += 1

    return Steps(once=once, whole=loop, executions=loop.num_steps * times, reset=reset, **shared)


def _decode(generation: Generation, new_tokens: int, shared: Mapping[str, Any]) -> Steps:
    middle = new_tokens // 2

    def reset() -> None:
        generation.rewind()
        if middle:
            generation.lengthen(middle)

    return Steps(
        once=lambda: generation.step(middle),
        whole=generation.decode,
        executions=new_tokens,
        reset=reset,
        **shared,
    )


class CallRecorder(Recorder):  # type: ignore[no-untyped-call]
    """Records every call that launches kernels, and marks it for the profiler.

    ``network`` names the modules; ``with_data`` looks at what tensors hold, which waits for the
    device.
    """

    def __init__(self, network: torch.nn.Module | None, *, with_data: bool) -> None:
        storages = Storages()
        parameters = [] if network is None else [*network.parameters(), *network.buffers()]
        storages.declare(parameters, "parameter")
        describer = Describer(
            storages,
            tf32_matmul=torch.get_float32_matmul_precision() != "highest",
            tf32_conv=torch.backends.cudnn.allow_tf32,
        )
        super().__init__(storages, ModulePath(network), describer)
        self._with_data = with_data
        self._device_type = accelerator.select_device().type
        self._number = 0
        self._seen: set[str] = set()
        self.calls: dict[int, RecordedCall] = {}

    @override
    def _surroundings(self) -> tuple[AbstractContextManager[object], ...]:
        return (cache_regions(),)

    @override
    def _unfused(self, func: torch._ops.OpOverload, args: Sequence[Any]) -> None:
        """Return nothing: the device makes its own choices."""

    @override
    def _called(
        self,
        func: torch._ops.OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        module: str,
    ) -> object:
        number = self._number
        self._number += 1
        # Looked at before the call changes any of it.
        given = self._likes(func, (tuple(args), dict(kwargs)))
        with record_function(f"{MARK}{number}"):
            result = func(*args, **kwargs)
        call = Call(operator=func, args=args, kwargs=kwargs, result=result)
        for tensor in tensors_in(result):
            self._storages.of(tensor, "made")
        if not call.launches_nothing and self._is_on_device(call):
            operator = self._describer.operator(call, module=module, stage=self._stage)
            self._keep(number, func, operator, *given)
        return result

    def _is_on_device(self, call: Call) -> bool:
        """Whether it works on the GPU, where there is one: constants are made on the host."""
        tensors = [*call.written, *(tensor for _, tensor in call.inputs)]
        return any(each.device.type == self._device_type for each in tensors)

    def _keep(
        self,
        number: int,
        func: torch._ops.OpOverload,
        operator: Operator,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        if func.namespace == "c10d" and "allreduce" in operator.name:
            operator = replace(operator, name=ALL_REDUCE, kind="copy")
        signature = _signature(func, (args, kwargs))
        self.calls[number] = RecordedCall(
            operator=operator,
            kernel=kernel_name(operator, signature),
            function=func,
            args=args if self._with_data else (),
            kwargs=kwargs if self._with_data else None,
        )

    def _likes(self, func: torch._ops.OpOverload, given: Any) -> Any:
        """Return arguments with a TensorLike for each tensor, in a first call with its data."""
        likes = tree_map(self._like, given)
        signature = repr(_signature(func, likes))
        if not self._with_data or signature in self._seen:
            return likes
        self._seen.add(signature)
        return tree_map(lambda value: _with_data(self._like(value), value), given)

    def _like(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return TensorLike(
            shape=tuple(value.shape),
            stride=tuple(value.stride()),
            dtype=value.dtype,
            is_cold=self._storages.of(value).role != "made",
        )


def _with_data(like: Any, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return replace(like, data=sample_of(value))


def record(steps: Steps, *, with_data: bool) -> Mapping[int, RecordedCall]:
    """Run the steps of a phase once and return its calls by the number in their marks."""
    recorder = CallRecorder(steps.network, with_data=with_data)
    with steps.around():
        steps.reset()
        with recorder.recording():
            steps.once()
    synchronise()
    return recorder.calls


def _signature(func: torch._ops.OpOverload, likes: tuple[Any, Mapping[str, Any]]) -> object:
    args, kwargs = likes
    return str(func), tree_map(_shown, (args, sorted(kwargs.items())))


def _shown(value: Any) -> Any:
    """Return a value without what differs from call to call of one kernel."""
    if isinstance(value, TensorLike):
        return value.shape, value.stride, str(value.dtype), value.is_cold
    return str(value)
