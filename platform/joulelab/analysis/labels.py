"""Where names stand in a plot: beside what they name, and not upon anything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import hypot

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from joulelab.analysis.style import Place, note

_LETTER_PT, _LINE_PT = 5.1, 10.0
_OFFSETS_PT = (8.0, 18.0, 32.0, 48.0)
_END_PT = 11.0  # least distance between two names at the ends of curves
_UPON = 50.0  # how bad it is to lie upon another name, or outside
_CROWD = 10.0
"""How bad a place may be for a name that can go: it and its line touch a few dots at most."""

_NEAR_PT = 4.0
"""A line that passes a dot by less seems to go to it, and a name that is nearer to cover it."""

Places = NDArray[np.float64]  # shape (n, 2), in points


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


def write_labels(
    axes: Axes,
    labels: Sequence[Label],
    dots: Sequence[Place],
    *,
    written: Sequence[Bbox] = (),
    ringed: Sequence[Place] = (),
) -> None:
    """Write ``labels``, the first with the free choice, each where it covers the fewest ``dots``.

    The axes' limits are set already; dots are in data. Other names were ``written`` there before.
    A name must not seem to be that of a ``ringed`` dot, which has none.
    """
    point = 72 / axes.figure.dpi
    crowd = _Crowd(
        dots=point * axes.transData.transform(np.reshape(dots, (-1, 2))),
        marked=[_at(axes, x, y, point) for x, y in (*((e.x, e.y) for e in labels), *ringed)],
        taken=list(written),
        bounds=Bbox(point * axes.bbox.get_points()),
    )
    for label, dot in zip(labels, crowd.marked, strict=False):
        badness, offset, box = crowd.best_place(dot, _width(label))
        if label.can_go and badness >= _CROWD:
            continue
        crowd.taken.append(box)
        note(
            axes, label.text, (label.x, label.y), offset, size=label.size, color=label.color,
            ha="left" if offset[0] > 0 else "right" if offset[0] < 0 else "center",
            va="center" if offset[1] == 0 else "bottom" if offset[1] > 0 else "top",
            fontweight="bold" if label.is_strong else "normal",
            arrowprops=_leader(offset, label.color), zorder=9, annotation_clip=False,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crowd:
    """What names should leave free, in points."""

    dots: Places
    marked: Sequence[Place]  # the dots that have names, then those that could seem to
    taken: list[Bbox]  # where names are already
    bounds: Bbox

    def best_place(self, dot: Place, width: float) -> tuple[float, Place, Bbox]:
        """Return how bad the best place is, where from the dot it is, and what it takes."""
        found: list[tuple[float, Place, Bbox]] = []
        for offset in _offsets():
            if found and min(found)[0] < _farness(offset):
                break  # those that follow are as far at least
            box = _box(*dot, width, offset)
            found.append((self.badness(dot, offset, box), offset, box))
        return min(found)

    def badness(self, dot: Place, offset: Place, box: Bbox) -> float:
        """Return how much a name covers, how far off it is, and what its line crosses."""
        is_outside = self.bounds.count_contains(box.get_points()) < 2
        found = _UPON * (is_outside + box.count_overlaps(self.taken))
        found += 2 * box.padded(_NEAR_PT).count_contains(self.dots) + _farness(offset)
        if not _has_line(offset):  # then it should be nearest to its own dot
            own = _distance(box, dot)
            return found + 4.0 * any(_distance(box, other) < own for other in self.marked)
        line = np.array(dot) + np.outer(np.arange(1, 8) / 8, offset)
        crossed = sum(other.count_contains(line) > 0 for other in self.taken)
        nearest = np.hypot(*(line[:, None] - self.dots).T).min(axis=1)
        upon = np.sum((np.hypot(*(self.dots - dot).T) > _NEAR_PT) & (nearest < _NEAR_PT))
        return float(found + _UPON / 2 * crossed + 2 * upon)


def _farness(offset: Place) -> float:
    return max(map(abs, offset)) / 20


def _has_line(offset: Place) -> bool:
    return max(map(abs, offset)) > _OFFSETS_PT[0]


def _width(label: Label) -> float:
    return _LETTER_PT * label.size / 9 * (1.08 if label.is_strong else 1.0) * len(label.text)


def _leader(offset: Place, color: str) -> dict[str, object] | None:
    if not _has_line(offset):
        return None
    across, up = (0.5 - 0.5 * (part > 0) + 0.5 * (part < 0) for part in offset)
    line = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
    return {**line, "relpos": (across, up)}


def _offsets() -> list[Place]:
    """Return where a name may stand, the nearest places first."""
    parts = (1, -1, 0.5, -0.5, 0)
    return [
        (x * step, y * step)
        for step in _OFFSETS_PT
        for x, y in product(parts, parts)
        if max(abs(x), abs(y)) == 1 and (step > _OFFSETS_PT[0] or 0.5 not in (abs(x), abs(y)))
    ]


def _at(axes: Axes, x: float, y: float, point: float) -> Place:
    found = point * axes.transData.transform((x, y))
    return float(found[0]), float(found[1])


def _box(x: float, y: float, width: float, offset: Place) -> Bbox:
    right, up = offset
    left = x + right - (0 if right > 0 else width if right < 0 else width / 2)
    bottom = y + up - (_LINE_PT / 2 if up == 0 else 0 if up > 0 else _LINE_PT)
    return Bbox.from_bounds(left, bottom, width, _LINE_PT)


def _distance(box: Bbox, dot: Place) -> float:
    x, y = dot
    return hypot(max(box.x0 - x, 0, x - box.x1), max(box.y0 - y, 0, y - box.y1))


def joined(axes: Axes, places: Sequence[Place]) -> list[Place]:
    """Return points, in data, of the lines that join ``places``: names should leave them free."""
    back = axes.transData.inverted()
    ends = [np.array(_at(axes, x, y, 1.0)) for x, y in places]
    return [
        (float(x), float(y))
        for a, b in pairwise(ends)
        for x, y in back.transform([a + share * (b - a) for share in np.arange(0.1, 1.0, 0.1)])
    ]


def write_at_ends(axes: Axes, ends: Sequence[Label]) -> list[Bbox]:
    """Write each of ``ends``, the last of a curve, right of all dots, no two upon each other.

    Returns where they stand, for :func:`write_labels`.
    """
    point = 72 / axes.figure.dpi
    places = [_at(axes, end.x, end.y, point) for end in ends]
    left = max(x for x, _ in places) + 9
    heights = apart([y for _, y in places], _END_PT, point * axes.bbox.y1)
    for end, (x, y), height in zip(ends, places, heights, strict=True):
        look = {"va": "center", "fontweight": "bold", "annotation_clip": False}
        offset = left - x, height - y
        note(axes, end.text, (end.x, end.y), offset, size=end.size, color=end.color, **look)
    return [
        Bbox.from_bounds(left, height - _LINE_PT / 2, _width(end), _LINE_PT)
        for end, height in zip(ends, heights, strict=True)
    ]


def apart(heights: Sequence[float], least: float, ceiling: float) -> list[float]:
    """Move ``heights`` as little as keeps them ``least`` apart, and all below ``ceiling``."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + least)
    for rank, i in enumerate(reversed(order)):
        moved[i] = min(moved[i], ceiling - rank * least)
    return moved
