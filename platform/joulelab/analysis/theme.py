"""Plots that take the colours of the page they stand on, light or dark."""

import re
from io import StringIO

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from joulelab.analysis import style

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


def themed(svg: str, prefix: str) -> Markup:
    """Give an SVG element the colours and the width of the page, and ids of its own.

    Args:
        svg: Of a figure drawn in the palette of :mod:`joulelab.analysis.style`.
        prefix: Put before every id, so that plots on one page do not meet.
    """
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}', svg)
    for color, ink in _INKS.items():
        svg = svg.replace(color, f"var(--{ink})")
    return Markup(svg)  # noqa: S704 - drawn by us; the texts in it are escaped by matplotlib
