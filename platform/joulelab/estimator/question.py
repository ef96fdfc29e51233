"""What is asked of the estimator: models, devices, formats, batches, also over core clocks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import get_args

from joulelab.core.bounds import check_range
from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import FUSING, Estimate, Mode
from joulelab.estimator.pricing import predict
from joulelab.estimator.pricing.power import requested
from joulelab.hardware.board_facts import read_board_facts
from joulelab.hardware.power_modes import find_processor
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import find_host, on_host
from joulelab.objectives import without_quality
from joulelab.registry import unknown_name
from joulelab.tracing.precision import PRECISIONS, check_precision, usual_precision
from joulelab.tracing.program import TracedModel

_NUM_CLOCKS = 56
_WORDS: Mapping[str, KnobValue] = {"true": True, "false": False, "none": None}
_MOST_SAMPLES, _MOST_DEVICES = 1_000_000, 100_000


Progress = Callable[[str], None]
"""Is given what is being done, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One of the combinations of a question."""

    model: str
    processor: Processor
    precision: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opportunity:
    """A change that is predicted to save energy."""

    title: str
    change: Mapping[str, str | int]  # ``mode``, ``batch``, ``precision`` or ``sm_clock_mhz``
    energy_saved: float  # share of the energy per unit of work that is saved, 0..1
    # Share of the time per unit of work that is saved; negative where the change costs time.
    time_saved: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Combination):
    """A combination with its answer, or why there is none."""

    estimate: Estimate | None = None
    problem: str = ""
    # What would save energy, the largest saving first, if it was looked for.
    opportunities: tuple[Opportunity, ...] = ()
    price: float | None = None  # of all its devices, in the user's currency, if it was given
    # Whether no other one compared is better in time, energy and price; None if not compared.
    on_front: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All combinations of models, devices, number formats and batch sizes."""

    models: tuple[str, ...]
    devices: tuple[str, ...]
    precisions: tuple[str, ...] = ()  # number formats; empty takes the usual one of each device
    batches: tuple[int, ...] = (1,)
    mode: Mode = "eager"  # how kernels are launched
    point: OperatingPoint = field(default_factory=OperatingPoint)  # clock and power limit
    num_devices: int = 1  # processors that share each model by tensor parallelism
    training: bool = False
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    # Host that launches kernels one by one: a name in the catalogue, or a file; None where it is
    # not known.
    host: str | None = None
    # File of ``joulelab calibrate --board``, whose board and host are taken; None for the
    # catalogue's.
    calibration: str | None = None
    events: bool = False  # whether to break energies down to architectural events
    strict: bool = False  # whether an operator without a cost formula is an error

    def __post_init__(self) -> None:
        for name in ("models", "devices", "batches"):
            if not getattr(self, name):
                raise ConfigError(f"{name} must name at least one.")
        for batch in self.batches:
            check_range("Samples of a batch", batch, 1, _MOST_SAMPLES)
        check_range("num_devices", self.num_devices, 1, _MOST_DEVICES)
        if self.mode not in get_args(Mode):
            raise unknown_name("mode", self.mode, get_args(Mode))
        for precision in self.precisions:
            if precision not in PRECISIONS:
                raise unknown_name("precision", precision, PRECISIONS)

    def processors(self) -> list[Processor]:
        """Return the devices, each once, in a power mode where a name has one.

        Raises UnknownNameError if there is none of that name; says which come close, ConfigError if
        the host's file is none, or the calibration is of another product.
        """
        found = [find_processor(name) for name in self.devices]
        if self.calibration is not None:
            from joulelab.estimator.calibration.fit import calibrated_to

            facts = read_board_facts(Path(self.calibration))
            found = [calibrated_to(processor, facts).processor for processor in found]
        if (host := self.known_host) is not None:
            found = [on_host(processor, find_host(host)) for processor in found]
        return list({processor.key: processor for processor in found}.values())

    @property
    def known_host(self) -> str | None:
        """Name or file of the host; ``None`` where it is not known."""
        if self.host is None and self.calibration is not None:
            facts = read_board_facts(Path(self.calibration))
            return self.calibration if facts.has_host else None
        return self.host

    def combinations(self) -> list[Combination]:
        """Return all combinations, each once, by model, device, precision and batch size."""
        processors = self.processors()
        return [
            Combination(model=model, processor=processor, precision=precision, batch=batch)
            for model in dict.fromkeys(self.models)
            for processor in processors
            for precision in dict.fromkeys(self.precisions or (usual_precision(processor),))
            for batch in dict.fromkeys(self.batches)
        ]


class Tracer:
    """Traces the models of a question, each combination once."""

    def __init__(self, question: Question, progress: Progress | None = None) -> None:
        self._question = question
        self._progress = progress or (lambda _: None)
        self._traced: dict[tuple[str, str, int, bool], TracedModel] = {}

    def of(self, combination: Combination, mode: Mode | None = None) -> TracedModel:
        """Return a model as it runs in ``mode``, by default the question's; or ConfigError."""
        model, precision, batch = combination.model, combination.precision, combination.batch
        check_precision(precision, combination.processor)
        requested(combination.processor, (self._question.point,))
        asked = replace(self._question, mode=mode or self._question.mode)
        key = (model, precision, batch, asked.mode in FUSING)
        if key not in self._traced:
            how = ", compiled" if asked.mode in FUSING else ""
            self._progress(f"Tracing {model}, {precision}, batch {batch}{how}")
            self._traced[key] = traced(asked, model, precision=precision, batch=batch)
        return self._traced[key]


