"""How far a set of images is from real ones, as the literature reports it."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.quality.base import Need, Score, missing_weights
from joulelab.quality.image_data import ImageData
from joulelab.quality.images import Images, in_colour, require_finite, require_real_images
from joulelab.quality.packages import require_package
from joulelab.quality.protocols import FloatArray


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

    name: ClassVar[str] = "fid"
    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[Need]] = frozenset({"references", "weights"})

    weights: str | None = None

    @override
    def check(self, data: ImageData) -> None:
        if self.weights is None:
            raise missing_weights(
                self.name,
                "https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/"
                "weights-inception-2015-12-05-6726825d.pth",
                "frechet_distance and ssim",
                what="a file",
            )
        from joulelab.workloads.state_file import require_file

        require_package(self.name, "torch-fidelity", "torch_fidelity")
        require_file(self.weights)
        require_real_images(self.name, data)

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: object) -> Score:
        from joulelab.quality.image_judges import inception_distance

        require_finite(self.name, observed)
        made = [in_colour(image) for image in observed]
        real = [in_colour(image) for image in data.images]
        value = inception_distance(made, real, str(self.weights))
        return Score(value=value, n=len(observed), counted="image")

    @property
    @override
    def why_no_samples(self) -> str:
        return (
            "fid takes 2048 features of each image, and a set drawn anew from fewer different "
            "images than that is further from the real ones than the set itself."
        )
