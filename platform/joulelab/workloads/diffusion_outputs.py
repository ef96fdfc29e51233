"""What text-to-image diffusion draws, to be scored."""

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from joulelab.quality.image_data import ImageData
from joulelab.quality.image_protocols import MakesImages
from joulelab.quality.prompt_data import read_prompts
from joulelab.quality.protocols import FloatArray
from joulelab.workloads.diffusion import Diffusion
from joulelab.workloads.network_outputs import NetworkSubject


class DiffusionSubject(NetworkSubject[Diffusion]):
    """The pipeline; an image starts from the same noise in every configuration of one seed."""

    metrics: ClassVar = ("ssim",)
    answers: ClassVar = (MakesImages,)

    @staticmethod
    @override
    def read_data(source: str | None) -> ImageData:
        return read_prompts(source)

    @override
    def outputs(self, network: Any) -> "Drawn":
        return Drawn(self.workload)


class Drawn:
    """A loaded pipeline.

    Args:
        workload: The workload, loaded.
    """

    def __init__(self, workload: Diffusion) -> None:
        self._workload = workload

    def make_images(self, prompts: Sequence[str]) -> FloatArray:
        """Draw an image for each prompt."""
        images: FloatArray = self._workload.images(prompts).numpy()
        return images
