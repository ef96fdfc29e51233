"""Find a model by name, trace it, and keep the trace for the next question.

Traces are kept on disk, too, so that a process that only prices a known model need not import
torch: under a digest of what was asked for, the source of everything that builds and traces
networks, and the versions of the libraries that hold them.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from json import dumps, loads
from pathlib import Path
from typing import Any, NamedTuple

from joulelab.core.configuration import KnobValue
from joulelab.core.number_format import number_format
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.models.base import Model, Request, Source, Traced, as_float16
from joulelab.registry import Registry, unknown_name
from joulelab.tracing.precision import at_precision
from joulelab.tracing.program import MatrixShape, Operator, Program, ProgramPhase, TracedModel
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import (
    Form,
    digest,
    made_once,
    package_versions,
    read_entry,
    source_digests,
    user_folder,
    write_entry,
)

_OWN = {
    "torchvision": "joulelab.estimator.models.image_sources:TorchvisionSource",
    "yolo": "joulelab.estimator.models.image_sources:YoloSource",
    "hf": "joulelab.estimator.models.transformers_source:TransformersSource",
    "diffusers": "joulelab.estimator.models.diffusers_source:DiffusersSource",
    "workload": "joulelab.estimator.models.program_sources:WorkloadSource",
    "timm": "joulelab.estimator.models.image_sources:TimmSource",
}
SOURCES: Registry[type[Source]] = Registry("source of models", _OWN)
"""Sources by the prefix under which a name can ask for them: ``timm:resnet50``."""

# A plain name must not run a workload by surprise: "llama" there is a measurement's name.
_PREFIXED_ONLY = ("workload",)
_MOST_HINTS = 3


@cache
def source(prefix: str) -> Source:
    """Return the source called ``prefix``; UnknownNameError if there is none."""
    return SOURCES[prefix]()


def model_names() -> Mapping[str, tuple[str, ...]]:
    """Return the names that can be asked for, by source, as :func:`find_model` takes them."""
    return {prefix: _names(prefix) for prefix in SOURCES}


def find_model(name: str) -> Model:
    """Return the model called ``name``: ``SOURCE:NAME``, a plain name, or ``PATH.py:CLASS``.

    A user's file is executed. Raises UnknownNameError, which says what comes close, if no source
    knows it, ConfigError if the file fails.
    """
    found, rest = locate(name)
    return found.find(rest)


def locate(name: str) -> tuple[Source, str]:
    """Return the source that has ``name``, and the name in it; UnknownNameError if none has."""
    if ".py:" in name:
        from joulelab.estimator.models.program_sources import FileSource

        return FileSource(), name
    if name.endswith(".py"):
        raise ConfigError(f"A file needs the class to build: {name}:CLASS, got {name!r}.")
    prefix, separator, rest = name.partition(":")
    if separator:
        return source(prefix), rest
    for prefix in SOURCES:
        if prefix not in _PREFIXED_ONLY and name in _listed(prefix):
            return source(prefix), name
    raise _unknown_model(name)


def _names(prefix: str) -> tuple[str, ...]:
    names = _listed(prefix)
    if prefix in (*_PREFIXED_ONLY, "timm"):
        return tuple(f"{prefix}:{name}" for name in names)
    return names


@cache
def _listed(prefix: str) -> tuple[str, ...]:
    """Return what a source lists; from disk, as listing imports the library that has them."""
    if prefix not in _OWN:
        return tuple(source(prefix).names())
    path = user_folder("names") / f"{digest([prefix, list(WORKLOADS), _code()])}.json"
    return made_once(path, lambda: tuple(source(prefix).names()), _LIST)


def _unknown_model(name: str) -> UnknownNameError:
    known = {shown: shown for names in model_names().values() for shown in names}
    for shown in tuple(known):
        known.setdefault(shown.rpartition(":")[2], shown)
    text = name.lower()
    near = get_close_matches(text, known, n=_MOST_HINTS)
    longer = [shown for shown in known if shown.startswith(text)]
    longer.sort(key=lambda shown: shown not in near)  # the closest of many completions first
    close = list(dict.fromkeys(known[each] for each in (*longer, *near)))[:_MOST_HINTS]
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return UnknownNameError(
        f"Unknown model {name!r}.{hint} Known are those of torchvision, transformers "
        "(hf:TYPE?option=value), diffusers, YOLO, timm (timm:NAME), joulelab's workloads "
        "(workload:NAME), and a class of your own (path.py:Class); `joulelab models` lists them."
    )


_KEPT_TRACES = 64
_KEPT_MODELS = 512


def trace_model(
    name: str,
    *,
    batch: int,
    precision: str,
    training: bool = False,
    compiled: bool = False,
    remedy: str = "",
    **knobs: KnobValue,
) -> TracedModel:
    """Trace the model called ``name``; the same question is answered from memory.

    A user's file is executed. Raises UnknownNameError if there is no such model, precision or knob;
    says which there are, ConfigError if the model cannot be traced so; says why.
    """
    if batch < 1:
        raise ConfigError(f"batch must be at least 1, got {batch}.")
    dtype = number_format(precision).traced
    options = tuple(sorted(knobs.items()))
    asked = _Asked(name, _version(name), batch, dtype, training, compiled, options, remedy)
    return _model_at(asked, precision)


def _version(name: str) -> int | None:
    """Return what changes with a user's file; ``None`` of a name that code alone defines."""
    stem, is_file, _ = name.partition(".py:")
    path = Path(f"{stem}.py").expanduser()
    return path.stat().st_mtime_ns if is_file and path.is_file() else None


