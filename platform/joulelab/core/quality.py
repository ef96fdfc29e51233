"""What outputs are worth: a score, and the share of a reference's score that is kept."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal, get_args

from joulelab.errors import ConfigError, MeasurementError

Direction = Literal["higher", "lower"]
"""Which scores are better."""

RETENTION_LEVEL = 0.95
"""Confidence level of the interval of a retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One metric's score of one configuration's outputs on one data set."""

    metric: str  # registry name of the metric
    direction: Direction  # which scores are better
    score: float  # the score, in the metric's own unit
    n: int  # how many things were scored
    counted: str  # what those things are, in the singular: "token", "text", "image"
    data: str  # name of the data set
    source_hash: str  # digest of all that the score depends on: weights, knobs, data, metric, code
    # Standard uncertainty of the score from the finite data set; None where the data are too few,
    # or the metric of a kind, that gives none.
    score_u: float | None = None
    # Share of the reference's score that is kept, 1 for as good, as by retention; None where that
    # ratio has no meaning.
    retention: float | None = None
    # Lower end of the 95 % interval of retention over data sets of this kind and size; None if
    # there is none.
    retention_low: float | None = None
    retention_high: float | None = None  # its upper end
    reference: str | None = None  # what the reference is, by the knobs in which it may differ

    def __post_init__(self) -> None:
        if self.direction not in get_args(Direction):
            raise ConfigError(f"direction must be higher or lower, got {self.direction!r}.")
        if not isfinite(self.score):
            raise ConfigError(f"score must be finite, got {self.score}.")
        if self.n < 1:
            raise ConfigError(f"n must be at least 1, got {self.n}.")
        if (self.retention_low is None) != (self.retention_high is None):
            raise ConfigError("An interval has two ends: give retention_low and retention_high.")


def retention(score: float, reference: float, direction: Direction) -> float:
    """Return which share of the ``reference`` score is kept; 1 is as good, more is better.

    It is ``score / reference`` where higher is better, and ``reference / score`` where lower is.
    Raises MeasurementError if the ratio has no meaning: the reference, or a score to be divided by,
    is not positive, or a score is negative or not finite.
    """
    if not (isfinite(reference) and reference > 0):
        raise MeasurementError(
            f"Nothing is a share of a reference score of {reference:g}; a retention needs a "
            "positive one. Compare the scores themselves."
        )
    least = "positive" if direction == "lower" else "at least 0"
    if not isfinite(score) or score < 0 or (direction == "lower" and score == 0):
        raise MeasurementError(
            f"A score must be {least} to be a share of a reference, got {score:g}. Compare the "
            "scores themselves."
        )
    return score / reference if direction == "higher" else reference / score
