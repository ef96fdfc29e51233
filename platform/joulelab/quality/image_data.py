"""Images and what is known of them: files in a folder, rows of the hub, or generated ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.quality.base import Boxes, FloatArray, IntArray

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".webp"})
_CHANNELS = 3
_LARGEST = 255
_SEED = 0
_WIDTH = 0.2  # of the values of a generated image about 0.5


class Judge(Protocol):
    """A network that turns images into features, by which sets of images are compared."""

    @property
    def name(self) -> str:
        """What it is, its training included."""

    def features(self, images: FloatArray) -> FloatArray:
        """Return features (n, features) of images (n, channels, height, width), from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageData:
    """A data set for networks that make images: a prompt for each, empty for a network without.

    Real images are of shape (channels, height, width), from 0 to 1; there may be none, as there may
    be no judge, a network that compares images of this kind and was trained on them.
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
    """A data set for networks that tell classes apart."""

    name: str
    # One for each thing: an image (3, height, width) from 0 to 1, or what else the network takes
    inputs: Sequence[Any] | FloatArray | IntArray
    labels: IntArray | None = None  # the class of each, shape (n,); None if they are not known
    counted: str = "image"
    # Number of what each input was made of, shape (n,): inputs of one group resemble each other,
    # and count as one where it is asked how far a score would move. None where every input is
    # another thing.
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

    Images are of shape (channels, height, width), from 0 to 1; ``objects`` are those in each, empty
    if not known, and ``classes`` the number of each class by its name.
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
        held = (
            array
            for each in self.objects
            for array in (each.corners_px, each.labels, each.crowds)
            if array is not None
        )
        return content_digest(sorted(map(repr, self.classes.items())), [*self.images, *held])


def content_digest(texts: Iterable[str], arrays: Iterable[Any]) -> str:
    """Return a digest of texts, and of arrays with their shapes."""
    content = sha256(repr(list(texts)).encode())
    for array in map(np.ascontiguousarray, arrays):
        content.update(f"{array.dtype} {array.shape}".encode())
        content.update(array.tobytes())
    return content.hexdigest()


class ImageFiles(Sequence[FloatArray]):
    """Images that Pillow opens when they are asked for, each (3, height, width), from 0 to 1."""

    def __init__(self, open_image: Sequence[Callable[[], Any]]) -> None:
        self._open = open_image

    @override
    def __len__(self) -> int:
        return len(self._open)

    @override
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ImageFiles(self._open[index])
        try:
            with self._open[index]() as image:
                pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
        except OSError as error:
            raise ConfigError(
                f"Image {index + 1} of {len(self)} of the data set cannot be read: {error}."
            ) from error
        values: FloatArray = np.moveaxis(pixels, -1, 0) / np.float32(_LARGEST)
        return values


def image_paths(folder: Path) -> list[Path]:
    """Return the images in ``folder`` and below it, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def images_at(paths: Sequence[Path]) -> ImageFiles:
    """Return the images at ``paths``; ConfigError if one is none."""
    from PIL import Image, UnidentifiedImageError

    for path in paths:
        try:
            with Image.open(path):
                pass
        except (OSError, UnidentifiedImageError) as error:
            raise ConfigError(f"data must hold images, and {path} is none: {error}") from error
    return ImageFiles([partial(Image.open, path) for path in paths])


def pink_images(num: int, side_px: int) -> tuple[FloatArray, ...]:
    """Return images of random values, (3, side, side), from 0 to 1, independent of each other.

    Their amplitudes fall as the inverse of the spatial frequency, as those of photographs do
    (Field, "Relations between the statistics of natural images and the response properties of
    cortical cells", 1987).
    """
    return tuple(_pink(np.random.default_rng([_SEED, index]), side_px) for index in range(num))


def _pink(generator: np.random.Generator, side_px: int) -> FloatArray:
    rows, columns = np.fft.fftfreq(side_px)[:, None], np.fft.rfftfreq(side_px)[None]
    frequency = np.maximum(np.hypot(rows, columns), 1 / side_px)
    noise = np.fft.rfft2(generator.standard_normal((_CHANNELS, side_px, side_px)))
    values = np.fft.irfft2(noise / frequency, s=(side_px, side_px))
    scaled = 0.5 + _WIDTH * values / values.std()
    pixels: FloatArray = np.clip(scaled, 0, 1).astype(np.float32)
    return pixels


def hub_images(rows: Sequence[Any], source: str) -> ImageFiles:
    """Return the column ``image`` of rows of the hub; ConfigError if there is no such column."""
    if not rows or not all(hasattr(row.get("image"), "convert") for row in rows):
        raise ConfigError(f"A data set of images has a column image, which {source} lacks.")
    return ImageFiles([row["image"].copy for row in rows])


def in_batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Yield ``items`` in lists of ``size``; the last may be shorter."""
    for start in range(0, len(items), size):
        yield [items[index] for index in range(start, min(start + size, len(items)))]
