"""Trace a model by name, and keep the trace for the next question."""

from dataclasses import replace
from functools import lru_cache

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Model, Request, Traced
from joulelab.estimator.models.half import as_float16
from joulelab.estimator.models.sources import locate
from joulelab.estimator.precision import at_precision, is_quantised, traced_dtype
from joulelab.estimator.program import ProgramPhase, TracedModel
from joulelab.registry import unknown_name

_KEPT_TRACES = 64
_KEPT_MODELS = 512

Options = tuple[tuple[str, KnobValue], ...]


def trace_model(
    name: str, *, batch: int, precision: str, training: bool = False, **knobs: KnobValue
) -> TracedModel:
    """Trace the model called ``name``; the same question is answered from memory.

    Args:
        name: As :func:`joulelab.estimator.models.sources.find_model` takes it. A user's file is
            executed.
        batch: Samples per execution, at least 1.
        precision: A name of :data:`joulelab.estimator.precision.PRECISIONS`.
        training: Trace a training step instead of inference.
        knobs: What else the model lets choose, such as ``prompt_tokens``.

    Raises:
        UnknownNameError: If there is no such model, precision or knob; says which there are.
        ConfigError: If the model cannot be traced so; says why.
    """
    if batch < 1:
        raise ConfigError(f"batch must be at least 1, got {batch}.")
    dtype = traced_dtype(precision)
    source, rest = locate(name)
    options = tuple(sorted(knobs.items()))
    return _model_at(name, source.version(rest), batch, dtype, precision, training, options)


@lru_cache(maxsize=_KEPT_MODELS)
def _model_at(  # noqa: PLR0917  # a cache compares by position
    name: str,
    version: object,
    batch: int,
    dtype: str,
    precision: str,
    training: bool,
    options: Options,
) -> TracedModel:
    model = _found(name, version)
    own = precision if model.quantises and is_quantised(precision) else ""
    traced = _traced(name, version, batch, dtype, training, options, own)
    return TracedModel(
        name=name,
        unit=model.unit,
        batch=batch,
        precision=precision,
        phases=tuple(_phase_at(phase, precision) for phase in traced.phases),
        inputs=traced.inputs,
    )


@lru_cache(maxsize=_KEPT_TRACES)
def _traced(  # noqa: PLR0917
    name: str,
    version: object,
    batch: int,
    dtype: str,
    training: bool,
    options: Options,
    precision: str = "",
) -> Traced:
    model = _found(name, version)
    if dtype == "float16" and model.halves_alike:
        return as_float16(_traced(name, version, batch, "bfloat16", training, options, precision))
    knobs = _complete(model, name, options)
    request = Request(batch=batch, dtype=dtype, training=training, knobs=knobs, precision=precision)
    return model.trace(request)


@lru_cache(maxsize=_KEPT_TRACES)
def _found(name: str, version: object) -> Model:
    del version  # a file that changed is another model
    source, rest = locate(name)
    return source.find(rest)


def _phase_at(phase: ProgramPhase, precision: str) -> ProgramPhase:
    return replace(phase, program=at_precision(phase.program, precision))


def _complete(model: Model, name: str, options: Options) -> dict[str, KnobValue]:
    """Return all knobs of ``model``, those in ``options`` replaced."""
    known = dict(model.knobs)
    for knob, value in options:
        if knob not in known:
            raise unknown_name(f"knob of {name}", knob, known)
        default = known[knob]
        if isinstance(default, int) and not isinstance(default, bool) and not _is_count(value):
            raise ConfigError(f"{knob} of {name} must be a whole number, got {value!r}.")
        known[knob] = value
    return known


def _is_count(value: KnobValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
