"""Numbers as text: SI prefixes, and as many digits as the uncertainty leaves."""

from collections.abc import Iterable, Sequence
from math import floor, isfinite, isinf, log10
from statistics import median

from joulelab.core.additive import Interval, more
from joulelab.core.point import OperatingPoint

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"

_PREFIXES = {
    -15: "f",
    -12: "p",
    -9: "n",
    -6: "\N{MICRO SIGN}",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
}

_NEGLIGIBLE = 1e-6


def counted(num: int, noun: str) -> str:
    """Count something, ``"1 board"`` or ``"2 boards"``."""
    return f"{num} {noun}{'' if num == 1 else 's'}"


def si_scale(values: Iterable[float]) -> tuple[float, str]:
    """Return by what to multiply ``values`` and the SI prefix to write before their unit.

    Only positive ones count.
    """
    found = [value for value in values if value > 0 and isfinite(value)]
    exponent = _exponent(median(found) if found else 0.0)
    return 10.0**-exponent, _PREFIXES[exponent]


def decimals_for(value: float, *, digits: int = 2) -> int:
    """Return how many decimals show ``value`` to ``digits`` digits (0 to 6)."""
    return min(max(digits - 1 - floor(log10(value)), 0), 6) if value > 0 else 2


def common_scale(values: Sequence[float], us: Sequence[float]) -> tuple[float, str, int]:
    """Return by what to multiply ``values``, their SI prefix, and the decimals that suit them all.

    Those are of the median of their uncertainties ``us`` that are known, else four digits.
    """
    factor, prefix = si_scale(values)
    known = [u * factor for u in us if u and isfinite(u)]
    if known:
        return factor, prefix, decimals_for(median(known))
    return factor, prefix, decimals_for(max((v * factor for v in values), default=1.0), digits=4)


def quantity(value: float, unit: str, *, digits: int = 4) -> str:
    """Write a number with an SI prefix: ``quantity(0.0123, "J")`` is ``"12.3 mJ"``.

    Bytes have none below one, since thousandths of them would be taken for millions.
    """
    if not isfinite(value) or value == 0:
        return f"{value:g} {unit}"
    rounded = float(f"{value:.{digits}g}")  # 999.96 is 1 k in four digits
    exponent = _exponent(abs(rounded))
    if unit == "B":
        exponent = max(0, exponent)
    scaled = rounded / 10.0**exponent
    decimals = max(0, digits - 1 - floor(log10(abs(scaled)))) if abs(scaled) < 10**digits else 0
    text = f"{scaled:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {_PREFIXES[exponent]}{unit}"


def spell(length_s: float) -> str:
    """Write a stretch of time in the unit that suits it: ``"45 s"``, ``"12 min"``, ``"3.1 h"``."""
    if length_s <= 90:
        return f"{length_s:.0f} s"
    if length_s < 5400:
        return f"{length_s / 60:.0f} min"
    return f"{length_s / 3600:.1f} h"


def brief(value: float, unit: str) -> str:
    """Write a number to three digits, which is as well as it is known or wanted."""
    return quantity(value, unit, digits=3)


def uncertain(value: float, u: float, unit: str) -> str:
    """Write a number with its uncertainty, both to the uncertainty's second digit.

    ``uncertain(0.012345, 0.000067, "J/token")`` is ``"12.345 ± 0.067 mJ/token"``. A standard
    uncertainty below a millionth is left out, since nothing here is known that well.
    """
    if not (u > _NEGLIGIBLE * abs(value) and isfinite(u)):
        return quantity(value, unit, digits=6)
    exponent = _exponent(abs(value))
    scaled, scaled_u = value / 10.0**exponent, u / 10.0**exponent
    decimals = decimals_for(scaled_u)
    number = f"{scaled:.{decimals}f} {PLUS_MINUS} {scaled_u:.{decimals}f}"
    return f"{number} {_PREFIXES[exponent]}{unit}"


def percent(interval: Interval, *, sign: bool = True) -> str:
    """Write a share with its interval, ``"+2.1 % ± 0.3 %"``."""
    half = 100 * interval.half_width
    if isinf(half):
        return f"{100 * interval.value:{'+' if sign else ''}.1f} %"
    decimals = min(max(-floor(log10(half)), 1), 3) if half > 0 else 1
    plus = "+" if sign else ""
    return f"{100 * interval.value:{plus}.{decimals}f} % ± {half:.{decimals}f} %"


def change(ratio: Interval) -> str:
    """Write a ratio as what is added, with its interval."""
    return percent(more(ratio))


def point_name(point: OperatingPoint, *, limit: str = "W limit") -> str:
    """Write an operating point, ``"1095 MHz"`` or ``"the driver's default"``.

    ``limit`` stands behind the number of a power limit.
    """
    parts = [
        "" if point.sm_clock_mhz is None else f"{point.sm_clock_mhz} MHz",
        "" if point.mem_clock_mhz is None else f"memory {point.mem_clock_mhz} MHz",
        "" if point.power_limit_w is None else f"{point.power_limit_w:g} {limit}",
    ]
    return ", ".join(part for part in parts if part) or "the driver's default"


def upper(text: str) -> str:
    """Begin ``text`` with a capital."""
    return text[0].upper() + text[1:]


def _exponent(value: float) -> int:
    """Power of a thousand that leaves one to three digits before the point."""
    if not (value > 0 and isfinite(value)):
        return 0
    exponent = floor(log10(value) / 3 + 1e-12) * 3
    return min(max(exponent, min(_PREFIXES)), max(_PREFIXES))
