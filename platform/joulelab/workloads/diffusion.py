"""Text-to-image diffusion: text encoder, denoising and decoder, measured apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.workloads.diffusion_geometry import PIPELINES, Pipeline
from joulelab.workloads.knobs import check_knobs, require_count, require_positive
from joulelab.workloads.network import NetworkWorkload, Programs

Model = Literal["tiny", "tiny-xl", "sd-1.4", "sd-1.5", "sd-2.1", "sdxl", "sd-turbo", "sdxl-turbo"]
Scheduler = Literal["dpm++", "dpm++-karras", "euler", "euler-a", "ddim", "unipc"]
Images = Callable[[Sequence[str]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionSettings:
    """Make images of random prompts.

    Attributes:
        model: Geometry of the networks.
        weights: Folder or hub id of a pipeline of that geometry; by default the weights are
            random, which takes the same time and energy and needs no download.
        precision: Number format of weights and activations. tf32 is stored as fp32. Under fp16
            and int8 the decoder of an XL model computes in fp32, as in diffusers.
        batch: Images made side by side.
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
    weights: str | None = None
    precision: NetworkPrecision = "fp16"
    batch: int = 1
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


class Diffusion(NetworkWorkload[DiffusionSettings]):
    """Runs the networks of a pipeline of diffusers, and counts images.

    Every run denoises the same noise under the same prompts. Denoising is the whole loop over the
    steps, the scheduler's part included.
    """

    settings_type: ClassVar = DiffusionSettings
    unit: ClassVar = "image"
    phases = ("text_encoder", "denoising", "vae")
    input_knobs: ClassVar = frozenset(
        {"batch", "steps", "resolution", "guidance", "scheduler", "seed"}
    )

    def __init__(self, settings: DiffusionSettings) -> None:
        super().__init__(settings)
        self._images: Images | None = None

    @property
    @override
    def title(self) -> str:
        settings = self.settings
        side = settings.image_size
        return f"{settings.model} in {settings.precision} with {settings.batch} x {side}x{side}"

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.diffusion_parts import parts_of

        return parts_of(self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        import torch

        from joulelab.workloads import diffusion_network

        settings = self.settings
        measured = diffusion_network.TextToImage(
            network,
            settings,
            prompts=diffusion_network.random_prompts(network, settings, device),
            generators=[torch.Generator(device)],
            seed=settings.seed,
        )
        self._images = lambda texts: diffusion_network.images_of(network, settings, texts, device)
        return {
            "text_encoder": measured.encode,
            "denoising": measured.denoising,
            "vae": measured.decode,
        }

    @override
    def close(self) -> None:
        self._images = None
        super().close()

    def images(self, texts: Sequence[str]) -> Any:
        """Make an image of each text, ``batch`` at a time: (texts, 3, side, side), 0 to 1.

        They are on the host. Image ``i`` starts from the noise of ``seed + i``, drawn on the host,
        so it does not depend on the batch, nor its noise on the device. Random networks take each
        byte of a text for a token. Raises ConfigError if the workload is not prepared.
        """
        if self._images is None:
            raise ConfigError("diffusion must be prepared before it makes images.")
        from joulelab.workloads import accelerator

        with accelerator.memory_errors(self.title), accelerator.computing(self.settings.precision):
            return self._images(texts)
