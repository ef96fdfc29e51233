"""How like the reference's an image is, point by point."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import MeasurementError
from joulelab.quality.base import Need, Score
from joulelab.quality.image_data import ImageData
from joulelab.quality.images import Images, require_finite
from joulelab.quality.protocols import FloatArray
from joulelab.quality.uncertainty import mean_score

_SIGMA_PX = 1.5
_SIDE_PER_SIGMA = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssim(Images):
    """Mean structural similarity, -1 to 1, to the reference's image, by torchmetrics.

    Wang and others, "Image quality assessment: from error visibility to structural similarity",
    2004, with its Gaussian window of 1.5 pixels; of a sixteenth of the shorter side in images of
    less than 24 pixels, into which that window does not fit. It compares images that start
    from the same noise, so it says how far a configuration departs from the reference, not which
    image is better.
    """

    name: ClassVar[str] = "ssim"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: FloatArray) -> Score:
        from joulelab.quality.image_judges import structural_similarities

        if observed.shape != reference.shape:
            raise MeasurementError(
                f"ssim compares images of one size, got {observed.shape[1:]} and "
                f"{reference.shape[1:]}."
            )
        require_finite(self.name, observed)
        sigma_px = min(_SIGMA_PX, min(observed.shape[-2:]) / _SIDE_PER_SIGMA)
        return mean_score(structural_similarities(observed, reference, sigma_px), "image")
