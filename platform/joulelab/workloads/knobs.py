"""Checks on the values of a workload's knobs."""

from collections.abc import Sequence

from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

MOST = 1_000_000
"""Of anything that a workload counts or takes so long or large: beyond it no GPU ever ends."""


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is one of ``choices``.

    Raises:
        UnknownNameError: If it is not; names the closest choices.
    """
    if value not in choices:
        raise unknown_name(name, str(value), choices)


def require_count(name: str, value: object, *, least: int = 1, most: int = MOST) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is a whole number within these.

    Raises:
        ConfigError: If it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value > most:
        raise ConfigError(f"{name} must be at most {most}, got {value!r}.")


def require_positive(name: str, value: object) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is a positive number up to ``MOST``.

    Raises:
        ConfigError: If it is not.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 < float(str(value)) < float("inf")):
        raise ConfigError(f"{name} must be a positive number, got {value!r}.")
    if float(str(value)) > MOST:
        raise ConfigError(f"{name} must be at most {MOST}, got {value!r}.")


def require_multiple(name: str, value: object, of: int) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is a positive multiple of ``of``.

    Raises:
        ConfigError: If it is not.
    """
    require_count(name, value)
    if int(str(value)) % of:
        raise ConfigError(f"{name} must be a multiple of {of}, got {value!r}.")


def require_fraction(name: str, value: object) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is a number from 0 to 1.

    Raises:
        ConfigError: If it is not.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= float(str(value)) <= 1):
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}.")


def require_switch(name: str, value: object) -> None:
    """Refuse ``value`` for the knob ``name`` unless it is true or false.

    Raises:
        ConfigError: If it is not.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}.")
