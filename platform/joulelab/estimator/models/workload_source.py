"""The programs whose energy is measured, as models.

Imports torch only when a workload is traced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import gcd
from typing import Any, ClassVar

from typing_extensions import override

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Source, Traced
from joulelab.tracing.precision import dtype_on
from joulelab.tracing.program import Kind, Operator, Program, ProgramPhase
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.launch_loop import LaunchLoop
from joulelab.workloads.network import NetworkWorkload

_PRECISIONS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_CHOSEN_BY_REQUEST = ("batch", "precision")


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
        workload = self.workload_type.from_knobs({**request.knobs, **self._chosen(request)})
        if isinstance(workload, LaunchLoop):
            return Traced(phases=(_traced_loop(workload, self.name),), inputs={})
        if isinstance(workload, LanguageWorkload):
            from joulelab.estimator.models.language import trace_language

            return trace_language(workload)
        if isinstance(workload, NetworkWorkload) and type(workload).cost is NetworkWorkload.cost:
            return Traced(phases=workload.traced(), inputs={})
        cost = workload.cost()
        if not any(phase.kernels for phase in cost.phases):
            raise ConfigError(f"The workload {self.name} computes nothing that can be estimated.")
        phases = tuple(_phase(phase, cost.resident_b, request.precision) for phase in cost.phases)
        return Traced(phases=phases, inputs={})

    def _chosen(self, request: Request) -> Mapping[str, Any]:
        precision = request.precision or _PRECISIONS.get(request.dtype)
        choices = {"batch": request.batch, "precision": precision}
        known = {field.name for field in fields(self.workload_type.settings_type)}
        if "batch" not in known and request.batch != 1:
            raise ConfigError(f"The workload {self.name} has no batch; ask for batch 1.")
        return {knob: value for knob, value in choices.items() if knob in known}


def _traced_loop(workload: LaunchLoop[Any], name: str) -> ProgramPhase:
    from joulelab.estimator.models.network import fake_run
    from joulelab.tracing.trace import trace_program

    settings = workload.settings
    with fake_run(name):
        program = trace_program(workload.program("cpu"))
    return ProgramPhase(
        phase=settings.phase,
        work=settings.work_per_launch * settings.num_launches,
        program=program,
        count=settings.num_launches,
    )


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
