"""The estimator in one call: names in, estimates out.

``import joulelab.estimator as estimator`` and
``estimator.estimate("resnet50", device="h100", precision="fp16", batch=8)``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import Estimate, Mode
from joulelab.estimator.opportunities import Change, opportunities
from joulelab.estimator.precision import check_precision
from joulelab.estimator.pricing import predict
from joulelab.estimator.program import TracedModel
from joulelab.estimator.question import Combination, Question, clock_grid
from joulelab.hardware.processors import PROCESSORS

_CLOCKS_TO_TRY = 16

Progress = Callable[[str], None]
"""Is told what is being done."""


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
        knobs=knobs,
        events=events,
        strict=strict,
    )
    (combination,) = question.combinations()
    return _predict(question, Tracer(question, _silent), combination)


def matrix(question: Question, *, progress: Progress | None = None) -> tuple[Cell, ...]:
    """Predict every combination; one that a device cannot do says why instead.

    Args:
        question: What to predict.
        progress: Is told what is being traced.

    Raises:
        UnknownNameError: If a name is not known.
        ConfigError: If no combination has an answer, or, in strict mode, one has none.
    """
    tracer = Tracer(question, progress or _silent)
    cells = tuple(_cell(question, tracer, each) for each in question.combinations())
    if all(cell.estimate is None for cell in cells):
        raise ConfigError(cells[0].problem)
    return cells


class Tracer:
    """Traces the models of a question, each combination once.

    Args:
        question: What is asked.
        progress: Is told what is being traced.
    """

    def __init__(self, question: Question, progress: Progress) -> None:
        self._question = question
        self._progress = progress
        self._traced: dict[tuple[str, str, int], TracedModel] = {}

    def of(self, combination: Combination) -> TracedModel:
        """Return the model of ``combination``.

        Raises:
            ConfigError: If it cannot be traced, or the device lacks the precision.
        """
        check_precision(combination.precision, combination.processor)
        return self.trace(combination.model, combination.precision, combination.batch)

    def trace(self, model: str, precision: str, batch: int) -> TracedModel:
        """Return ``model`` as it runs in ``precision``.

        Raises:
            ConfigError: If it cannot be traced.
        """
        key = (model, precision, batch)
        if key not in self._traced:
            self._progress(f"Tracing {model}, {precision}, batch {batch}")
            self._traced[key] = self._question.trace(model, precision, batch)
        return self._traced[key]


def _cell(question: Question, tracer: Tracer, combination: Combination) -> Cell:
    found, problem = None, ""
    try:
        found = _predict(question, tracer, combination)
    except UnknownNameError:
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
    return predict.estimate(
        tracer.of(combination),
        combination.processor,
        mode=question.mode,
        point=question.point,
        num_devices=question.num_devices,
        events=question.events,
        strict=question.strict,
    )


def with_opportunities(question: Question, cell: Cell, *, progress: Progress | None = None) -> Cell:
    """Return ``cell`` with what would save energy, found by predicting it again in other ways.

    Args:
        question: What was asked; mode, clock and the like are kept unless they are the change.
        cell: One of its answers.
        progress: Is told what is being traced.
    """
    found = cell.estimate
    if found is None:
        return cell
    tracer = Tracer(question, progress or _silent)

    def again(**change: str | int) -> Estimate:
        changed = _changed(cell, change)
        point = question.point
        if "sm_clock_mhz" in change:
            point = replace(point, sm_clock_mhz=int(change["sm_clock_mhz"]))
        return predict.estimate(
            tracer.of(changed),
            changed.processor,
            mode=cast("Mode", change.get("mode", found.mode)),
            point=point,
            num_devices=question.num_devices,
        )

    clocks = clock_grid(cell.processor, num=_CLOCKS_TO_TRY)
    return replace(cell, opportunities=opportunities(found, again, clocks_mhz=clocks))


def _changed(cell: Cell, change: Change) -> Combination:
    device = change.get("device")
    return Combination(
        model=cell.model,
        processor=cell.processor if device is None else PROCESSORS[str(device)],
        precision=str(change.get("precision", cell.precision)),
        batch=int(change.get("batch", cell.batch)),
    )


def _silent(_: str) -> None:
    """Say nothing."""
