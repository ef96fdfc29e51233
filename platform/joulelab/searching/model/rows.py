"""Configurations as the law sees them, and what was measured of some."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Configurations as the law sees them.

    Attributes:
        cell: Number of the cell; shape ``(n,)``.
        ratio: Requested clock over the highest.
        limit_w: Power at which the clock falls; infinite where it never does.
        asked_w: Power limit that is asked for; infinite where none is.
        place: Where they are on the axes of the operating point, logarithms; shape ``(n, 2)``.
        board: Number of the board; 0 is the one that others are compared with.
        warmth_k: By how much the board was warmer than such a power makes it.
    """

    cell: Index
    ratio: Array
    limit_w: Array
    asked_w: Array
    place: Array
    board: Index
    warmth_k: Array

    def at(self, places: Index) -> "Rows":
        """Return some of the rows."""
        return Rows(**{field.name: getattr(self, field.name)[places] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What was measured at some rows.

    Attributes:
        rows: Where.
        logs: Logarithms of time and power; shape ``(n, 2)``.
        u: Their stated standard uncertainties; shape ``(n, 2)``.
    """

    rows: Rows
    logs: Array
    u: Array
