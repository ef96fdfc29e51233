"""Metrics of the images that a network makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import (
    FloatArray,
    MakesImages,
    Metric,
    Need,
    Score,
    require_finite,
)
from joulelab.quality.image_data import ImageData
from joulelab.quality.uncertainty import mean_score

_SEED = 0
_LEAST_PX = 31  # what is left of fewer after AlexNet's strides is nothing
_SIGMA_PX = 1.5
_SIDE_PER_SIGMA = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Images(Metric):
    """A metric of one image for each prompt of the data set."""

    asks: ClassVar = MakesImages
    instead: ClassVar = "ssim and frechet_distance"

    observation = "images"

    @override
    def observe(self, subject: MakesImages, data: ImageData) -> FloatArray:
        return subject.make_images(data.prompts)

    def values(self, made: FloatArray, data: ImageData, reference: FloatArray) -> Sequence[float]:
        """Return the score of each image, of which the mean is taken."""
        raise NotImplementedError

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: FloatArray) -> Score:
        require_finite(self.name, observed, reference)
        return mean_score(self.values(observed, data, reference), "image")


def require_real_images(metric: str, data: ImageData) -> None:
    """Refuse ``data`` without two real images, which a covariance takes, by a ConfigError."""
    if min(len(data.images), len(data.prompts)) < 2:
        raise ConfigError(
            f"{metric} compares a set of images with a set of real ones, at least two of each; "
            f"{data.name} has {len(data.images)} and asks for {len(data.prompts)}. ssim needs none."
        )


def in_colour(images: FloatArray) -> FloatArray:
    """Return ``images`` with three channels, grey ones repeated."""
    return np.repeat(images, 3, axis=-3) if images.shape[-3] == 1 else images


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipScore(Images):
    """Mean of 100 times the cosine, at least 0, between image and prompt to CLIP, by torchmetrics.

    Hessel and others, "CLIPScore: a reference-free evaluation metric for image captioning", 2021,
    without its factor of 2.5. Values of different CLIP networks differ.

    Attributes:
        weights: Folder or hub id of the CLIP network that judges.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"weights"})
    judge: ClassVar = "a folder or hub id such as openai/clip-vit-large-patch14"

    weights: str | None = None

    @override
    def check(self, data: ImageData) -> None:
        if not all(data.prompts):
            raise ConfigError(
                f"clip_score compares images with prompts, and {data.name} has images without. "
                f"{self.instead} need none."
            )
        Metric.check(self, data)

    @override
    def values(self, made: FloatArray, data: ImageData, reference: FloatArray) -> Sequence[float]:
        from joulelab.quality.image_judges import prompt_similarities

        return prompt_similarities(in_colour(made), data.prompts, str(self.weights))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fid(Images):
    """Frechet Inception distance to the data set's real images, from 0 up, by torchmetrics.

    Heusel and others, "GANs trained by a two time-scale update rule converge to a local Nash
    equilibrium", 2017, on the 2048 features of torch-fidelity's port of the original network. It
    is biased upwards by a small number of images, so compare equal numbers only; published
    values take 10 000 or more.

    Attributes:
        weights: File with the weights of that network.
    """

    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"references", "weights"})
    package: ClassVar = ("torch-fidelity", "torch_fidelity")
    judge: ClassVar = (
        "a file such as https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/"
        "weights-inception-2015-12-05-6726825d.pth"
    )

    weights: str | None = None

    @override
    def check(self, data: ImageData) -> None:
        from joulelab.workloads.formats import require_file

        Metric.check(self, data)
        require_file(str(self.weights))
        require_real_images(self.name, data)

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: object) -> Score:
        from joulelab.quality.image_judges import inception_distance

        require_finite(self.name, observed)
        made = [in_colour(image) for image in observed]
        real = [in_colour(image) for image in data.images]
        value = inception_distance(made, real, str(self.weights))
        return Score(value=value, n=len(observed), counted="image")

    why_no_samples = (
        "fid takes 2048 features of each image, and a set drawn anew from fewer different "
        "images than that is further from the real ones than the set itself."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrechetDistance(Images):
    """Frechet distance to the data set's real images in the features of the data set's judge.

    The formula is that of FID, by torchmetrics; the features are those of a small classifier that
    was trained on the very data set, and not of the Inception network. The value is NOT the
    published FID and compares with no number elsewhere, only with others on the same data set.
    The uncertainty is the scatter over images drawn anew with replacement. That of a retention
    leaves one image out at a time instead, and holds for sets of as many images: a set in which
    images come twice has a larger distance, so a bootstrap of ratios misses (checked on features
    whose distances are known).

    Attributes:
        num_resamples: How often the images are drawn anew.
    """

    direction: ClassVar[Direction] = "lower"
    interval: ClassVar = "jackknife"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})

    least: ClassVar = {"num_resamples": 2}

    num_resamples: int = 20

    @override
    def check(self, data: ImageData) -> None:
        require_real_images(self.name, data)
        if data.judge is None:
            raise ConfigError(
                f"frechet_distance needs a data set with a network trained on it, as that of "
                f"digits-diffusion has; {data.name} has none. fid takes published weights, ssim "
                "needs none."
            )

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: object) -> Score:
        from joulelab.quality.image_judges import feature_distances

        require_finite(self.name, observed)
        judge = data.judge
        if judge is None:
            raise ConfigError(f"{data.name} has no judge.")
        made, real = judge.features(observed), judge.features(np.stack(data.images))
        draw, n = np.random.default_rng(_SEED).integers, len(made)
        drawn = (made[draw(n, size=n)] for _ in range(self.num_resamples))
        value, *scattered = feature_distances([made, *drawn], real)
        left_out = feature_distances((np.delete(made, index, axis=0) for index in range(n)), real)
        return Score(
            value=value,
            u=float(np.std(scattered, ddof=1)),
            n=n,
            counted="image",
            samples=tuple(left_out),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lpips(Images):
    """Mean learned perceptual distance, from 0 up, to the reference's image, by torchmetrics.

    Zhang and others, "The unreasonable effectiveness of deep features as a perceptual metric",
    2018, with AlexNet.

    Attributes:
        weights: File with AlexNet's weights of ImageNet as torchvision publishes them.
    """

    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs", "weights"})

    judge: ClassVar = "a file such as https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"

    weights: str | None = None

    @override
    def check(self, data: ImageData) -> None:
        from joulelab.workloads.formats import require_file

        Metric.check(self, data)
        require_file(str(self.weights))

    @override
    def values(self, made: FloatArray, data: ImageData, reference: FloatArray) -> Sequence[float]:
        from joulelab.quality.image_judges import perceptual_distances

        if made.shape != reference.shape or min(made.shape[-2:]) < _LEAST_PX:
            raise MeasurementError(
                f"lpips compares images of one size of at least {_LEAST_PX} pixels a side, got "
                f"{made.shape[1:]} and {reference.shape[1:]}; ssim takes smaller ones."
            )
        return perceptual_distances(in_colour(made), in_colour(reference), str(self.weights))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssim(Images):
    """Mean structural similarity, -1 to 1, to the reference's image, by torchmetrics.

    Wang and others, "Image quality assessment: from error visibility to structural similarity",
    2004, with its Gaussian window of 1.5 pixels; of a sixteenth of the shorter side in images of
    less than 24 pixels, into which that window does not fit. It compares images that start
    from the same noise, so it says how far a configuration departs from the reference, not which
    image is better.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def values(self, made: FloatArray, data: ImageData, reference: FloatArray) -> Sequence[float]:
        from joulelab.quality.image_judges import structural_similarities

        if made.shape != reference.shape:
            raise MeasurementError(
                f"ssim compares images of one size, got {made.shape[1:]} and {reference.shape[1:]}."
            )
        sigma_px = min(_SIGMA_PX, min(made.shape[-2:]) / _SIDE_PER_SIGMA)
        return structural_similarities(made, reference, sigma_px)