class _Asked(NamedTuple):
    """What traces are kept by."""

    name: str
    version: int | None
    batch: int
    dtype: str
    training: bool
    compiled: bool
    options: tuple[tuple[str, KnobValue], ...]
    remedy: str


@lru_cache(maxsize=_KEPT_MODELS)
def _model_at(asked: _Asked, precision: str) -> TracedModel:
    # A file may import others, and a workload may be a plug-in: a digest would not see a change.
    if asked.version is not None or asked.name.startswith("workload:"):
        return _trace_at(asked, precision)
    return kept_trace(
        {**asked._asdict(), "precision": precision, "sources": list(SOURCES)},
        lambda: _trace_at(asked, precision),
        is_own=lambda: type(locate(asked.name)[0]).__module__.startswith("joulelab."),
    )


def _trace_at(asked: _Asked, precision: str) -> TracedModel:
    model = _found(asked.name, asked.version)
    own = precision if model.quantises and number_format(precision).is_quantised else ""
    traced = _traced(asked, own)
    return TracedModel(
        name=asked.name,
        unit=model.unit,
        batch=asked.batch,
        precision=precision,
        phases=tuple(
            replace(phase, program=at_precision(phase.program, precision))
            for phase in traced.phases
        ),
        inputs=traced.inputs,
    )


@lru_cache(maxsize=_KEPT_TRACES)
def _traced(asked: _Asked, precision: str) -> Traced:
    model = _found(asked.name, asked.version)
    if asked.dtype == "float16" and model.halves_alike:
        return as_float16(_traced(asked._replace(dtype="bfloat16"), precision))
    request = Request(
        batch=asked.batch,
        dtype=asked.dtype,
        training=asked.training,
        knobs=_complete(model, asked),
        precision=precision,
        remedy=asked.remedy,
    )
    if not asked.compiled:
        return model.trace(request)
    from joulelab.tracing.fast_paths import without_fast_paths

    with without_fast_paths():
        return model.trace(request)


@lru_cache(maxsize=_KEPT_TRACES)
def _found(name: str, version: object) -> Model:
    del version  # a file that changed is another model
    return find_model(name)


def _complete(model: Model, asked: _Asked) -> dict[str, KnobValue]:
    known = dict(model.knobs)
    for knob, value in asked.options:
        if knob not in known:
            raise unknown_name(f"knob of {asked.name}", knob, known)
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        default = known[knob]
        if isinstance(default, int) and not isinstance(default, bool) and not is_count:
            raise ConfigError(f"{knob} of {asked.name} must be a whole number, got {value!r}.")
        known[knob] = value
    return known


_CODE = ("core/*.py", "tracing/*.py", "workloads/**/*.py", "estimator/models/*.py")
_PACKAGES = ("diffusers", "timm", "torch", "torchao", "torchvision", "transformers", "ultralytics")


def kept_trace(
    asked: Mapping[str, object], trace: Callable[[], TracedModel], *, is_own: Callable[[], bool]
) -> TracedModel:
    """Return the trace of ``asked`` from disk, or make it; kept if ``is_own`` code made it."""
    path = user_folder("traces") / f"{digest([asked, _code()])}.json.z"
    found = read_entry(path, _FORM)
    if found is None:
        found = trace()
        if is_own():
            write_entry(path, found, _FORM)
    return found


@cache
def _code() -> object:
    return [package_versions(_PACKAGES), source_digests(_CODE)]


def encoded(model: TracedModel) -> bytes:
    """Return ``model`` as compressed JSON; numbers keep every bit."""
    return zlib.compress(dumps(model, default=_named).encode(), level=1)


def _named(record: Any) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}


def decoded(text: bytes) -> TracedModel:
    """Return the model that :func:`encoded` wrote; ValueError if ``text`` is none."""
    try:
        fields = loads(zlib.decompress(text))
        return TracedModel(**{**fields, "phases": tuple(map(_phase, fields["phases"]))})
    except (zlib.error, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a trace: {error!r}") from error


def _phase(fields: Mapping[str, Any]) -> ProgramPhase:
    return ProgramPhase(**{**fields, "program": _program(fields["program"])})


def _program(fields: Mapping[str, Any]) -> Program:
    operators = tuple(map(_operator, fields["operators"]))
    return Program(**{**fields, "operators": operators, "live_b": tuple(fields["live_b"])})


def _operator(fields: Mapping[str, Any]) -> Operator:
    shape = fields["shape"]
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Operator(**{**fields, **lists, "shape": shape and MatrixShape(**shape)})


_LIST = Form(what="names", encode=lambda n: dumps(n).encode(), decode=lambda t: tuple(loads(t)))
_FORM = Form(what="a trace", encode=encoded, decode=decoded)
