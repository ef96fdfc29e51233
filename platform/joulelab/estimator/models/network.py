"""Trace a network on fake tensors, say why if that is impossible, and change it to save memory."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Traced
from joulelab.tracing.program import Program, ProgramPhase
from joulelab.tracing.trace import fake_network, fake_tensors, trace_program, trace_training

_UNSUITABLE = (RuntimeError, AssertionError, ValueError)
"""What networks raise on inputs of a shape or type that they were not made for."""

_DATA_DEPENDENT = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


@contextmanager
def fake_run(title: str) -> Generator[None]:
    """Run a block on fake tensors; ConfigError if it needs their values or refuses its inputs."""
    try:
        with fake_tensors():
            yield
    except ConfigError:
        raise
    except _DATA_DEPENDENT as error:
        operator = getattr(error, "func", None) or error
        raise ConfigError(
            f"{title} cannot be traced: its shapes or its course depend on the values of its data "
            f"({operator}), and a trace has shapes without values. Trace the part before or after."
        ) from error
    except _UNSUITABLE as error:
        reason = str(error) or type(error).__name__
        raise ConfigError(f"{title} cannot be traced so: {reason}") from error


class GroupedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets fake grouped products, of experts, have any number format; PyTorch's take bfloat16."""

    @override
    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        if func.overloadpacket is not torch.ops.aten._grouped_mm:  # noqa: SLF001
            return func(*args, **(kwargs or {}))
        a, b = args[:2]
        if a.dim() == b.dim() == 2:  # groups along the summed axis, as in a backward pass
            num_groups = (kwargs or {}).get("offs", args[-1]).shape[0]
            return a.new_empty((num_groups, a.shape[0], b.shape[1]))
        return a.new_empty((*a.shape[:-1], b.shape[-1]))


def shape_text(tensor: torch.Tensor) -> str:
    """Return the shape for people, ``"8x3x224x224"``."""
    return "x".join(str(int(size)) for size in tensor.shape) or "1"


def shapes_of(inputs: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the shapes of ``inputs`` for people."""
    return {name: shape_text(tensor) for name, tensor in inputs.items()}


Inputs = Mapping[str, torch.Tensor]
Call = Callable[[Any, Inputs], object]


def call_in_order(network: Any, inputs: Inputs) -> object:
    """Call ``network`` with ``inputs`` by position."""
    return network(*inputs.values())


def call_by_name(network: Any, inputs: Inputs) -> object:
    """Call ``network`` with ``inputs`` by name."""
    return network(**inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkModel(Model):
    """One network, called once per batch."""

    title: str
    unit: str
    knobs: Knobs
    build: Callable[[Knobs], torch.nn.Module]
    make_inputs: Callable[[int, Knobs], Inputs]
    call: Call = call_in_order
    work_per_sample: Callable[[Knobs], float] = lambda _: 1.0  # units of work of one sample
    # What must be entered around a trace.
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)
    untrainable: str = ""  # why no training step can be traced; empty if it can

    def built(self, knobs: Knobs) -> torch.nn.Module:
        """Return the network; channels of a pixel adjacent if the knob ``channels_last`` is set."""
        network: Any = self.build(knobs)
        if knobs.get("channels_last"):
            network.to(memory_format=torch.channels_last)
        return network  # type: ignore[no-any-return]

    def inputs(self, batch: int, knobs: Knobs) -> Inputs:
        """Return inputs of a call, images in the network's own order."""
        inputs = self.make_inputs(batch, knobs)
        if not knobs.get("channels_last"):
            return inputs
        return {
            name: each.to(memory_format=torch.channels_last) if each.dim() == 4 else each
            for name, each in inputs.items()
        }

    @override
    def trace(self, request: Request) -> Traced:
        if request.training and self.untrainable:
            raise ConfigError(f"No training step of {self.title} is traced: {self.untrainable}.")
        dtype = getattr(torch, request.dtype)
        with fake_run(self.title):
            network = fake_network(lambda: self.built(request.knobs), dtype)
            if request.remedy:
                REMEDIES[request.remedy](network)
            inputs = {
                name: tensor.to(dtype) if tensor.is_floating_point() else tensor
                for name, tensor in self.inputs(request.batch, request.knobs).items()
            }
            with self.around():
                program = self._program(network, inputs, training=request.training)
        phase = ProgramPhase(
            phase="train" if request.training else "forward",
            work=request.batch * self.work_per_sample(request.knobs),
            program=program,
        )
        return Traced(phases=(phase,), inputs=shapes_of(inputs))

    def _program(self, network: torch.nn.Module, inputs: Inputs, *, training: bool) -> Program:
        network.train(mode=training)
        passed = tuple(inputs.values())

        def call() -> object:
            return self.call(network, inputs)

        if training:
            return trace_training(call, network=network, inputs=passed)
        return trace_program(call, network=network, inputs=passed)


_LEAST_BLOCKS = 3


def _checkpointed(network: torch.nn.Module) -> None:
    """Have the blocks of each outermost list keep their inputs alone for the backward pass."""
    for block in _blocks(network):
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False
        )


def _blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    children = list(module.children())
    kinds = {type(child) for child in children}
    is_list = isinstance(module, torch.nn.ModuleList | torch.nn.Sequential)
    if (
        is_list
        and len(kinds) == 1
        and len(children) >= _LEAST_BLOCKS
        and any(children[0].children())
    ):
        return children
    return [block for child in children for block in _blocks(child)]


def _in_place(network: torch.nn.Module) -> None:
    for module in network.modules():
        if "inplace" in vars(module):
            vars(module)["inplace"] = True


REMEDIES = {"checkpointed": _checkpointed, "in-place": _in_place}
"""What is done to the network, by name."""
