"""Constraints of a search in words: what they ask for, and by how much a configuration misses."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, expm1

from joulelab.searching.constraints import AT_LEAST, Against, Constraint, Miss, Quantity

_USUAL: dict[Against, str] = {
    "cell": "the driver's clock at the same knobs",
    "baseline": "the baseline",
}
_BOUNDS: dict[Quantity, str] = {
    "quality": "{bound:.3g} of the reference's quality",
    "slowdown": "{percent:.3g} % more time than {usual}",
    "latency_s": "{bound:g} s for a request",
    "ttft_s": "{bound:g} s to the first token",
    "tpot_s": "{bound:g} s for each further token",
    "throughput_per_s": "{bound:g} units of work per second",
    "power_w": "{bound:g} W",
    "temperature_c": "{bound:g} degrees Celsius",
    "memory_b": "{giga:.4g} GB of device memory",
}
_FASTER = "smaller batches, narrower formats, shorter requests"
_CHANGES: dict[Quantity, str] = {
    "quality": "wider formats",
    "slowdown": "higher clocks",
    "latency_s": _FASTER,
    "ttft_s": _FASTER,
    "tpot_s": _FASTER,
    "throughput_per_s": "larger batches, narrower formats",
    "power_w": "lower clocks, smaller batches",
    "temperature_c": "lower clocks, smaller batches",
    "memory_b": "smaller batches, narrower formats",
}
"""What is searched to keep to a bound, besides another GPU."""
_TWICE = 2.0
"""Ratio from which on a miss is told as a factor."""


def constraint_words(constraint: Constraint) -> str:
    """Say what a constraint asks for: ``"at most 300 W"``."""
    side = "at least" if constraint.quantity in AT_LEAST else "at most"
    return f"{side} {_value_words(constraint)}"


def miss_words(miss: Miss) -> str:
    """Say what a configuration takes where that is too much: ``"412 W (37 % too much)"``."""
    is_low = miss.constraint.quantity in AT_LEAST
    ratio, too = exp(miss.excess), "little" if is_low else "much"
    value = _value_words(replace(miss.constraint, bound=float(f"{miss.value:.4g}")))
    if ratio >= _TWICE:
        return f"{value} (too {too} by a factor of {float(f'{ratio:.3g}'):,g})"
    share = -expm1(-miss.excess) if is_low else expm1(miss.excess)
    return f"{value} ({100 * share:.2g} % too {too})"


def advice_words(missed: Sequence[Quantity]) -> str:
    """Say what to change where nothing keeps to bounds on some quantities."""
    changes = ", ".join(dict.fromkeys(", ".join(_CHANGES[each] for each in missed).split(", ")))
    return f"Ask for less, or search what was not: {changes}, another GPU."


def _value_words(constraint: Constraint) -> str:
    bound = constraint.bound
    usual = _USUAL[constraint.against]
    return _BOUNDS[constraint.quantity].format(
        bound=bound, percent=100 * bound, giga=bound / 1e9, usual=usual
    )
