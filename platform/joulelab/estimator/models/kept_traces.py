"""Traces kept on disk, so that a process that only prices a known model need not import torch.

An entry is under a digest of what was asked for, the source of everything that builds and traces
networks, and the versions of the libraries that hold them: a change of any makes a new one.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from json import dumps, loads
from typing import Any

from joulelab.tracing.program import MatrixShape, Operator, Program, ProgramPhase, TracedModel
from joulelab.workloads.disk_cache import (
    Form,
    digest,
    package_versions,
    read_entry,
    source_digests,
    user_folder,
    write_entry,
)

_SOURCES = ("core/*.py", "tracing/*.py", "workloads/**/*.py", "estimator/models/*.py")
_PACKAGES = ("diffusers", "timm", "torch", "torchao", "torchvision", "transformers", "ultralytics")


def kept_trace(
    asked: Mapping[str, object], trace: Callable[[], TracedModel], *, is_own: Callable[[], bool]
) -> TracedModel:
    """Return the trace of ``asked`` from disk, or make it.

    Args:
        asked: All that the trace depends on, besides code.
        trace: Makes it.
        is_own: Whether the code that made it is this package's and its libraries', which the
            digest knows, so that it may be kept.
    """
    path = user_folder("traces") / f"{digest([asked, _code()])}.json.z"
    found = read_entry(path, _FORM)
    if found is None:
        found = trace()
        if is_own():
            write_entry(path, found, _FORM)
    return found


@cache
def _code() -> object:
    return [package_versions(_PACKAGES), source_digests(_SOURCES)]


def encoded(model: TracedModel) -> bytes:
    """Return ``model`` as compressed JSON; numbers keep every bit."""
    return zlib.compress(dumps(asdict(model)).encode(), level=1)


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


_FORM = Form(what="a trace", encode=encoded, decode=decoded)
