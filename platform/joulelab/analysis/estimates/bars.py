"""Bars for the terminal, readable without colours."""

from collections.abc import Mapping

from rich.text import Text

from joulelab.estimator.estimate import Bound, EnergySplit

_EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
_FULL = "\u2588"
COMPONENT_MARKS = {
    "compute": (_FULL, "blue"),
    "memory": ("\u2593", "green"),
    "static": ("\u2591", "bright_black"),
}
"""Block and colour of each component of energy."""

BOUND_COLORS: Mapping[Bound, str] = {
    "compute": "blue",
    "memory": "green",
    "launch": "bright_black",
    "power": "red",
}


def bar(share: float, *, width: int = 20, style: str = "blue") -> Text:
    """Draw a share of 0 to 1, to an eighth of a character."""
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    full, rest = divmod(eighths, 8)
    drawn = _FULL * full + (_EIGHTHS[rest] if rest else "")
    return Text(drawn.ljust(width), style=style)


def stacked_bar(energy: EnergySplit, *, width: int = 12) -> Text:
    """Draw the three components side by side, together ``width`` characters."""
    shares = component_shares(energy)
    drawn, edge, done = Text(), 0.0, 0
    for name, share in shares.items():
        block, style = COMPONENT_MARKS[name]
        edge += share
        stop = round(width * edge)
        drawn.append(block * (stop - done), style=style)
        done = stop
    return drawn


def component_shares(energy: EnergySplit) -> dict[str, float]:
    """Return each component's share of the energy."""
    parts = {
        "compute": energy.compute_j,
        "memory": energy.memory_j,
        "static": energy.static_j,
    }
    total_j = energy.total_j
    return {name: part / total_j if total_j else 0.0 for name, part in parts.items()}


def component_legend() -> Text:
    """Say which block is which component."""
    drawn = Text()
    for name, (block, style) in COMPONENT_MARKS.items():
        drawn.append(block * 2, style=style).append(f" {name}   ")
    return drawn
