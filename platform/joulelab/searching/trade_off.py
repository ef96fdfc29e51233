"""What of a search trades energy, time and quality for each other: the front, and its knee."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures
from joulelab.searching.standing import LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A configuration with what was measured of it, repeats taken together.

    Attributes:
        configuration: The configuration.
        figures: Its energy and time on the average board and its quality, with standard
            uncertainties.
    """

    configuration: Configuration
    figures: Figures


def pareto_front(choices: Sequence[Choice], *, level: float = LEVEL) -> tuple[Choice, ...]:
    """Return what no other of ``choices`` beats in energy, time and quality, the fastest first.

    Quality counts if all were evaluated, and where its difference is significant: what costs more
    in energy and in time is on the front only if it surely keeps more quality than what costs less.

    Args:
        choices: What to choose from.
        level: Confidence at which two qualities differ.
    """
    front: list[Choice] = []
    has_quality = _has_quality(choices)
    for choice in sorted(choices, key=_cheapest_first):
        if not any(_beats(other, choice, has_quality, level) for other in front):
            front.append(choice)
    return tuple(sorted(front, key=lambda choice: choice.figures.time_s))


def knee_of(front: Sequence[Choice], *, level: float = LEVEL) -> Choice:
    """Return the trade-off nearest to the ideal point that has the best of each quantity.

    Distances are between logarithms, each over its range on the front; that of quality counts if
    the difference of its ends is significant.
    """
    figures = [choice.figures for choice in front]
    columns = [[f.energy_j for f in figures], [f.time_s for f in figures]]
    if _has_quality(front):
        least, most = (ends(figures, key=_retention) for ends in (min, max))
        if _retention(most) - _retention(least) > _tellable(most, least, level):
            columns.append([1.0 / _retention(f) for f in figures])
    costs = np.log(np.array(columns, dtype=np.float64).T)
    low, high = costs.min(axis=0), costs.max(axis=0)
    scaled = (costs - low) / np.where(high > low, high - low, 1.0)
    return front[int(np.argmin(np.sum(scaled**2, axis=1)))]


def _has_quality(choices: Sequence[Choice]) -> bool:
    return all(choice.figures.retention for choice in choices)


def _retention(figures: Figures) -> float:
    return figures.retention or 0.0


def _cheapest_first(choice: Choice) -> tuple[float, float, float]:
    figures = choice.figures
    return figures.energy_j, figures.time_s, -_retention(figures)


def _beats(cheaper: Choice, other: Choice, has_quality: bool, level: float) -> bool:
    """Say whether ``cheaper``, which takes no more energy, takes no more time and loses nothing."""
    first, second = cheaper.figures, other.figures
    if first.time_s > second.time_s:
        return False
    lost = _retention(second) - _retention(first)
    return not has_quality or lost <= _tellable(first, second, level)


def _tellable(first: Figures, second: Figures, level: float) -> float:
    """Return the difference of two retentions beyond which it is significant."""
    from scipy.stats import norm  # type: ignore[import-untyped]  # printing does without

    u = hypot(first.retention_u or 0.0, second.retention_u or 0.0)
    return float(norm.ppf((1 + level) / 2)) * u
