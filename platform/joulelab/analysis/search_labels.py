"""Names beside the dots of a plot, where they cover as little as possible."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from matplotlib.axes import Axes

_LETTER_PT, _LINE_PT = 5.1, 10.0
_OFFSETS_PT = (8.0, 18.0, 32.0)

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A name to be written beside a dot.

    Attributes:
        x: Where the dot is, in data.
        y: Where the dot is, in data.
        text: What to write.
        color: Its colour.
        is_strong: Whether it is bold.
    """

    x: float
    y: float
    text: str
    color: str
    is_strong: bool


def write_labels(axes: Axes, labels: Sequence[Label], dots: Sequence[tuple[float, float]]) -> None:
    """Write ``labels``, the first with the free choice, each where it covers the fewest dots.

    Args:
        axes: Where to write; its limits are set.
        labels: What to write.
        dots: All dots, in data.
    """
    point = 72 / axes.figure.dpi
    places = [_at(axes, x, y, point) for x, y in dots]
    bounds = tuple(point * edge for edge in axes.bbox.extents)
    taken: list[Box] = []
    for label in labels:
        x, y = _at(axes, label.x, label.y, point)
        width = _LETTER_PT * len(label.text) * (1.08 if label.is_strong else 1.0)
        offset, box = min(
            ((o, _box(x, y, width, o)) for o in _offsets()),
            key=lambda pair: _badness(pair[0], pair[1], places, taken, bounds),
        )
        taken.append(box)
        axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=offset,
            textcoords="offset points",
            ha="left" if offset[0] > 0 else "right" if offset[0] < 0 else "center",
            va="center" if offset[1] == 0 else "bottom" if offset[1] > 0 else "top",
            color=label.color,
            fontsize=9,
            fontweight="bold" if label.is_strong else "normal",
            arrowprops=_leader(offset, label.color),
            zorder=9,
            annotation_clip=False,
        )


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
    return 50 * outside + 50 * crossed + 2 * covered + max(map(abs, offset)) / 20