def traced(
    asked: Question, model: str, *, precision: str, batch: int, remedy: str = ""
) -> TracedModel:
    """Return a model as ``asked``, of several devices what one runs; ConfigError if untraceable."""
    from joulelab.estimator.models import tensor_parallel, trace_model

    whole = trace_model(
        model,
        batch=batch,
        precision=precision,
        training=asked.training,
        compiled=asked.mode in FUSING,
        remedy=remedy,
        **asked.knobs,
    )
    return tensor_parallel(whole, asked.num_devices)


def knob_value(word: str) -> tuple[str, KnobValue]:
    """Read ``key=value``: a number, true, false, none, or text; ConfigError without ``=``."""
    key, equals, value = word.partition("=")
    if not (key and equals):
        raise ConfigError(f"A knob is key=value, got {word!r}.")
    return key.replace("-", "_"), _value(value)


def clock_grid(
    processor: Processor, clocks_mhz: Sequence[int] = (), *, num: int = _NUM_CLOCKS
) -> tuple[int, ...]:
    """Return ascending clocks with the default, else ``num`` steps; ConfigError off the range."""
    low, default, high = processor.clocks_mhz
    wrong = [clock for clock in clocks_mhz if not low <= clock <= high]
    if wrong:
        raise ConfigError(
            f"A clock of {processor.key} must be from {low:g} to {high:g} MHz, got {wrong[0]:g}."
        )
    chosen: Sequence[float] = clocks_mhz or [low + i * (high - low) / num for i in range(num + 1)]
    return tuple(sorted({*(round(clock) for clock in chosen), round(default)}))


def _value(word: str) -> KnobValue:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for kind in (int, float):
        try:
            value = kind(word)
        except ValueError:
            continue
        if not isfinite(value):
            raise ConfigError(f"A knob's number must be finite, got {word!r}.")
        return value
    return word


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Combination):
    """One phase of a combination, over core clocks."""

    phase: str
    unit: str
    work: float
    clocks_mhz: tuple[int, ...]  # requested clocks, ascending; the default is among them
    default: int  # index of the default clock
    latency_s: tuple[float, ...]
    energy_j: tuple[float, ...]
    keeps: tuple[bool, ...]  # whether each clock keeps to the limits that were asked for

    def costs(self, objective: str) -> list[float]:
        """Return ``objective`` at each clock, lower being better, or UnknownNameError."""
        cost = without_quality(objective).cost
        return [cost(*pair) for pair in zip(self.energy_j, self.latency_s, strict=True)]

    def best(self, objective: str) -> int:
        """Return the index of the clock that keeps to the limits with the lowest ``objective``."""
        costs = self.costs(objective)
        kept = (place for place in range(len(costs)) if self.keeps[place])
        return min(kept, key=costs.__getitem__)

    def near_best(self, objective: str) -> tuple[int, int]:
        """Return the first and last index of the clocks next to the best, all within 1 % of it.

        They keep to the limits, too.
        """
        costs = self.costs(objective)
        first = last = self.best(objective)
        near = [
            cost <= costs[first] * 1.01 and kept
            for cost, kept in zip(costs, self.keeps, strict=True)
        ]
        while first > 0 and near[first - 1]:
            first -= 1
        while last + 1 < len(costs) and near[last + 1]:
            last += 1
        return first, last


def sweep(
    question: Question, *, clocks_mhz: Sequence[int] = (), progress: Progress
) -> tuple[Curve, ...]:
    """Predict all at ``clocks_mhz``, by default over the range; ConfigError if one is off it."""
    tracer = Tracer(question, progress)
    return tuple(
        curve
        for combination in question.combinations()
        for curve in _curves(question, tracer, combination, clocks_mhz)
    )


def _curves(
    question: Question, tracer: Tracer, combination: Combination, clocks_mhz: Sequence[int]
) -> Iterator[Curve]:
    processor = combination.processor
    clocks = clock_grid(processor, clocks_mhz)
    traced = tracer.of(combination)
    limit_w = question.point.power_limit_w
    found = predict.totals(
        traced,
        [processor],
        mode=question.mode,
        points=[OperatingPoint(sm_clock_mhz=clock, power_limit_w=limit_w) for clock in clocks],
        num_devices=question.num_devices,
    )
    for place, phase in enumerate(traced.phases):
        yield Curve(
            model=combination.model,
            processor=processor,
            precision=combination.precision,
            batch=combination.batch,
            phase=phase.phase,
            unit=traced.unit,
            work=phase.work,
            clocks_mhz=clocks,
            default=clocks.index(round(processor.default_clock_mhz)),
            latency_s=tuple(float(value) for value in found.latency_s[0, :, place]),
            energy_j=tuple(float(value) for value in found.energy_j[0, :, place]),
            keeps=(True,) * len(clocks),
        )
