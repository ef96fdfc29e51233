"""Words of a command line that hold several values or limits, and how they are read."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import tyro

from joulelab.analysis.quantities import quantity
from joulelab.core.bounds import check_positive
from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Estimate
from joulelab.estimator.question import Cell, knob_value
from joulelab.hardware.power_modes import find_processor, modes_of

Names = Annotated[str, tyro.conf.arg(metavar="NAME[,NAME...]")]
Numbers = Annotated[str, tyro.conf.arg(metavar="N[,N...]")]
Formats = Annotated[str | None, tyro.conf.arg(metavar="NAME[,NAME...]")]
KnobWords = Annotated[
    tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]


def names(words: str, what: str) -> tuple[str, ...]:
    """Read ``"a,b"``, or raise :class:`ConfigError` if there is no name in it."""
    found = tuple(word.strip() for word in words.split(",") if word.strip())
    if not found:
        raise ConfigError(f"--{what} needs at least one name, got {words!r}.")
    return found


def devices(words: str, modes: str | None) -> tuple[str, ...]:
    """Read devices, those that have power modes in each of ``modes``, ``KEY:MODE``.

    Raises UnknownNameError if there is no such device, ConfigError if none has power modes.
    """
    found = names(words, "device")
    if modes is None:
        return found
    moded = {name for name in found if modes_of(find_processor(name))}
    if not moded:
        raise ConfigError(
            f"--power-mode needs a Jetson module, got --device {words}: leave it out."
        )
    asked = names(modes, "power-mode")
    return tuple(
        each
        for name in found
        for each in ([f"{name}:{mode}" for mode in asked] if name in moded else [name])
    )


def numbers(words: str, what: str) -> tuple[int, ...]:
    """Read ``"1,8,64"``, or raise :class:`ConfigError` if a word is no whole number."""
    return tuple(_number(word, what) for word in names(words, what))


def knob_values(words: Sequence[Sequence[str]]) -> dict[str, KnobValue]:
    """Read ``key=value`` words, or raise :class:`ConfigError` if one has no ``=``."""
    return dict(knob_value(word) for some in words for word in some)


def _number(word: str, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"--{what} takes whole numbers, got {word!r}.") from None


Variants = Annotated[
    tuple[tuple[str, ...], ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(metavar="KNOB=VALUE[,VALUE...]"),
]


def read_variants(given: Variants) -> dict[str, tuple[KnobValue, ...]]:
    """Return the values of each knob of ``--vary KNOB=VALUE,VALUE``, likewise."""
    found: dict[str, tuple[KnobValue, ...]] = {}
    for knob, values in (_variant(word) for words in given for word in words):
        if knob in found:
            raise ConfigError(f"--vary names {knob} twice; give all its values together.")
        found[knob] = values
    return found


def _variant(word: str) -> tuple[str, tuple[KnobValue, ...]]:
    knob, _, values = word.partition("=")
    if not (knob and values):
        raise ConfigError(f"--vary takes KNOB=VALUE,VALUE, got {word!r}.")
    pairs: Sequence[tuple[str, KnobValue]] = [
        knob_value(f"{knob}={value}") for value in names(values, f"vary {knob}")
    ]
    return pairs[0][0], tuple(value for _, value in pairs)


UNITS: Mapping[str, str] = {"latency": "s", "energy": "J", "power": "W", "memory": "B"}
_MOST = 1e30

Ceilings = Mapping[str, float | None]
"""The most of each of :data:`UNITS`; ``None`` where there is no limit."""


def check_limits(limits: Ceilings) -> None:
    """Refuse limits that nothing could keep to; ConfigError if one is not positive and finite."""
    for name, limit in limits.items():
        check_positive(f"--max-{name}-{UNITS[name].lower()}", limit, _MOST)


def keeping(cells: Sequence[Cell], limits: Ceilings) -> list[Cell]:
    """Return the cells that fit their device's memory and keep to all of ``limits``."""
    return [
        cell
        for cell in cells
        if cell.estimate is not None and cell.estimate.fits and not missed(cell.estimate, limits)
    ]


def missed(estimate: Estimate, limits: Ceilings) -> list[str]:
    """Say by which figures ``estimate`` breaks ``limits``; empty if by none."""
    figures = {
        "latency": estimate.latency_s,
        "energy": estimate.energy_j,
        "power": estimate.power_w,
        "memory": max(phase.memory.peak_b for phase in estimate.phases),
    }
    return over(figures, limits)


def over(figures: Mapping[str, float], limits: Ceilings) -> list[str]:
    """Say which of ``figures`` are above their limit; empty if none is."""
    return [
        f"{name} {quantity(figures[name], UNITS[name])} is above {quantity(limit, UNITS[name])}"
        for name, limit in limits.items()
        if limit is not None and figures[name] > limit
    ]
