"""How plots look: one palette, colour-blind safe, that a page can turn dark."""

from typing import Any

from matplotlib.axes import Axes

# Okabe and Ito, "Color Universal Design", 2008. A page replaces each by a variable of its own.
INK = "#1b1f24"
MUTED = "#6a737d"
GRID = "#e3e7eb"
PAPER = "#fefefe"
CURVE = "#0072b2"
BEST = "#d55e00"
EQUAL = "#009e73"
CAPPED = "#9aa3ad"

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
