"""How like the reference's an image looks to a network."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import MeasurementError
from joulelab.quality.base import Need, Score, missing_weights
from joulelab.quality.image_data import ImageData
from joulelab.quality.images import Images, in_colour, require_finite
from joulelab.quality.protocols import FloatArray
from joulelab.quality.uncertainty import mean_score

_LEAST_PX = 31  # what is left of fewer after AlexNet's strides is nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Lpips(Images):
    """Mean learned perceptual distance, from 0 up, to the reference's image, by torchmetrics.

    Zhang and others, "The unreasonable effectiveness of deep features as a perceptual metric",
    2018, with AlexNet.

    Attributes:
        weights: File with AlexNet's weights of ImageNet as torchvision publishes them.
    """

    name: ClassVar[str] = "lpips"
    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs", "weights"})

    weights: str | None = None

    @override
    def check(self, data: ImageData) -> None:
        if self.weights is None:
            raise missing_weights(
                self.name,
                "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
                "ssim and frechet_distance",
                what="a file",
            )
        from joulelab.workloads.state_file import require_file

        require_file(self.weights)

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: FloatArray) -> Score:
        from joulelab.quality.image_judges import perceptual_distances

        if observed.shape != reference.shape or min(observed.shape[-2:]) < _LEAST_PX:
            raise MeasurementError(
                f"lpips compares images of one size of at least {_LEAST_PX} pixels a side, got "
                f"{observed.shape[1:]} and {reference.shape[1:]}; ssim takes smaller ones."
            )
        require_finite(self.name, observed)
        found = perceptual_distances(in_colour(observed), in_colour(reference), str(self.weights))
        return mean_score(found, "image")
