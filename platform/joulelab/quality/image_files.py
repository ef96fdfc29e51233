"""Images of a study: files in a folder, rows of a data set of the hub, or generated ones."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.quality.protocols import FloatArray

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".webp"})
_CHANNELS = 3
_LARGEST = 255
_WIDTH = 0.2  # of the values of a generated image about 0.5


class ImageFiles(Sequence[FloatArray]):
    """Images that are read when they are asked for, each (3, height, width), from 0 to 1.

    Args:
        open_image: Functions that open an image of Pillow, one for each.
    """

    def __init__(self, open_image: Sequence[Callable[[], Any]]) -> None:
        self._open = open_image

    @override
    def __len__(self) -> int:
        return len(self._open)

    @overload
    def __getitem__(self, index: int) -> FloatArray: ...
    @overload
    def __getitem__(self, index: slice) -> "ImageFiles": ...
    @override
    def __getitem__(self, index: int | slice) -> "FloatArray | ImageFiles":
        if isinstance(index, slice):
            return ImageFiles(self._open[index])
        with self._open[index]() as image:
            pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
        values: FloatArray = np.moveaxis(pixels, -1, 0) / np.float32(_LARGEST)
        return values


def image_paths(folder: Path) -> list[Path]:
    """Return the images in ``folder`` and below it, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def images_at(paths: Sequence[Path]) -> ImageFiles:
    """Return the images at ``paths``.

    Raises:
        ConfigError: If one is none.
    """
    from PIL import Image, UnidentifiedImageError

    for path in paths:
        try:
            with Image.open(path):
                pass
        except (OSError, UnidentifiedImageError) as error:
            raise ConfigError(f"data must hold images, and {path} is none: {error}") from error
    return ImageFiles([_opener(path) for path in paths])


def pink_images(num: int, side_px: int, *, seed: int = 0) -> tuple[FloatArray, ...]:
    """Return images of random values, (3, side, side), from 0 to 1, independent of each other.

    Their amplitudes fall as the inverse of the spatial frequency, as those of photographs do
    (Field, "Relations between the statistics of natural images and the response properties of
    cortical cells", 1987).
    """
    return tuple(_pink(np.random.default_rng([seed, index]), side_px) for index in range(num))


def _pink(generator: np.random.Generator, side_px: int) -> FloatArray:
    rows, columns = np.fft.fftfreq(side_px)[:, None], np.fft.rfftfreq(side_px)[None]
    frequency = np.maximum(np.hypot(rows, columns), 1 / side_px)
    noise = np.fft.rfft2(generator.standard_normal((_CHANNELS, side_px, side_px)))
    values = np.fft.irfft2(noise / frequency, s=(side_px, side_px))
    scaled = 0.5 + _WIDTH * values / values.std()
    pixels: FloatArray = np.clip(scaled, 0, 1).astype(np.float32)
    return pixels


def _opener(path: Path) -> Callable[[], Any]:
    from PIL import Image

    return lambda: Image.open(path)


def hub_images(rows: Sequence[Any], source: str) -> ImageFiles:
    """Return the column ``image`` of rows of the hub.

    Raises:
        ConfigError: If there is no such column.
    """
    if not rows or not all(hasattr(row.get("image"), "convert") for row in rows):
        raise ConfigError(f"A data set of images has a column image, which {source} lacks.")
    return ImageFiles([_holder(row["image"]) for row in rows])


def _holder(image: Any) -> Callable[[], Any]:
    return image.copy  # type: ignore[no-any-return]


def in_batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Yield ``items`` in lists of ``size``; the last may be shorter."""
    for start in range(0, len(items), size):
        yield [items[index] for index in range(start, min(start + size, len(items)))]
