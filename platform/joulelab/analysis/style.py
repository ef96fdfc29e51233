"""How plots look: one palette, colour-blind safe, that a page can turn dark, and quiet axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import matplotlib as mpl
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
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "joulelab",
}


in_style = mpl.rc_context(RC)
"""Decorates what draws a figure."""

Place = tuple[float, float]
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot(Generic[RowT]):
    """A row where it is drawn, in units of the axes, with standard uncertainties."""

    row: RowT
    x: float
    y: float
    y_u: float
    x_u: float = 0.0

    @property
    def bar(self) -> list[Place]:
        """Places along its vertical bar, which names should leave free."""
        return [(self.x, self.y + k / 2 * COVERAGE * self.y_u) for k in range(-2, 3)]

    @property
    def bars(self) -> list[Place]:
        """Places along both of its bars."""
        return self.bar + [(self.x + k / 2 * COVERAGE * self.x_u, self.y) for k in (-2, -1, 1, 2)]


def draw_dots(axes: Axes, dots: Sequence[Dot[Any]], **look: Any) -> None:
    """Draw ``dots`` with their expanded uncertainties."""
    axes.errorbar(
        [dot.x for dot in dots],
        [dot.y for dot in dots],
        xerr=[COVERAGE * dot.x_u for dot in dots] if any(dot.x_u for dot in dots) else None,
        yerr=[COVERAGE * dot.y_u for dot in dots],
        elinewidth=0.9,
        **look,
    )


def note(
    axes: Axes, text: str, at: Place, offset: Place = (0, 0), *, size: float = 8.5, **look: Any
) -> None:
    """Write ``text`` at so many points from a place in data, unless ``xycoords`` says otherwise."""
    look = {"color": MUTED, "fontsize": size, **look}
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **look)


def tidy(axes: Axes, title: str, unit: str, x_label: str) -> None:
    """Give ``axes`` a title where the eye starts, a quiet grid, and no box."""
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=16)
    note(axes, unit, (0, 1), (0, 5), xycoords="axes fraction")
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


def fit_axis(
    axes: Axes,
    which: Literal["x", "y"],
    values: Sequence[float],
    *,
    has_log: bool,
    below: float,
    above: float,
) -> None:
    """Give an axis the scale for ``values``, with shares of its length free on both sides."""
    low, high = min(values), max(values)
    if has_log:
        ratio = high / low
        ends = low / ratio**below, high * ratio**above
    else:
        length = (high - low) or abs(high) or 1.0
        ends = low - below * length, high + above * length
    axes.set(**{f"{which}scale": "log"} if has_log else {}, **{f"{which}lim": ends})
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
