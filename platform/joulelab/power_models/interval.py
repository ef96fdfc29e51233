"""Intervals: where measured values are expected."""

from collections.abc import Iterator
from dataclasses import dataclass

from joulelab.power_models.runs import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interval:
    """Where measured values are expected, one entry per query.

    Attributes:
        lower: Lower ends, in the unit of the target.
        upper: Upper ends.
        level: Share of an unseen application's rows that they are to cover.
        outside: What is outside the training domain, where the interval was widened.
    """

    lower: Array
    upper: Array
    level: float
    outside: tuple[str, ...]

    def __iter__(self) -> Iterator[Array]:
        """Unpack into the lower and the upper ends."""
        return iter((self.lower, self.upper))
