"""Axes of a plot: logarithmic where values range far, with plain numbers, and room at the ends."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from joulelab.analysis.quantities import quantity

_LOG_FROM = 4.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


def is_wide(values: Sequence[float]) -> bool:
    """Whether positive ``values`` range so far that an axis should be logarithmic."""
    return min(values) > 0 and max(values) / min(values) >= _LOG_FROM


def limits(
    values: Sequence[float], *, has_log: bool, below: float, above: float
) -> tuple[float, float]:
    """Return limits that leave shares of the length free below and above."""
    low, high = min(values), max(values)
    if has_log:
        ratio = high / low
        return low / ratio**below, high * ratio**above
    length = (high - low) or abs(high) or 1.0
    return low - below * length, high + above * length


def plain_log_ticks(axes: Axes, which: Literal["x", "y"]) -> None:
    """Label a logarithmic axis, whose limits are set, with plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis.set_major_locator(LogLocator(subs=_subs(high / low)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axis.set_minor_locator(NullLocator())


def _subs(ratio: float) -> tuple[float, ...]:
    """Return which numbers of each decade are labelled on an axis over that ratio."""
    if ratio < 10:
        return (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    return (1.0, 2.0, 5.0) if ratio < 300 else (1.0,)


def _tick(value: float) -> str:
    return f"{value:g}" if value < 1e6 else quantity(value, "", digits=3).replace("G", "B")
