"""Text-to-image diffusion: text encoder, denoising and decoder, measured apart."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.diffusion_settings import DiffusionSettings
from joulelab.workloads.network import NetworkWorkload, Programs

Images = Callable[[Sequence[str]], Any]


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

        parts = parts_of(self.settings.pipeline, self.settings, device)
        if self.settings.attention_slicing:
            parts.unet.set_attention_slice("auto")
        return parts

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
