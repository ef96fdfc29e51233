"""Knobs of text-to-image diffusion."""

from dataclasses import dataclass
from typing import Literal

from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.workloads.diffusion_geometry import PIPELINES, Pipeline
from joulelab.workloads.knobs import check_knobs, require_count, require_positive
from joulelab.workloads.network import NetworkSettings

Model = Literal["tiny", "tiny-xl", "sd-1.4", "sd-1.5", "sd-2.1", "sdxl", "sd-turbo", "sdxl-turbo"]
Scheduler = Literal["dpm++", "dpm++-karras", "euler", "euler-a", "ddim", "unipc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionSettings(NetworkSettings):
    """Make images of random prompts.

    Attributes:
        model: Geometry of the networks.
        precision: Number format of weights and activations. tf32 is stored as fp32. Under fp16
            and int8 the decoder of an XL model computes in fp32, as in diffusers.
        steps: Denoising steps; by default as many as the model's documentation starts from.
        resolution: Side of the square image in pixels; by default the size trained for.
        guidance: Weight of the prompt; above 1 every step computes each image with the prompt and
            without (classifier-free guidance). By default that of the model's documentation.
        scheduler: How a step follows from the predicted noise.
        attention_slicing: Compute attention half of the heads at a time, as products and a
            softmax, which takes less memory than products alone but is not fused.
        seed: Seed of the noise and of the random prompts.
    """

    model: Model = "sd-1.5"
    precision: NetworkPrecision = "fp16"
    steps: int | None = None
    resolution: int | None = None
    guidance: float | None = None
    scheduler: Scheduler = "dpm++"
    attention_slicing: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_knobs(self, but=("guidance", "seed"))
        require_count("seed", self.seed, least=0, most=2**63 - 1)
        if self.guidance_scale != 0:
            require_positive("guidance", self.guidance_scale)
        self._require_schedule()
        self._require_size()

    @property
    def pipeline(self) -> Pipeline:
        """The shape of the networks."""
        return PIPELINES[self.model]

    @property
    def num_steps(self) -> int:
        """Denoising steps per image."""
        return self.pipeline.steps if self.steps is None else self.steps

    @property
    def image_size(self) -> int:
        """Side of the image in pixels."""
        return self.pipeline.image_size if self.resolution is None else self.resolution

    @property
    def guidance_scale(self) -> float:
        """Weight of the prompt."""
        return self.pipeline.guidance if self.guidance is None else self.guidance

    @property
    def is_guided(self) -> bool:
        """Whether each step computes with the prompt and without."""
        return self.guidance_scale > 1

    def _require_schedule(self) -> None:
        most = self.pipeline.schedule["num_train_timesteps"]
        if self.num_steps > most:
            raise ConfigError(
                f"steps must be at most {most}, the noise levels that {self.model} was trained "
                f"on, got {self.num_steps}."
            )

    def _require_size(self) -> None:
        step, side = self.pipeline.size_step, self.image_size
        if side % step:
            below, above = side // step * step, (side // step + 1) * step
            nearest = f"{below} or {above}" if below else str(above)
            raise ConfigError(
                f"resolution must be a multiple of {step} for {self.model}, got {side}; "
                f"take {nearest}."
            )
