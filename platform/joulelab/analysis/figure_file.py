"""Figures: what stands above their panels, and their files, whole or not at all."""

import re
from collections.abc import Callable, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from textwrap import wrap

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis import style
from joulelab.analysis.style import MUTED, RC, in_style
from joulelab.tracking.durable import write_whole

_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def save_figure(figure: Figure, *paths: Path) -> None:
    """Write ``figure`` to every one of ``paths``, whose suffix says how; the same bytes each time.

    Raises:
        TrackingError: If a file cannot be written; what was there before is left.
    """
    for path in paths:
        drawn, kind = BytesIO(), path.suffix[1:]
        with mpl.rc_context({**RC, "pdf.fonttype": 42}):  # letters as such, as journals ask for
            figure.savefig(drawn, format=kind, dpi=180, metadata=_UNDATED.get(kind))
        write_whole(path, drawn.getvalue())


WIDTH_IN = 11.0
_NOTE_IN = 0.16
_WIDE_PT = 1170.0
"""Letters of a point that a line of bold text has room for, about."""
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
    lines = [part for each in answer for part in wrap(_joined(each), int(_WIDE_PT / size))]
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


_WITHIN = re.compile(r"(?<=\d) (?=[%±])|(?<=±) |(?<=\d) (?=[a-zµA-Z]{1,6}(?:/|\b))")


def _joined(answer: str) -> str:
    """Return an answer whose lines do not break between numbers and what belongs to them."""
    return _WITHIN.sub("\N{NO-BREAK SPACE}", answer)


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
    axes.set_title(title, loc="left", fontsize=8, fontweight="bold", pad=16)
    return figure


def save_png_and_svg(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Write ``figure`` as ``stem``.png and ``stem``.svg and return their paths."""
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    save_figure(figure, png, svg)
    return png, svg


_INKS = {
    style.INK: "ink",
    style.MUTED: "muted",
    style.GRID: "grid",
    style.PAPER: "paper",
    style.CURVE: "curve",
    style.BEST: "best",
    style.EQUAL: "equal",
    style.CAPPED: "capped",
}


def svg_of(figure: Figure) -> str:
    """Return ``figure`` as an SVG element whose text is text."""
    drawn = StringIO()
    with mpl.rc_context({**style.RC, "svg.fonttype": "none"}):
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
