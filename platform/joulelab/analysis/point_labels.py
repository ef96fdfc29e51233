"""Operating points by their labels, on an axis of one of their knobs."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from joulelab.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One knob of a GPU.

    Attributes:
        name: Field of :class:`joulelab.core.point.OperatingPoint`.
        title: How an axis calls it, with its unit.
    """

    name: str
    title: str


KNOBS = (
    Knob(name="sm_clock_mhz", title="SM clock, MHz"),
    Knob(name="power_limit_w", title="power limit, W"),
    Knob(name="mem_clock_mhz", title="memory clock, MHz"),
)
"""Those that an axis may have, the first choice first."""

_PARTS = {
    "sm_clock_mhz": re.compile(r"(\d+)MHz"),
    "mem_clock_mhz": re.compile(r"mem(\d+)MHz"),
    "power_limit_w": re.compile(r"([\d.]+(?:e\+\d+)?)W"),
}


def knob_of(labels: Collection[str]) -> Knob:
    """Return the first knob that has several values among ``labels``, else that has one.

    Raises:
        ConfigError: If no label sets a knob.
    """
    values = {knob: {placed(label, knob)[0] for label in labels} - {None} for knob in KNOBS}
    for num in (2, 1):
        for knob, found in values.items():
            if len(found) >= num:
                return knob
    raise ConfigError(f"No knob is set at {', '.join(labels)}, so that no axis can show them.")


def placed(label: str, knob: Knob) -> tuple[float | None, str]:
    """Return the value of ``knob`` at a labelled point, and the label of the other knobs.

    The value is ``None`` where the point leaves the knob to the driver.
    """
    value, rest = None, []
    for part in label.split("-"):
        if (found := _PARTS[knob.name].fullmatch(part)) is not None:
            value = float(found[1])
        else:
            rest.append(part)
    return value, "-".join(rest)
