"""The estimator in one call: names in, estimates out.

``import joulelab.estimator as estimator`` and
``estimator.estimate("resnet50", device="h100", precision="fp16", batch=8)``.
"""

from dataclasses import dataclass, replace

from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, UnknownNameError, UserCodeError
from joulelab.estimator.estimate import Estimate, HostRange, Mode
from joulelab.estimator.pricing import predict
from joulelab.estimator.pricing.memory import MemoryEstimate, largest_batch, memory
from joulelab.estimator.question import Cell, Combination, Progress, Question, Tracer
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import FASTEST, HOSTS, SLOWEST, find_host, on_host, slowed
from joulelab.tracing.precision import at_precision
from joulelab.tracing.program import TracedModel

_MAX_TRACES = 4
_FASTER, _SLOWER = 1.2, 1.6
"""Factors to which nine of ten programs come below what calls take on the fastest host, and above
on the slowest: of 49 that the factors of hosts are fitted to, nine of ten are within 1.2; on cores
that others share, 14 of them took up to 1.43 times what their calls do there."""
_LAUNCH_SHARE = 0.1
"""Share of the time that launches set, from which it is said what other hosts would make of it."""


def estimate(
    model: str,
    *,
    device: str,
    precision: str | None = None,
    batch: int = 1,
    mode: Mode = "eager",
    clock_mhz: int | None = None,
    power_limit_w: float | None = None,
    num_devices: int = 1,
    training: bool = False,
    host: str | None = None,
    calibration: str | None = None,
    events: bool = False,
    strict: bool = False,
    **knobs: KnobValue,
) -> Estimate:
    """Predict what a model costs on a device; nothing is run on it.

    Args:
        model: E.g. ``"resnet50"``, ``"timm:vit_base_patch16_224"``, ``"hf:llama?hidden_size=4096"``
            or ``"path.py:Class"``, which is executed.
        device: A catalogue key or an alias, e.g. ``"h100"``.
        precision: Number format; ``None`` takes the usual one of the device.
        batch: Samples per execution.
        mode: How kernels are launched.
        clock_mhz: Core clock; ``None`` for the default.
        power_limit_w: Power limit; ``None`` for the default.
        num_devices: Processors that share the model by tensor parallelism.
        training: Whether to take a training step instead of inference.
        host: Host that launches the kernels: a name in the catalogue, or a file that
            ``joulelab calibrate --host`` wrote; ``None`` takes the typical one and gives a range.
        calibration: File that ``joulelab calibrate --board`` wrote, of whose board and host figures
            are taken; ``None`` takes the catalogue's.
        events: Whether to break energies down to architectural events.
        strict: Whether an operator without a cost formula is an error.
        knobs: Settings of the model, such as ``prompt_tokens=512``.

    Raises:
        UnknownNameError: If there is no such model, device, precision or mode.
        ConfigError: If the model cannot be traced, or the device lacks what was asked for.
    """
    question = Question(
        models=(model,),
        devices=(device,),
        precisions=() if precision is None else (precision,),
        batches=(batch,),
        mode=mode,
        point=OperatingPoint(sm_clock_mhz=clock_mhz, power_limit_w=power_limit_w),
        num_devices=num_devices,
        training=training,
        host=host,
        calibration=calibration,
        knobs=knobs,
        events=events,
        strict=strict,
    )
    (combination,) = question.combinations()
    return _predict(question, Tracer(question), combination)


def matrix(question: Question, *, progress: Progress | None = None) -> tuple[Cell, ...]:
    """Predict every combination; one that a device cannot do says why instead.

    Raises UnknownNameError if a name is not known, ConfigError if no combination has an answer, or,
    in strict mode, one has none.
    """
    tracer = Tracer(question, progress)
    cells = tuple(_cell(question, tracer, each) for each in question.combinations())
    if all(cell.estimate is None for cell in cells):
        raise ConfigError(cells[0].problem)
    return cells


def _cell(question: Question, tracer: Tracer, combination: Combination) -> Cell:
    found, problem = None, ""
    try:
        found = _predict(question, tracer, combination)
    except (UnknownNameError, UserCodeError):
        raise
    except ConfigError as error:
        if question.strict:
            raise
        problem = str(error)
    return Cell(
        model=combination.model,
        processor=combination.processor,
        precision=combination.precision,
        batch=combination.batch,
        estimate=found,
        problem=problem,
    )


