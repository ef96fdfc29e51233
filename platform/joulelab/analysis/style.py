"""How plots look: one palette, colour-blind safe, that a page can turn dark, and quiet axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from joulelab.analysis.quantities import quantity

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
    return f"{value:g}" if value < 1e6 else quantity(value, "", digits=3).replace("G", "B")


_LETTER_PT, _LINE_PT = 5.1, 10.0
_OFFSETS_PT = (8.0, 18.0, 32.0, 48.0)
_UPON = 50.0
"""How bad it is to lie upon another name, or outside."""

Box = tuple[float, float, float, float]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A name to be written beside a dot in data; one that ``can_go`` is left out in a crowd."""

    x: float
    y: float
    text: str
    color: str
    is_strong: bool
    size: float = 9.0
    can_go: bool = False


def write_labels(axes: Axes, labels: Sequence[Label], dots: Sequence[tuple[float, float]]) -> None:
    """Write ``labels``, the first with the free choice, each where it covers the fewest ``dots``.

    The axes' limits are set already; dots are in data.
    """
    point = 72 / axes.figure.dpi
    places = [_at(axes, x, y, point) for x, y in dots]
    bounds = tuple(point * edge for edge in axes.bbox.extents)
    taken: list[Box] = []
    for label in labels:
        x, y = _at(axes, label.x, label.y, point)
        letter = _LETTER_PT * label.size / 9 * (1.08 if label.is_strong else 1.0)
        width = letter * len(label.text)
        badness, offset, box = min(
            (_badness(o, box, places, taken, bounds) + _across((x, y), o, taken), o, box)
            for o, box in ((o, _box(x, y, width, o)) for o in _offsets())
        )
        if label.can_go and badness >= _UPON:
            continue
        taken.append(box)
        axes.annotate(
            label.text, (label.x, label.y), xytext=offset, textcoords="offset points",
            ha="left" if offset[0] > 0 else "right" if offset[0] < 0 else "center",
            va="center" if offset[1] == 0 else "bottom" if offset[1] > 0 else "top",
            color=label.color, fontsize=label.size,
            fontweight="bold" if label.is_strong else "normal",
            arrowprops=_leader(offset, label.color), zorder=9, annotation_clip=False,
        )  # fmt: skip


def _leader(offset: tuple[float, float], color: str) -> dict[str, object] | None:
    if max(map(abs, offset)) <= _OFFSETS_PT[0]:
        return None
    across, up = (0.5 - 0.5 * (part > 0) + 0.5 * (part < 0) for part in offset)
    line = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
    return {**line, "relpos": (across, up)}


def _offsets() -> list[tuple[float, float]]:
    """Return where a name may stand, the nearest places first."""
    return [
        (x * step, y * step)
        for step in _OFFSETS_PT
        for x, y in product((1, -1, 0), (0, 1, -1))
        if x or y
    ]


def _at(axes: Axes, x: float, y: float, point: float) -> tuple[float, float]:
    found = point * axes.transData.transform((x, y))
    return float(found[0]), float(found[1])


def _box(x: float, y: float, width: float, offset: tuple[float, float]) -> Box:
    right, up = offset
    left = x + right - (0 if right > 0 else width if right < 0 else width / 2)
    bottom = y + up - (_LINE_PT / 2 if up == 0 else 0 if up > 0 else _LINE_PT)
    return left, bottom, left + width, bottom + _LINE_PT


def _across(dot: Place, offset: Place, taken: Sequence[Box]) -> float:
    """Return how bad it is that the line from a dot to its name crosses other names."""
    if max(map(abs, offset)) <= _OFFSETS_PT[0]:
        return 0.0
    line = [(dot[0] + k / 8 * offset[0], dot[1] + k / 8 * offset[1]) for k in range(1, 8)]
    crossed = sum(
        any(left <= x <= right and bottom <= y <= top for x, y in line)
        for left, bottom, right, top in taken
    )
    return _UPON / 2 * crossed


def _badness(
    offset: tuple[float, float],
    box: Box,
    dots: Sequence[tuple[float, float]],
    taken: Sequence[Box],
    bounds: tuple[float, ...],
) -> float:
    """Return how much a place covers, and how far off it is."""
    left, bottom, right, top = box
    outside = left < bounds[0] or bottom < bounds[1] or right > bounds[2] or top > bounds[3]
    margin = 4.0
    covered = sum(
        left - margin < x < right + margin and bottom - margin < y < top + margin for x, y in dots
    )
    crossed = sum(
        left < other[2] and other[0] < right and bottom < other[3] and other[1] < top
        for other in taken
    )
    return _UPON * (outside + crossed) + 2 * covered + max(map(abs, offset)) / 20
