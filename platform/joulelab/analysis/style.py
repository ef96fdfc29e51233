"""How plots look: one palette, colour-blind safe, that a page can turn dark, and quiet axes."""

from collections.abc import Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from joulelab.analysis.quantities import brief

# Okabe and Ito, "Color Universal Design", 2008. A page replaces each by a variable of its own.
INK = "#1b1f24"
MUTED = "#6a737d"
GRID = "#e3e7eb"
PAPER = "#fefefe"
CURVE = "#0072b2"
BEST = "#d55e00"
EQUAL = "#009e73"
CAPPED = "#9aa3ad"

COVERAGE = 2
"""Bars are expanded uncertainties with this coverage factor."""

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": CAPPED,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.linewidth": 0.8,
    "svg.hashsalt": "joulelab",
}


def tidy(axes: Axes, title: str, unit: str, x_label: str) -> None:
    """Give ``axes`` a title where the eye starts, a quiet grid, and no box."""
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=16)
    axes.annotate(
        unit, (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points",
        color=MUTED, fontsize=8.5,
    )  # fmt: skip
    axes.set_xlabel(x_label, fontsize=8.5)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5)


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


def fit_axis(
    axes: Axes,
    which: Literal["x", "y"],
    values: Sequence[float],
    *,
    has_log: bool,
    below: float,
    above: float,
) -> None:
    """Give an axis the scale for ``values`` and the :func:`limits` around them."""
    low, high = limits(values, has_log=has_log, below=below, above=above)
    axes.set(**{f"{which}scale": "log"} if has_log else {}, **{f"{which}lim": (low, high)})
    if has_log:
        plain_log_ticks(axes, which)


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
    return f"{value:g}" if value < 1e6 else brief(value, "").replace("G", "B")