def _predict(question: Question, tracer: Tracer, combination: Combination) -> Estimate:
    knows_host = question.known_host is not None
    found = predict.estimate(
        tracer.of(combination),
        combination.processor,
        mode=question.mode,
        point=question.point,
        num_devices=question.num_devices,
        knows_host=knows_host,
        events=question.events,
        strict=question.strict,
    )
    if question.calibration is not None:
        note = f"{found.confidence.note}; before this board's own figures were taken"
        found = replace(found, confidence=replace(found.confidence, note=note))
    if found.launch_share > _LAUNCH_SHARE and found.mode == "eager":
        found = replace(found, host_range=_host_range(question, tracer, combination))
    return found


def _host_range(question: Question, tracer: Tracer, combination: Combination) -> HostRange | None:
    """Return what it takes behind the fastest known host and the slowest; ``None`` with its own.

    Behind a measured host: on cores to itself, and while other work slows them.
    """
    known = None if question.known_host is None else find_host(question.known_host)
    if known is None:
        hosts, faster, slower = (HOSTS[FASTEST], HOSTS[SLOWEST]), _FASTER, _SLOWER
    elif known.disturbed is None:
        return None
    else:
        hosts, faster, slower = (known, slowed(known)), 1.0, 1.0
    ends = [on_host(combination.processor, host) for host in hosts]
    if ends[0] is combination.processor:
        return None
    found = predict.totals(
        tracer.of(combination),
        ends,
        mode=question.mode,
        points=(question.point,),
        num_devices=question.num_devices,
    )
    (low_s, high_s), (low_j, high_j) = found.total_latency_s[:, 0], found.total_energy_j[:, 0]
    return HostRange(
        latency_s=(low_s / faster, high_s * slower),
        energy_j=(low_j / faster, high_j * slower),
        disturbed=None if known is None else known.disturbed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Combination):
    """The memory of a combination.

    Attributes:
        largest_batch: Largest batch that fits; 0 if none does, ``None`` if memory sets no limit.
    """

    phases: dict[str, MemoryEstimate]
    largest_batch: int | None = None

    @property
    def worst_phase(self) -> str:
        """The phase that needs most memory."""
        return max(self.phases, key=lambda name: self.phases[name].peak_b)

    @property
    def worst(self) -> MemoryEstimate:
        """Memory of the phase that needs most."""
        return self.phases[self.worst_phase]


def fits(question: Question, *, progress: Progress) -> tuple[Fit, ...]:
    """Return the memory of every combination of ``question``, and the largest batch that fits."""
    tracer = Tracer(question, progress)
    most: dict[tuple[str, str, str], int | None] = {}
    found = []
    for each in question.combinations():
        traced = tracer.of(each)
        key = (each.model, each.processor.key, each.precision)
        if key not in most:
            most[key] = _largest(tracer, each)
        fit = Fit(
            model=each.model,
            processor=each.processor,
            precision=each.precision,
            batch=each.batch,
            phases=phases_memory(traced, each.processor),
            largest_batch=most[key],
        )
        found.append(fit)
    return tuple(found)


def phases_memory(traced: TracedModel, processor: Processor) -> dict[str, MemoryEstimate]:
    """Return the memory of each phase of ``traced``."""
    return {
        phase.phase: memory(at_precision(phase.program, traced.precision), processor)
        for phase in traced.phases
    }


def _largest(tracer: Tracer, asked: Combination) -> int | None:
    """Extrapolate from two batches, and again from what was found, until a trace agrees."""

    def worst(batch: int) -> MemoryEstimate:
        found = phases_memory(tracer.of(replace(asked, batch=batch)), asked.processor)
        return max(found.values(), key=lambda one: one.peak_b)

    first, other = worst(1), 2
    guess = largest_batch(first, worst(2))
    for _ in range(_MAX_TRACES):
        if guess is None or guess <= 1 or guess == other:
            break
        other = guess
        guess = largest_batch(first, worst(other), batches=(1, other))
    return guess
