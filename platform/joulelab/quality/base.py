"""What the evaluation of outputs needs of a metric, of a data set and of a loaded network."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from joulelab.core.configuration import KnobValue
from joulelab.core.quality import Direction
from joulelab.errors import ConfigError, MeasurementError
from joulelab.workloads.base import check_knobs, made_with

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
Need = Literal["references", "reference_outputs", "weights"]
"""What a metric needs besides outputs: what they should have been (``references``), the outputs
of the reference configuration (``reference_outputs``), or a network that judges (``weights``)."""

Interval = Literal["bootstrap", "jackknife"]


class Data(Protocol):
    """A data set on which outputs are made and scored."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def digest(self) -> str:
        """Digest of its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a metric says of some outputs."""

    value: float
    n: int  # how many things were scored
    counted: str  # what those things are, in the singular: "token", "text", "image"
    # Standard uncertainty of the value from the finite data set; None where the data are too
    # few, or the metric of a kind, that gives none
    u: float | None = None
    # What the metric makes the value of, one for each independent part of the data set and in its
    # order: numbers, or tuples of them. Empty if it has no such parts.
    samples: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isfinite(self.value):
            raise MeasurementError(f"A score must be finite, got {self.value}.")
        if self.n < 1:
            raise MeasurementError("A score of nothing is no number.")


class Metric(ABC):
    """A measure of what outputs are worth.

    A subclass is a frozen dataclass whose fields are its knobs, checked by their types. It asks a
    network that is loaded (:meth:`observe`), then scores what it answered (:meth:`score`) when
    that network may be gone already, so that at most one is held at a time.
    """

    name: ClassVar[str]
    """Its name in the registry: that of its class, ``kl_divergence`` of ``KlDivergence``."""
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset()
    asks: ClassVar[type[Any]]  # the protocol of what it asks: one of those below
    version: ClassVar[int] = 1  # raised when equal outputs get another score than before
    interval: ClassVar[Interval] = "bootstrap"
    """How samples make an interval: bootstrap draws them anew; jackknife takes each for the score
    without one of the things scored, where drawing a thing twice would change the score."""
    num_draws: ClassVar[int] = 999  # how often the bootstrap draws

    least: ClassVar[Mapping[str, int]] = {}  # least values of knobs that count, where that is not 1
    package: ClassVar[tuple[str, str]] = ("", "")
    """The package that scores, and the module that it is imported by, where it may be absent."""
    judge: ClassVar[str] = ""
    """What may judge, where the metric needs ``weights``: a folder or hub id such as this."""
    instead: ClassVar[str] = ""  # metrics of the same outputs that need less

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=.)(?=[A-Z])", "_", cls.__name__).lower()

    def __post_init__(self) -> None:
        check_knobs(self, least=self.least)

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, KnobValue]) -> "Metric":
        """Make the metric from knob names and values; those left out take their default.

        Raises ConfigError if a knob is unknown (names the closest) or its value is not allowed.
        """
        return made_with(cls, knobs, cls.name)

    @property
    @abstractmethod
    def observation(self) -> str:
        """What :meth:`observe` returns, by name; metrics that name the same share it."""

    def check(self, data: Any) -> None:
        """Refuse ``data`` that lacks what the metric needs, before anything is loaded.

        Raises ConfigError that says what is missing, and which metrics do without.
        """
        if "weights" in self.needs and getattr(self, "weights", None) is None:
            raise ConfigError(
                f"{self.name} needs the weights of a network that judges: give "
                f"{self.name}.weights, {self.judge}. {self.instead} need none."
            )
        if all(self.package):
            require_package(self.name, *self.package)

    @abstractmethod
    def observe(self, subject: Any, data: Any) -> Any:
        """Ask ``subject``, which satisfies :attr:`asks`, for the outputs that are scored."""

    @abstractmethod
    def score(self, observed: Any, data: Any, reference: Any) -> Score:
        """Score what :meth:`observe` returned.

        Raises MeasurementError if the outputs cannot be scored.

        Args:
            observed: Outputs of the configuration.
            data: The data set.
            reference: Outputs of the reference configuration; ``None`` unless the metric needs
                ``reference_outputs``.
        """

    def pooled(self, samples: Sequence[Any]) -> float:
        """Return the value that :attr:`Score.samples` make together; their mean by default."""
        return float(np.mean(samples))

    @property
    def why_no_samples(self) -> str:
        """Why a score of this metric has no samples, where it has none."""
        return f"{self.name} is scored over the data set as a whole."


