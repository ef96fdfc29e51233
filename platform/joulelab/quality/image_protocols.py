"""What metrics of images and classes ask of a network that is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from joulelab.errors import ConfigError
from joulelab.quality.protocols import FloatArray

IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Boxes:
    """Objects in one image.

    Attributes:
        corners_px: Left, top, right and bottom of each, in pixels, shape (n, 4).
        labels: Class of each, shape (n,).
        scores: Confidence in each, shape (n,); ``None`` for objects that are really there.
    """

    corners_px: FloatArray
    labels: IntArray
    scores: FloatArray | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        scored = self.scores is None or len(self.scores) == n
        if self.corners_px.shape != (n, 4) or not scored:
            raise ConfigError(
                f"{n} labels go with as many boxes of 4 numbers and as many scores, got boxes "
                f"of shape {self.corners_px.shape}."
            )


@runtime_checkable
class MakesImages(Protocol):
    """Makes images, always alike for the same prompt at the same place."""

    def make_images(self, prompts: Sequence[str]) -> FloatArray:
        """Return an image for each prompt.

        Args:
            prompts: What to show. Empty texts for a network that takes none. The noise that the
                image at each place starts from is the same in every configuration.

        Returns:
            Shape (n, channels, height, width), from 0 to 1.
        """
        ...


@runtime_checkable
class Classifies(Protocol):
    """Tells classes apart."""

    def class_scores(self, inputs: Sequence[Any] | FloatArray | IntArray) -> FloatArray:
        """Return the unnormalised log-probability of each class for each input.

        Args:
            inputs: n of them, as the data set holds them.

        Returns:
            Shape (n, classes).
        """
        ...


@runtime_checkable
class Detects(Protocol):
    """Finds objects in images."""

    def detect(self, images: Sequence[FloatArray], classes: Mapping[str, int]) -> list[Boxes]:
        """Return the objects in each image.

        Args:
            images: Each of shape (channels, height, width), from 0 to 1.
            classes: Numbers of classes by name; classes of other names get other numbers.

        Raises:
            MeasurementError: If there are ``classes`` and the network knows none of them.
        """
        ...
