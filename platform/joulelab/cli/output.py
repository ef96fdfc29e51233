"""Numbers in words: SI prefixes, and as many digits as the uncertainty leaves."""

from math import floor, isfinite, log10

_PREFIXES = {
    -15: "f",
    -12: "p",
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
}

_NEGLIGIBLE = 1e-6


def quantity(value: float, unit: str, *, digits: int = 4) -> str:
    """Write a number with an SI prefix: ``quantity(0.0123, "J")`` is ``"12.3 mJ"``."""
    exponent = _exponent(value)
    return f"{value / 10**exponent:.{digits}g} {_PREFIXES[exponent]}{unit}"


def uncertain(value: float, u: float, unit: str) -> str:
    """Write a number with its uncertainty, both to the uncertainty's second digit.

    ``uncertain(0.012345, 0.000067, "J")`` is ``"12.345 +- 0.067 mJ"``.

    Args:
        value: The number.
        u: Its standard uncertainty, not negative; below a millionth of the number it is left
            out, since nothing here is known that well.
        unit: Unit of both, without prefix.
    """
    if not (u > _NEGLIGIBLE * abs(value) and isfinite(u)):
        return quantity(value, unit, digits=6)
    exponent = _exponent(value)
    scaled, scaled_u = value / 10**exponent, u / 10**exponent
    decimals = max(0, 1 - floor(log10(scaled_u)))
    return f"{scaled:.{decimals}f} +- {scaled_u:.{decimals}f} {_PREFIXES[exponent]}{unit}"


def _exponent(value: float) -> int:
    """Power of a thousand that leaves one to three digits before the point."""
    if value == 0 or not isfinite(value):
        return 0
    exponent = 3 * floor(log10(abs(value)) / 3 + 1e-12)
    return max(min(_PREFIXES), min(max(_PREFIXES), exponent))
