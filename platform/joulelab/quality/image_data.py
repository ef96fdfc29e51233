"""Images and what is known of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from joulelab.errors import ConfigError
from joulelab.quality.image_protocols import Boxes, IntArray
from joulelab.quality.protocols import FloatArray


class Judge(Protocol):
    """A network that turns images into features, by which sets of images are compared."""

    @property
    def name(self) -> str:
        """What it is, its training included."""
        ...

    def features(self, images: FloatArray) -> FloatArray:
        """Return the features of images of shape (n, channels, height, width), from 0 to 1.

        Returns:
            Shape (n, features).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageData:
    """A data set for networks that make images.

    Attributes:
        name: What it is called.
        prompts: What to make, one for each image; empty texts for a network that takes none.
        images: Real ones, each of shape (channels, height, width), from 0 to 1; may be none.
        judge: A network that compares images of this kind, trained on them; may be none.
    """

    name: str
    prompts: tuple[str, ...]
    images: Sequence[FloatArray] = ()
    judge: Judge | None = None

    def __post_init__(self) -> None:
        if not self.prompts:
            raise ConfigError(f"The data set {self.name} names no images to make.")

    @property
    def digest(self) -> str:
        """Digest of its content."""
        judge = "" if self.judge is None else self.judge.name
        return content_digest([*self.prompts, "", judge], self.images)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledData:
    """A data set for networks that tell classes apart.

    Attributes:
        name: What it is called.
        inputs: One for each thing: an image (3, height, width) from 0 to 1, or what else the
            network takes.
        labels: The class of each, shape (n,); ``None`` if they are not known.
        counted: What an input is, in the singular.
        groups: Number of what each input was made of, shape (n,): inputs of one group resemble
            each other, and count as one where it is asked how far a score would move. ``None``
            where every input is another thing.
    """

    name: str
    inputs: Sequence[Any] | FloatArray | IntArray
    labels: IntArray | None = None
    counted: str = "image"
    groups: IntArray | None = None

    def __post_init__(self) -> None:
        num = len(self.inputs)
        if not num or (self.labels is not None and len(self.labels) != num):
            raise ConfigError(
                f"The data set {self.name} must have inputs, and a label for each if any, got "
                f"{0 if self.labels is None else len(self.labels)} for {num}."
            )

    @property
    def digest(self) -> str:
        """Digest of its content."""
        known = [each for each in (self.labels, self.groups) if each is not None]
        return content_digest([], [*self.inputs, *known])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectionData:
    """A data set for networks that find objects.

    Attributes:
        name: What it is called.
        images: Each of shape (channels, height, width), from 0 to 1.
        objects: What is in each image; empty if it is not known.
        classes: Number of each class of objects by its name.
    """

    name: str
    images: Sequence[FloatArray]
    objects: Sequence[Boxes] = ()
    classes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.images) or len(self.objects) not in {0, len(self.images)}:
            raise ConfigError(
                f"The data set {self.name} must say what is in each of its images, or in none, got "
                f"{len(self.objects)} for {len(self.images)}."
            )

    @property
    def digest(self) -> str:
        """Digest of its content."""
        held = (array for each in self.objects for array in (each.corners_px, each.labels))
        return content_digest(sorted(map(repr, self.classes.items())), [*self.images, *held])


def content_digest(texts: Iterable[str], arrays: Iterable[Any]) -> str:
    """Return a digest of texts, and of arrays with their shapes."""
    content = sha256(repr(list(texts)).encode())
    for array in map(np.ascontiguousarray, arrays):
        content.update(f"{array.dtype} {array.shape}".encode())
        content.update(array.tobytes())
    return content.hexdigest()
