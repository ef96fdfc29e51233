"""How plots look: one palette, quiet axes, a head above the panels; and their files."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from textwrap import wrap
from typing import Any, Generic, Literal, TypeVar

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from joulelab.analysis.quantities import brief
from joulelab.tracking.durable import write_whole

# Okabe and Ito, "Color Universal Design", 2008. A page replaces each by a variable of its own.
INK = "#1b1f24"
MUTED = "#6a737d"
GRID = "#e3e7eb"
PAPER = "#fefefe"
CURVE = "#0072b2"
BEST = "#d55e00"
EQUAL = "#009e73"
CAPPED = "#9aa3ad"

COVERAGE = 2  # bars are expanded uncertainties with this coverage factor

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


in_style = mpl.rc_context(RC)  # decorates what draws a figure

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
    # A place of its own: else ticks are laid out once more to see whether the title meets any.
    axes.set_title(title, loc="left", y=1.0, fontsize=10.5, fontweight="bold", pad=16)
    note(axes, unit, (0, 1), (0, 5), xycoords="axes fraction")
    axes.set_xlabel(x_label, fontsize=8.5)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5)


_LOG_FROM = 4.0  # ratio of the largest to the smallest value from which an axis is logarithmic


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
    axis.set_major_formatter(
        FuncFormatter(lambda v, _: f"{v:g}" if v < 1e6 else brief(v, "").replace("G", "B"))
    )
    axis.set_minor_locator(NullLocator())


def _subs(ratio: float) -> tuple[float, ...]:
    """Return which numbers of each decade are labelled on an axis over that ratio."""
    if ratio < 10:
        return (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    return (1.0, 2.0, 5.0) if ratio < 300 else (1.0,)


_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def save_figure(figure: Figure, *paths: Path) -> None:
    """Write ``figure`` to every one of ``paths``, whose suffix says how; the same bytes each time.

    Raises TrackingError if a file cannot be written; what was there before is left.
    """
    for path in paths:
        drawn, kind = BytesIO(), path.suffix[1:]
        with mpl.rc_context({**RC, "pdf.fonttype": 42}):  # letters as such, as journals ask for
            figure.savefig(drawn, format=kind, dpi=180, metadata=_UNDATED.get(kind))
        write_whole(path, drawn.getvalue())


WIDTH_IN = 11.0
_NOTE_IN = 0.16
_WIDE_PT = 1170.0  # letters of a point that a line of bold text has room for, about
_SHORT = 150
"""Letters of an answer that stands above a figure as it is; of a longer one the first clause."""


def headline(answer: str) -> str:
    """Return an answer as short as a title should be; reports hold the whole of it."""
    if len(answer) <= _SHORT:
        return answer
    first = answer.partition(";")[0].rstrip(".")
    return f"{first}."


def headed_figure(
    answer: Sequence[str], about: str, *, panels_in: float, size: float, left: float = 0.06
) -> Figure:
    """Return a figure with room for panels, in inches with titles, below what is said of them.

    Without sentences in ``answer``, which stand above in letters of ``size`` points, it has no
    head. ``left`` is where lines and panels begin, as a share of the width.
    """
    kept = [_WITHIN.sub("\N{NO-BREAK SPACE}", each) for each in answer]
    lines = [part for each in kept for part in wrap(each, int(_WIDE_PT / size))]
    notes = wrap(about, 150) if lines else []
    line_in = 1.35 * size / 72
    head_in = 0.35 + line_in * len(lines) + _NOTE_IN * len(notes) if lines else 0.0
    height_in = head_in + panels_in
    figure = Figure(figsize=(WIDTH_IN, height_in))
    figure.subplots_adjust(
        left=left, right=0.98, top=1 - (head_in + 0.5) / height_in, bottom=0.5 / height_in
    )
    top = 1 - 0.15 / height_in
    below = top - (line_in * len(lines) + 0.06) / height_in
    figure.text(
        left, top, "\n".join(lines), fontsize=size, fontweight="bold", va="top", linespacing=1.3
    )
    figure.text(left, below, "\n".join(notes), color=MUTED, fontsize=9, va="top", linespacing=1.3)
    return figure


# Spaces between numbers and what belongs to them, where lines should not break.
_WITHIN = re.compile(r"(?<=\d) (?=[%±])|(?<=±) |(?<=\d) (?=[a-zµA-Z]{1,6}(?:/|\b))")


COLUMN_IN, PAGE_IN = 3.5, 7.16
"""Widths of a column and of a page of two columns, IEEE's; ACM's are 5 % narrower."""


@in_style
def panel_figure(draw: Callable[[Axes], None]) -> Figure:
    """Return one panel for a paper, as wide as a column of text and without a head."""
    figure = Figure(figsize=(COLUMN_IN, 2.5))
    figure.subplots_adjust(left=0.14, right=0.93, top=0.8, bottom=0.18)
    axes = figure.add_subplot()
    draw(axes)
    title = axes.get_title(loc="left")
    axes.set_title(title, loc="left", y=1.0, fontsize=8, fontweight="bold", pad=16)
    return figure


def save_png_and_svg(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Write ``figure`` as ``stem``.png and ``stem``.svg and return their paths."""
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    save_figure(figure, png, svg)
    return png, svg


_INKS = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "paper",
    CURVE: "curve",
    BEST: "best",
    EQUAL: "equal",
    CAPPED: "capped",
}


def svg_of(figure: Figure) -> str:
    """Return ``figure`` as an SVG element whose text is text."""
    drawn = StringIO()
    with mpl.rc_context({**RC, "svg.fonttype": "none"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None}, transparent=True)
    _, tag, element = drawn.getvalue().partition("<svg")
    return tag + element


def themed_svg(figure: Figure, prefix: str) -> Markup:
    """Return ``figure`` as an SVG element with the colours and the width of the page.

    It is drawn in the palette of :mod:`joulelab.analysis.style`; ``prefix`` is put before every
    id, so that plots on one page do not meet.
    """
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg_of(figure), flags=re.DOTALL)
    for side in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {side}="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", svg)
    for color, ink in _INKS.items():
        svg = svg.replace(color, f"var(--{ink})")
    return Markup(svg)  # noqa: S704 - drawn by us; the texts in it are escaped by matplotlib
