"""Checks on the values of a workload's knobs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

Made = TypeVar("Made")
MOST = 1_000_000
"""Of anything that a workload counts or takes so long or large: beyond it no GPU ever ends."""


def check_knobs(
    settings: Any, *, but: Collection[str] = (), least: Mapping[str, int] | None = None
) -> None:
    """Refuse a knob whose value its type excludes; those named in ``but`` are checked elsewhere.

    A literal is a choice, an integer a count, which ``least`` may bound, a float a positive number
    and a bool a switch. Raises ConfigError if there is such a value.
    """
    for name, kind, is_optional in _kinds(type(settings)):  # type: ignore[arg-type]
        value = getattr(settings, name)
        if name in but or (is_optional and value is None):
            continue
        if get_origin(kind) is Literal:
            require_choice(name, value, get_args(kind))
        elif kind is int:
            require_count(name, value, least=(least or {}).get(name, 1))
        elif kind in _CHECKS:
            _CHECKS[kind](name, value)


def made_with(kind: type[Made], knobs: Mapping[str, KnobValue], owner: str) -> Made:
    """Make ``kind`` of knob names and values; those left out take their default.

    Raises ConfigError if ``owner`` has no such knob (names the closest), or its value is not
    allowed.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    for name in knobs:
        if name not in known:
            raise unknown_name(f"knob of {owner}", name, known)
    try:
        return kind(**knobs)
    except TypeError as error:
        raise ConfigError(f"{owner} cannot take {dict(knobs)}: {error}") from error


def choices_of(settings_type: type[Any], name: str) -> tuple[Any, ...]:
    """Return what the knob ``name`` may be; empty if that is no list of choices."""
    kinds = {knob: kind for knob, kind, _ in _kinds(settings_type)}  # type: ignore[arg-type]
    return get_args(kinds[name]) if get_origin(kinds[name]) is Literal else ()


@cache
def _kinds(settings_type: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    """Return name, type, and whether it may be ``None``, of each knob."""
    hints = get_type_hints(settings_type)
    found = []
    for name in (field.name for field in fields(settings_type)):
        parts = alternatives(hints[name])
        found.append((name, parts[0], NoneType in parts))
    return tuple(found)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return what ``hint`` is a union of; itself if it is none."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is one of ``choices``.

    Raises UnknownNameError if it is not; names the closest choices.
    """
    if value not in choices:
        raise unknown_name(name, str(value), choices)


def require_count(name: str, value: object, *, least: int = 1, most: int = MOST) -> None:
    """Refuse ``value`` unless it is a whole number within these, by a ConfigError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value > most:
        raise ConfigError(f"{name} must be at most {most}, got {value!r}.")


def require_positive(name: str, value: object) -> None:
    """Refuse ``value`` unless it is a positive number up to ``MOST``, by a ConfigError."""
    if not (_is_number(value) and 0 < float(str(value)) < float("inf")):
        raise ConfigError(f"{name} must be a positive number, got {value!r}.")
    if float(str(value)) > MOST:
        raise ConfigError(f"{name} must be at most {MOST}, got {value!r}.")


def require_multiple(name: str, value: object, of: int) -> None:
    """Refuse ``value`` unless it is a positive multiple of ``of``, by a ConfigError."""
    require_count(name, value)
    if int(str(value)) % of:
        raise ConfigError(f"{name} must be a multiple of {of}, got {value!r}.")


def require_fraction(name: str, value: object) -> None:
    """Refuse ``value`` unless it is a number from 0 to 1, by a ConfigError."""
    if not (_is_number(value) and 0 <= float(str(value)) <= 1):
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}.")


def _require_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS = {float: require_positive, bool: _require_switch}
