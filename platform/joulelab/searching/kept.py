"""What outputs keep of the reference's quality, as far as it is known before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from joulelab.errors import ConfigError
from joulelab.searching.space import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The share of the reference's quality that the outputs of a cell keep.

    Attributes:
        retention: The share, 1 for as good; 0 if the quality is lost.
        outputs: Which outputs these are: cells of the same outputs share their error as well.
        u: Standard uncertainty of ``retention``; ``None`` if there is none.
    """

    retention: float
    outputs: str
    u: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.retention < inf:
            raise ConfigError(f"retention must be at least 0, got {self.retention:g}.")
        if self.u is not None and not 0 <= self.u < inf:
            raise ConfigError(f"u must be None or at least 0, got {self.u:g}.")

    @property
    def relative_u(self) -> float:
        """Relative standard uncertainty of :attr:`retention`; 0 where it has none."""
        return (self.u or 0.0) / (self.retention or 1.0)


Qualities = Mapping[Cell, Kept]
"""What each cell keeps: quality depends on the workload's knobs, and on no clock."""
