"""What the evaluation of outputs needs of a metric."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from joulelab.core.configuration import KnobValue
from joulelab.core.quality import Direction
from joulelab.errors import ConfigError, MeasurementError
from joulelab.registry import unknown_name

Need = Literal["references", "reference_outputs", "weights"]
"""What a metric needs besides outputs: what they should have been (``references``), the outputs
of the reference configuration (``reference_outputs``), or a network that judges (``weights``)."""

Interval = Literal["bootstrap", "jackknife"]


class Data(Protocol):
    """A data set on which outputs are made and scored."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def digest(self) -> str:
        """Digest of its content."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a metric says of some outputs.

    Attributes:
        value: The score, in the metric's own unit.
        n: How many things were scored.
        counted: What those things are, in the singular: ``"token"``, ``"text"``, ``"image"``.
        u: Standard uncertainty of the value from the finite data set; ``None`` where the data
            are too few, or the metric of a kind, that gives none.
        samples: What the metric makes the value of, one for each independent part of the data
            set and in its order: numbers, or tuples of them. Empty if it has no such parts.
    """

    value: float
    n: int
    counted: str
    u: float | None = None
    samples: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isfinite(self.value):
            raise MeasurementError(f"A score must be finite, got {self.value}.")
        if self.n < 1:
            raise MeasurementError("A score of nothing is no number.")


class Metric(ABC):
    """A measure of what outputs are worth.

    A subclass is a frozen dataclass whose fields are its knobs. It asks a network that is
    loaded (:meth:`observe`), then scores what it answered (:meth:`score`) when that network
    may be gone already, so that at most one is held at a time.
    """

    name: ClassVar[str]
    """Its name in the registry."""
    direction: ClassVar[Direction]
    needs: ClassVar[frozenset[Need]] = frozenset()
    asks: ClassVar[type[Any]]
    """The protocol of what it asks: one of :mod:`joulelab.quality.protocols`."""
    version: ClassVar[int] = 1
    """Raised when equal outputs get another score than before."""
    interval: ClassVar[Interval] = "bootstrap"
    """How samples make an interval: bootstrap draws them anew; jackknife takes each for the score
    without one of the things scored, where drawing a thing twice would change the score."""
    num_draws: ClassVar[int] = 999
    """How often the bootstrap draws."""

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, KnobValue]) -> "Metric":
        """Make the metric from knob names and values; those left out take their default.

        Raises:
            ConfigError: If a knob is unknown (names the closest) or its value is not allowed.
        """
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # a dataclass
        for name in knobs:
            if name not in known:
                raise unknown_name(f"knob of {cls.name}", name, known)
        return cls(**knobs)

    @property
    @abstractmethod
    def observation(self) -> str:
        """What :meth:`observe` returns, by name; metrics that name the same share it."""

    def check(self, data: Any) -> None:
        """Refuse ``data`` that lacks what the metric needs, before anything is loaded.

        Raises:
            ConfigError: Says what is missing, and which metrics do without.
        """
        return

    @abstractmethod
    def observe(self, subject: Any, data: Any) -> Any:
        """Ask ``subject``, which satisfies :attr:`asks`, for the outputs that are scored."""

    @abstractmethod
    def score(self, observed: Any, data: Any, reference: Any) -> Score:
        """Score what :meth:`observe` returned.

        Args:
            observed: Outputs of the configuration.
            data: The data set.
            reference: Outputs of the reference configuration; ``None`` unless the metric needs
                ``reference_outputs``.

        Raises:
            MeasurementError: If the outputs cannot be scored.
        """

    def pooled(self, samples: Sequence[Any]) -> float:
        """Return the value that :attr:`Score.samples` make together; their mean by default."""
        return float(np.mean(samples))

    @property
    def why_no_samples(self) -> str:
        """Why a score of this metric has no samples, where it has none."""
        return f"{self.name} is scored over the data set as a whole."


def missing_weights(
    metric: str, example: str, instead: str, *, what: str = "a folder or hub id"
) -> ConfigError:
    """Build the error for a metric whose judging network was not given.

    Args:
        metric: Name of the metric.
        example: Hub id of a network that does, or where its file is.
        instead: Metrics that need none.
        what: What the weights are given as.
    """
    return ConfigError(
        f"{metric} needs the weights of a network that judges: give {metric}.weights, {what} "
        f"such as {example}. {instead} need none."
    )
