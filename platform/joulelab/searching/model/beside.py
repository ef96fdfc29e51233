"""Where nobody looked beside the choice: a law that fails is noticed only where it is tested."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from joulelab.searching.model.rows import Rows

_REACH = 0.7
"""How far from the choice is looked, in logarithms of clock or power limit."""
_GAP, _GROWTH, _GROWTH_LAWLESS = 0.03, 0.6, 0.2
"""Widest gap between neighbours that were measured: at the choice, and by the distance from it; the
last where the law is known to fail, so that a step may hide in any gap."""


def widest_gap(
    rows: Rows,
    choice: int,
    tried: NDArray[np.bool_],
    free: NDArray[np.bool_],
    *,
    is_lawless: bool = False,
) -> int | None:
    """Return a place in the middle of the widest gap beside the choice; ``None`` without any.

    Args:
        rows: All configurations.
        choice: Place of the choice.
        tried: Which were measured, or are being measured.
        free: Which may be measured.
        is_lawless: Whether the law of time and power is known to fail.
    """
    growth = _GROWTH_LAWLESS if is_lawless else _GROWTH
    found: list[tuple[float, int]] = []
    for axis, other in ((0, 1), (1, 0)):
        line = rows.cell == rows.cell[choice]
        line &= rows.place[:, other] == rows.place[choice, other]
        at = rows.place[:, axis] - rows.place[choice, axis]
        known = np.unique([-_REACH, *np.clip(at[line & tried], -_REACH, _REACH), _REACH])
        inside = np.flatnonzero(line & free & (np.abs(at) < _REACH))
        for low, high in pairwise(known):
            within = inside[(at[inside] > low) & (at[inside] < high)]
            wide = (high - low) / (_GAP + growth * min(abs(low), abs(high)))
            if len(within) and wide > 1.0:
                middle = np.argmin(np.abs(at[within] - (low + high) / 2))
                found.append((float(wide), int(within[middle])))
    return max(found)[1] if found else None
