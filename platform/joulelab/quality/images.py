"""Images that a network made, to be compared with prompts, with real ones or with a reference's."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import Metric
from joulelab.quality.image_data import ImageData
from joulelab.quality.image_protocols import MakesImages
from joulelab.quality.protocols import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Images(Metric):
    """A metric of one image for each prompt of the data set."""

    asks: ClassVar = MakesImages

    @property
    @override
    def observation(self) -> str:
        return "images"

    @override
    def observe(self, subject: MakesImages, data: ImageData) -> FloatArray:
        return subject.make_images(data.prompts)


def require_real_images(metric: str, data: ImageData) -> None:
    """Refuse ``data`` without enough real images to have a covariance.

    Raises:
        ConfigError: If it has fewer than two, or asks for fewer than two.
    """
    if min(len(data.images), len(data.prompts)) < 2:
        raise ConfigError(
            f"{metric} compares a set of images with a set of real ones, at least two of each; "
            f"{data.name} has {len(data.images)} and asks for {len(data.prompts)}. ssim needs none."
        )


def require_finite(metric: str, images: FloatArray) -> None:
    """Refuse images with values that are no numbers, as an overflow leaves them.

    Raises:
        MeasurementError: If there are such.
    """
    if not np.isfinite(images).all():
        raise MeasurementError(f"{metric} needs numbers, and some of these images are not numbers.")


def in_colour(images: FloatArray) -> FloatArray:
    """Return ``images`` with three channels, grey ones repeated."""
    return np.repeat(images, 3, axis=-3) if images.shape[-3] == 1 else images
