"""How well an image shows what was asked for."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.quality.base import Need, Score, missing_weights
from joulelab.quality.image_data import ImageData
from joulelab.quality.images import Images, in_colour, require_finite
from joulelab.quality.protocols import FloatArray
from joulelab.quality.uncertainty import mean_score


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipScore(Images):
    """Mean of 100 times the cosine, at least 0, between image and prompt to CLIP, by torchmetrics.

    Hessel and others, "CLIPScore: a reference-free evaluation metric for image captioning", 2021,
    without its factor of 2.5. Values of different CLIP networks differ.

    Attributes:
        weights: Folder or hub id of the CLIP network that judges.
    """

    name: ClassVar[str] = "clip_score"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"weights"})

    weights: str | None = None

    @override
    def check(self, data: ImageData) -> None:
        if not all(data.prompts):
            raise ConfigError(
                f"clip_score compares images with prompts, and {data.name} has images without. "
                "ssim and frechet_distance need none."
            )
        if self.weights is None:
            raise missing_weights(
                self.name, "openai/clip-vit-large-patch14", "ssim and frechet_distance"
            )

    @override
    def score(self, observed: FloatArray, data: ImageData, reference: object) -> Score:
        from joulelab.quality.image_judges import prompt_similarities

        require_finite(self.name, observed)
        found = prompt_similarities(in_colour(observed), data.prompts, str(self.weights))
        return mean_score(found, "image")
