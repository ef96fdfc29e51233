"""Programs as models: the workloads whose energy is measured, and networks of a user's own file."""

import inspect
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import gcd
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import torch
from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Source, Traced
from joulelab.estimator.models.network import (
    Inputs,
    NetworkModel,
    call_by_name,
    call_in_order,
    shapes_of,
)
from joulelab.registry import unknown_name
from joulelab.tracing.precision import dtype_on
from joulelab.tracing.program import Kind, Operator, Program, ProgramPhase
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.launch_loop import LaunchLoop
from joulelab.workloads.network import NetworkWorkload, TorchWorkload
from joulelab.workloads.programs import executed, guarded

_MAKERS = ("example_inputs", "make_inputs")
_HOW = (
    "Name a function of the file that takes the batch size and returns a tensor, a tuple of "
    "tensors or a dict of them: path.py:Class:function; or define it as `example_inputs(batch)` "
    "of the class or of the file."
)


class FileSource(Source):
    """``PATH.py:CLASS`` or ``PATH.py:CLASS:FUNCTION``; finding one executes the file.

    The class is a ``torch.nn.Module`` that can be made without arguments; those that have plain
    defaults become knobs. An attribute ``unit`` names a sample, by default ``"sample"``. What it
    compiles itself is taken as it is written: the mode of an estimate says how kernels are made.
    """

    @override
    def names(self) -> Sequence[str]:
        return ()

    @override
    def find(self, name: str) -> Model:
        stem, _, rest = name.partition(".py:")
        path = Path(f"{stem}.py").expanduser()
        if not path.is_file():
            raise ConfigError(f"There is no file {path}.")
        class_name, _, function = rest.partition(":")
        ensure_torchvision()
        module = executed(path)
        network_type = _member(module, class_name, path)
        if not (isinstance(network_type, type) and issubclass(network_type, torch.nn.Module)):
            raise ConfigError(f"{class_name} of {path} must be a torch.nn.Module.")
        maker = _maker(module, network_type, function, path)
        return NetworkModel(
            title=f"{path.name}:{class_name}",
            unit=str(getattr(network_type, "unit", "sample")),
            knobs=_plain_arguments(network_type),
            build=lambda knobs: guarded(path, lambda: network_type(**knobs)),
            make_inputs=lambda batch, _: _inputs(path, maker, batch, name),
            call=lambda network, inputs: guarded(path, lambda: _call(network, inputs)),
            around=_uncompiled,
        )


