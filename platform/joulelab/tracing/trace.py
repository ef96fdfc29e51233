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

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.core.cost import KernelCost
from joulelab.errors import ConfigError
from joulelab.tracing.gpu_choices import replaced
from joulelab.tracing.kernels import kernels_of
from joulelab.tracing.operators import Describer, Storages, tensors_held
from joulelab.tracing.program import Program
from joulelab.tracing.recorder import ModulePath, Recorder


@contextmanager
def fake_tensors() -> Generator[None]:
    """Give tensors made in a ``with`` block no memory, and keep no gradients."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.cache_enabled = False  # from it, results that share a storage come back apart
    with nothing_remembered(), mode, torch.no_grad():
        yield


def trace(
    program: Callable[[], object], *, tf32_matmul: bool = False, tf32_conv: bool = True
) -> tuple[KernelCost, ...]:
    """Run ``program`` and return its kernels in order; ConfigError if one has no FLOP formula."""
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

    Stages are recognised: what autograd's engine runs is backward, what an optimizer's ``step``
    runs is optimizer. Raises ConfigError if a shape depends on values that fake tensors do not
    have; or, if ``strict``, naming every operator without a formula.

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
    """
    storages = Storages()
    parameters = [] if network is None else [*network.parameters(), *network.buffers()]
    storages.declare(parameters, "parameter")
    optimizer_b = storages.declare(tensors_held(optimizer and optimizer.state), "state")
    kv_b = storages.declare(tensors_held(kv), "input")
    storages.declare(tensors_held(inputs), "input")
    describer = Describer(storages, tf32_matmul=tf32_matmul, tf32_conv=tf32_conv)
    recorder = Recorder(storages, ModulePath(network), describer)
    with torch.set_grad_enabled(gradients), nothing_remembered(), recorder.recording():
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
            f"Matrix work cannot be counted: {named}. Add a formula to joulelab.tracing.work."
        )


Network = TypeVar("Network", bound=torch.nn.Module)


def fake_network(build: Callable[[], Network], dtype: torch.dtype | None = None) -> Network:
    """Return the network that ``build`` makes, with fake tensors for all that it holds.

    If the constructor reads values, which meta tensors do not have, it is called again and the
    network built for real on the CPU, but for random numbers: memory that is to be filled with them
    is left as it is, which takes neither time nor, from most systems, room.
    ``dtype`` is that of floating-point parameters and buffers; ``None`` leaves them as built.
    Raises ConfigError if called outside of :func:`joulelab.tracing.trace.fake_tensors`.
    """
    with unset_fake_temporarily() as mode:
        if not isinstance(mode, FakeTensorMode):
            raise ConfigError("fake_network must be called in a `with fake_tensors():` block.")
        network = _built(build)
        if dtype is not None:
            network.to(dtype)
        _make_fake(network, mode)
    return network


def _built(build: Callable[[], Network]) -> Network:
    try:
        with torch.device("meta"), _Unfilled():  # type: ignore[no-untyped-call]
            return build()
    except (NotImplementedError, RuntimeError):  # what meta tensors raise when they are read
        with _Unfilled():  # type: ignore[no-untyped-call]
            return build()


class _Unfilled(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Leaves tensors that are filled with random numbers, as weights are, as they were made."""

    _fills = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)

    @classmethod
    @override
    def _should_skip_dynamo(cls) -> bool:
        """Take calls as they are: a compiler that must keep out is asked at each of them."""
        return False

    @override
    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return args[0] if func in self._fills else func(*args, **(kwargs or {}))


def _make_fake(network: torch.nn.Module, mode: FakeTensorMode) -> None:
    """Replace every tensor that ``network`` holds, one that is held twice by one tensor."""
    fakes: dict[int, torch.Tensor] = {}

    def fake(value: Any) -> Any:
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(fake(element) for element in value)
        if not isinstance(value, torch.Tensor) or is_lazy(value):
            return value
        if id(value) not in fakes:
            fakes[id(value)] = _fake(value, mode)
        return fakes[id(value)]

    for module in network.modules():
        for held in (module._parameters, module._buffers, vars(module)):  # noqa: SLF001
            held.update({name: fake(value) for name, value in held.items()})


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    made = FakeTensor(mode, torch.empty_like(tensor, device="meta"), torch.device("cpu"))
    if isinstance(tensor, torch.nn.Parameter):
        made.requires_grad_(tensor.requires_grad)
        made._is_param = True  # noqa: SLF001  # as Parameter() marks a copy of a subclass
    return made


def nothing_remembered() -> AbstractContextManager[None]:
    """Let networks of transformers compute everything anew in a block, as while compiled."""
    remembering = sys.modules.get("transformers.pytorch_utils")
    if remembering is None:
        return nullcontext()
    return replaced(remembering, "is_torchdynamo_compiling", lambda: True)


class TrainingStep:
    """A step of training that can be run and traced: forward, backward, the step of AdamW.

    That runs as PyTorch runs it on a GPU by default: over lists of tensors ("foreach").
    Arguments are as for :func:`trace_training`; the optimizer's state is made by the first step.
    Raises ConfigError if no parameter requires gradients.
    """

    def __init__(self, forward: Callable[[], object], *, network: torch.nn.Module) -> None:
        parameters = [each for each in network.parameters() if each.requires_grad]
        if not parameters:
            raise ConfigError("network must have a parameter that requires gradients; it has none.")
        self.optimizer = torch.optim.AdamW(parameters, foreach=True)
        self._forward = forward

    def __call__(self) -> None:
        """Train once; gradients must be enabled."""
        self.optimizer.zero_grad()  # frees those of the step before
        output = self._forward()  # kept to the end, as training loops do
        _loss(output).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def trace_training(
    forward: Callable[[], object],
    *,
    network: torch.nn.Module,
    inputs: object = (),
    tf32_matmul: bool = False,
    tf32_conv: bool = True,
    strict: bool = False,
) -> Program:
    """Trace one step of training in the steady state: the optimizer's state exists already.

    ``forward`` calls the network, which must be in training mode; gradients are those of the
    ``loss`` in what it returns, or without one, of the sum of all that it returns. The parameters
    of ``network`` that require gradients are trained. The rest is as for
    :func:`joulelab.tracing.trace.trace_program`. Raises ConfigError as there; and if no parameter
    requires gradients, or nothing that ``forward`` returns depends on one.
    """
    step = TrainingStep(forward, network=network)
    _fill_state(step.optimizer, network)
    try:
        return trace_program(
            step,
            network=network,
            inputs=inputs,
            optimizer=step.optimizer,
            gradients=True,
            tf32_matmul=tf32_matmul,
            tf32_conv=tf32_conv,
            strict=strict,
        )
    finally:
        step.optimizer.zero_grad()


def _fill_state(optimizer: torch.optim.Optimizer, network: torch.nn.Module) -> None:
    for parameter in network.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


def _loss(output: object) -> torch.Tensor:
    loss = getattr(output, "loss", None)
    sums = [
        tensor.sum()
        for tensor in _tensors(output if loss is None else loss)
        if tensor.requires_grad and tensor.is_floating_point()
    ]
    if not sums:
        raise ConfigError("forward must return a tensor that depends on a trained parameter.")
    return sum(sums[1:], start=sums[0])


def _tensors(output: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in a nest of containers; objects such as caches are no outputs."""
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, Mapping):
        yield from _tensors(list(output.values()))
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _tensors(part)
