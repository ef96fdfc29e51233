"""Values to JSON and back, driven by their type hints.

A value that was encoded and decoded equals itself, bit for bit: Python writes floats so that they
read back exactly, and integers stay integers. What does not fit the type, in either direction, is
an error that names the field, never a guess.

By hand: pydantic writes NaN as null and reads it, unless each dataclass of :mod:`joulelab.core` is
configured otherwise, and measuring would need it besides numpy.
"""

import json
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from joulelab.errors import JouleLabError, TrackingError

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]

_SCALARS = (str, bool, int, float, type(None))


def to_json(value: Any) -> str:
    """Write a dataclass of scalars, enums, tuples and dataclasses as one line of JSON.

    Raises TrackingError if a field holds something else, or a number that is not finite.
    """
    return json.dumps(_encode(value, ""), separators=(",", ":"), allow_nan=False)


def from_json(kind: type[T], text: str | bytes) -> T:
    """Read a ``kind`` from JSON that :func:`to_json` wrote.

    Raises:
        json.JSONDecodeError: If ``text`` is not JSON.
        TrackingError: If it is JSON but no ``kind``; names the field.
    """
    return decoded(kind, json.loads(text))


def decoded(kind: type[T], data: Any, name: str = "") -> T:
    """Make a ``kind`` of what JSON holds as objects, lists, texts and numbers.

    Raises TrackingError if it is no ``kind``; names the field, within ``name``.
    """
    decode: Decoder = _decoder(cast("Any", kind))
    value: T = decode(data, name)
    return value


def _encode(value: Any, path: str) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        raise TrackingError(f"{path or 'value'} must be finite, got {value}.")
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, tuple):
        return [_encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode(getattr(value, f.name), _at(path, f.name)) for f in fields(value)}
    raise TrackingError(f"{path or 'value'} holds a {type(value).__name__}, which has no JSON.")


@cache
def _decoder(kind: Any) -> Decoder:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _dataclass_decoder(kind)
    if origin in (Union, types.UnionType):
        return _union_decoder(get_args(kind))
    if origin is tuple:
        return _tuple_decoder(get_args(kind))
    if origin is Literal:
        return _choice_decoder(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_decoder(kind)
    if kind in _SCALARS or kind is None:
        return _scalar_decoder(kind)
    raise TrackingError(f"{kind} has no JSON form here.")


def _dataclass_decoder(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    decoders = {f.name: _decoder(hints[f.name]) for f in fields(kind)}
    required = {
        f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING
    }

    def decode(data: Any, path: str) -> Any:
        if not isinstance(data, dict):
            raise _misfit(path, f"the fields of a {kind.__name__}", data)
        unknown, missing = data.keys() - decoders.keys(), required - data.keys()
        if unknown or missing:
            raise TrackingError(
                f"{path or kind.__name__}: missing fields {sorted(missing)}, "
                f"unknown fields {sorted(unknown)}."
            )
        values = {name: decoders[name](item, _at(path, name)) for name, item in data.items()}
        try:
            return kind(**values)
        except JouleLabError as error:
            raise TrackingError(f"{path or kind.__name__}: {error}") from error

    return decode


def _union_decoder(kinds: tuple[Any, ...]) -> Decoder:
    scalars = {kind: _decoder(kind) for kind in kinds if kind in _SCALARS}
    if float in scalars:
        scalars.setdefault(int, scalars[float])
    others = [_decoder(kind) for kind in kinds if kind not in _SCALARS]

    def decode(data: Any, path: str) -> Any:
        if type(data) in scalars:
            return scalars[type(data)](data, path)
        if len(others) == 1:
            return others[0](data, path)
        raise _misfit(path, " or ".join(getattr(k, "__name__", str(k)) for k in kinds), data)

    return decode


def _tuple_decoder(kinds: tuple[Any, ...]) -> Decoder:
    endless = len(kinds) == 2 and kinds[1] is Ellipsis
    decoders = [_decoder(kind) for kind in kinds if kind is not Ellipsis]

    def decode(data: Any, path: str) -> Any:
        if not isinstance(data, list) or not (endless or len(data) == len(decoders)):
            raise _misfit(path, "a list" if endless else f"a list of {len(decoders)}", data)
        each = decoders * len(data) if endless else decoders
        return tuple(
            decoder(item, f"{path}[{i}]")
            for i, (decoder, item) in enumerate(zip(each, data, strict=True))
        )

    return decode


def _choice_decoder(choices: tuple[Any, ...]) -> Decoder:
    def decode(data: Any, path: str) -> Any:
        if data not in choices:
            raise _misfit(path, f"one of {', '.join(map(repr, choices))}", data)
        return data

    return decode


def _enum_decoder(kind: type[Enum]) -> Decoder:
    def decode(data: Any, path: str) -> Any:
        try:
            return kind(data)
        except ValueError as error:
            raise _misfit(path, f"a value of {kind.__name__}", data) from error

    return decode


def _scalar_decoder(kind: Any) -> Decoder:
    expected = type(None) if kind is None else kind

    def decode(data: Any, path: str) -> Any:
        if type(data) is expected and not (isinstance(data, float) and not isfinite(data)):
            return data
        if expected is float and type(data) is int and abs(data) < 2**1000:
            return float(data)
        raise _misfit(path, expected.__name__, data)

    return decode


def _misfit(path: str, expected: str, given: Any) -> TrackingError:
    return TrackingError(f"{path or 'value'} must be {expected}, got {given!r:.80}.")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
