"""How far a set of images is from real ones, to a small network that knows their kind."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.quality.base import Need, Score
from joulelab.quality.image_data import ImageData
from joulelab.quality.images import Images, require_finite, require_real_images
from joulelab.quality.protocols import FloatArray
from joulelab.workloads.knobs import require_count

_SEED = 0


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

    name: ClassVar[str] = "frechet_distance"
    direction: ClassVar[Direction] = "lower"
    interval: ClassVar = "jackknife"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})

    num_resamples: int = 20

    def __post_init__(self) -> None:
        require_count("num_resamples", self.num_resamples, least=2)

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