def require_package(metric: str, package: str, module: str) -> None:
    """Refuse to score by ``metric`` where ``package`` is not installed, by a ConfigError."""
    if find_spec(module) is None:
        raise ConfigError(f"{metric} needs the package {package}: pip install 'joulelab[quality]'.")


def require_finite(what: str, outputs: FloatArray, reference: FloatArray | None = None) -> None:
    """Refuse outputs, or the reference's, that are no numbers, as an overflow leaves.

    Raises MeasurementError that says whose they are.
    """
    for whose, each in (("the", outputs), ("the reference's", reference)):
        if each is not None and not np.isfinite(each).all():
            raise MeasurementError(
                f"{what} needs numbers, and some of {whose} outputs are not numbers, as an "
                "overflow leaves; take a number format of a larger range."
            )


def hub_rows(source: str) -> list[Mapping[str, Any]]:
    """Read the rows of a data set of the hub; ConfigError if it cannot be read.

    ``source`` is ``ID``, or ``ID:CONFIGURATION``, with ``@SPLIT`` at the end unless it is test.
    """
    name, _, split = source.partition("@")
    dataset, _, configuration = name.partition(":")
    try:
        load = import_module("datasets").load_dataset
    except ImportError as error:
        raise ConfigError(
            f"data must be a folder or file, got {source!r}, which is none here; to read it from "
            "the hub, pip install datasets."
        ) from error
    try:
        return list(load(dataset, configuration or None, split=split or "test"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"data must be a folder, a file, or a data set of the hub that this machine can reach, "
            f"got {source!r}. {' '.join(str(error).split())}"
        ) from error


@runtime_checkable
class ReadsTokens(Protocol):
    """Predicts each token of a text from those before it."""

    @property
    def max_tokens(self) -> int:
        """Longest sequence that it reads."""

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of ``text``."""

    def logits(self, token_ids: Sequence[int]) -> FloatArray:
        """Return the unnormalised log-probabilities of every next token, shape (n, vocabulary).

        There are at most :attr:`max_tokens` tokens; row i, in single precision, predicts token i +
        1.
        """


@runtime_checkable
class GeneratesText(Protocol):
    """Continues texts, always alike for the same prompt."""

    def generate(self, prompts: Sequence[str], *, new_tokens: int) -> list[str]:
        """Return the continuation of each prompt, without it, of at most so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Boxes:
    """Objects in one image."""

    corners_px: FloatArray  # left, top, right and bottom of each, in pixels, shape (n, 4)
    labels: IntArray  # class of each, shape (n,)
    # Confidence in each, shape (n,); None for objects that are really there
    scores: FloatArray | None = None
    # 1 for each that stands for a crowd, in which what is found is neither right nor wrong, else 0,
    # shape (n,); None without any
    crowds: IntArray | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        alike = all(each is None or len(each) == n for each in (self.scores, self.crowds))
        if self.corners_px.shape != (n, 4) or not alike:
            raise ConfigError(
                f"{n} labels go with as many boxes of 4 numbers and as many scores, got boxes "
                f"of shape {self.corners_px.shape}."
            )

    @property
    def has_objects(self) -> bool:
        """Whether there are some, crowds apart."""
        return len(self.labels) > (0 if self.crowds is None else int(self.crowds.sum()))


@runtime_checkable
class MakesImages(Protocol):
    """Makes images, always alike for the same prompt at the same place."""

    def make_images(self, prompts: Sequence[str]) -> FloatArray:
        """Return an image for each prompt, shape (n, channels, height, width), from 0 to 1.

        Prompts are empty for a network that takes none. The noise that the image at each place
        starts from is the same in every configuration.
        """


@runtime_checkable
class Classifies(Protocol):
    """Tells classes apart."""

    def class_scores(self, inputs: Sequence[Any] | FloatArray | IntArray) -> FloatArray:
        """Return the unnormalised log-probability of each class for each input, (n, classes)."""


@runtime_checkable
class Detects(Protocol):
    """Finds objects in images."""

    def detect(self, images: Sequence[FloatArray], classes: Mapping[str, int]) -> list[Boxes]:
        """Return the objects in each image, shape (channels, height, width), from 0 to 1.

        ``classes`` are numbers by name; classes of other names get other numbers. Raises
        MeasurementError if there are some and the network knows none of them.
        """