@contextmanager
def _uncompiled() -> Generator[None]:
    """Run what ``torch.compile`` made in a ``with`` block as it was written."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and importing it takes seconds
        yield
        return
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        warnings.filterwarnings("ignore", ".*global hooks on modules")  # those of the tracer
        yield


def _member(module: ModuleType, name: str, path: Path) -> Any:
    if not name or not hasattr(module, name):
        known = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        raise unknown_name(f"class of {path}", name, known)
    return getattr(module, name)


def _maker(
    module: ModuleType, network_type: type[torch.nn.Module], function: str, path: Path
) -> Callable[[int], Any]:
    places = (module, network_type) if function else (network_type, module)
    for place in places:
        for name in (function,) if function else _MAKERS:
            maker = getattr(place, name, None)
            if callable(maker):
                return maker  # type: ignore[no-any-return]
    missing = f"no {function!r}" if function else "no example_inputs"
    raise ConfigError(f"{path} has {missing}. {_HOW}")


def _inputs(path: Path, maker: Callable[[int], Any], batch: int, name: str) -> Inputs:
    """Return inputs of ``batch`` samples; ConfigError if they are those of one sample."""
    made = _named(guarded(path, lambda: maker(batch)), name)
    one = _named(guarded(path, lambda: maker(1)), name)
    if batch > 1 and made and shapes_of(made) == shapes_of(one):
        raise ConfigError(
            f"The inputs of {name} must be of as many samples as asked for, got the same shapes "
            f"({', '.join(shapes_of(made).values())}) for 1 and for {batch}: make them of `batch` "
            "samples."
        )
    return made


def _named(made: object, name: str) -> Inputs:
    """Return inputs by name: those of a dict by its keys, others by their position."""
    if isinstance(made, torch.Tensor):
        made = (made,)
    if isinstance(made, Mapping) and all(isinstance(each, torch.Tensor) for each in made.values()):
        return dict(made)
    if isinstance(made, tuple | list) and all(isinstance(each, torch.Tensor) for each in made):
        return {str(index): tensor for index, tensor in enumerate(made)}
    raise ConfigError(f"The inputs of {name} are a {type(made).__name__}. {_HOW}")


def _call(network: Any, inputs: Inputs) -> object:
    by_position = all(name.isdecimal() for name in inputs)
    return call_in_order(network, inputs) if by_position else call_by_name(network, inputs)


def _plain_arguments(network_type: type[torch.nn.Module]) -> Knobs:
    knobs: dict[str, KnobValue] = {}
    for name, parameter in inspect.signature(network_type).parameters.items():
        default = parameter.default
        if default is None or isinstance(default, str | int | float | bool):
            knobs[name] = default
    return knobs


_PRECISIONS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_CHOSEN_BY_REQUEST = ("batch", "precision")
_OF_TRACES = (TorchWorkload.cost, LaunchLoop.cost)
"""How workloads count their cost that are traced themselves."""


class WorkloadSource(Source):
    """Every registered workload; its knobs are its own settings."""

    @override
    def names(self) -> Sequence[str]:
        return tuple(sorted(WORKLOADS))

    @override
    def find(self, name: str) -> Model:
        return WorkloadModel(name=name, workload_type=WORKLOADS[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadModel(Model):
    """One workload.

    Launch loops and networks are traced themselves. Of a workload that counts its cost in a way of
    its own that is taken: kernels without the values that flow between them, and with all bytes as
    read.
    """

    halves_alike: ClassVar[bool] = False  # a workload may count its work by format
    name: str
    workload_type: type[Workload[Any]]

    @property
    @override
    def unit(self) -> str:
        return self.workload_type.unit

    @property
    @override
    def knobs(self) -> Knobs:
        try:
            settings = self.workload_type.settings_type()
        except TypeError as error:
            raise ConfigError(f"The workload {self.name} cannot be estimated: {error}.") from error
        known = asdict(settings)
        return {knob: value for knob, value in known.items() if knob not in _CHOSEN_BY_REQUEST}

    @property
    @override
    def quantises(self) -> bool:
        return issubclass(self.workload_type, NetworkWorkload)

    @override
    def trace(self, request: Request) -> Traced:
        if request.training:
            raise ConfigError(f"The workload {self.name} has no training step.")
        precision = request.precision or _PRECISIONS.get(request.dtype)
        choices = {"batch": request.batch, "precision": precision}
        known = {field.name for field in fields(self.workload_type.settings_type)}
        if "batch" not in known and request.batch != 1:
            raise ConfigError(f"The workload {self.name} has no batch; ask for batch 1.")
        chosen = {knob: value for knob, value in choices.items() if knob in known}
        workload = self.workload_type.from_knobs({**request.knobs, **chosen})
        if isinstance(workload, LanguageWorkload):
            from joulelab.estimator.models.language import trace_language

            return trace_language(workload)
        if isinstance(workload, TorchWorkload) and type(workload).cost in _OF_TRACES:
            return Traced(phases=workload.traced(), inputs={})
        cost = workload.cost()
        if not any(phase.kernels for phase in cost.phases):
            raise ConfigError(f"The workload {self.name} computes nothing that can be estimated.")
        phases = tuple(_phase(phase, cost.resident_b, request.precision) for phase in cost.phases)
        return Traced(phases=phases, inputs={})


def _phase(phase: PhaseCost, resident_b: float, precision: str) -> ProgramPhase:
    times = gcd(*(kernel.count for kernel in phase.kernels))
    launches = (kernel for kernel in phase.kernels for _ in range(kernel.count // times))
    operators = tuple(_operator(kernel, index) for index, kernel in enumerate(launches))
    return ProgramPhase(
        phase=phase.phase,
        work=phase.work,
        program=Program(
            operators=operators,
            parameter_b=resident_b,
            live_b=(0.0,) * len(operators),
            precision=precision,
        ),
        count=times,
    )


def _operator(kernel: KernelCost, index: int) -> Operator:
    kind: Kind = kernel.name  # type: ignore[assignment]  # a kernel is named after its kind
    return Operator(
        name=kernel.name,
        kind=kind,
        pipe=kernel.pipe,
        dtype=dtype_on(kernel.pipe),
        flop=kernel.flop,
        read_b=kernel.dram_b,
        weight_b=0.0,
        written_b=0.0,
        inputs=(2 * index,),
        inputs_b=(kernel.dram_b,),
        outputs=(2 * index + 1,),
        outputs_b=(0.0,),
    )
