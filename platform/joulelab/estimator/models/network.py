"""A model that is one network, called once per batch."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Traced
from joulelab.estimator.models.fake_trace import cast, fake_run, shapes_of, torch_dtype
from joulelab.estimator.program import Program, ProgramPhase
from joulelab.estimator.tracing.building import fake_network
from joulelab.estimator.tracing.trace import trace_program
from joulelab.estimator.tracing.training import trace_training

Inputs = Mapping[str, torch.Tensor]
Call = Callable[[Any, Inputs], object]


def call_in_order(network: Any, inputs: Inputs) -> object:
    """Call ``network`` with ``inputs`` by position."""
    return network(*inputs.values())


def call_by_name(network: Any, inputs: Inputs) -> object:
    """Call ``network`` with ``inputs`` by name."""
    return network(**inputs)


def one(knobs: Knobs) -> float:
    """Return the work of a sample that counts once."""
    del knobs
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkModel(Model):
    """One network, called once per batch.

    Attributes:
        title: Its name, for messages.
        unit: What a sample is.
        knobs: What can be chosen, with defaults.
        build: Makes the network.
        make_inputs: Makes a batch of inputs, by name.
        call: Calls the network with them.
        work_per_sample: Units of work of one sample.
        around: What must be entered around a trace.
        untrainable: Why no training step can be traced; empty if it can.
    """

    title: str
    unit: str
    knobs: Knobs
    build: Callable[[Knobs], torch.nn.Module]
    make_inputs: Callable[[int, Knobs], Inputs]
    call: Call = call_in_order
    work_per_sample: Callable[[Knobs], float] = one
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)
    untrainable: str = ""

    @override
    def trace(self, request: Request) -> Traced:
        if request.training and self.untrainable:
            raise ConfigError(f"No training step of {self.title} is traced: {self.untrainable}.")
        dtype = torch_dtype(request.dtype)
        with fake_run(self.title):
            network = fake_network(lambda: self.build(request.knobs), dtype)
            inputs = cast(self.make_inputs(request.batch, request.knobs), dtype)
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
