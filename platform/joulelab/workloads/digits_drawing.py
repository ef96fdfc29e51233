"""The network that draws digits: how it is trained, and how it draws, step by step.

Imports torch and diffusers, so it is imported only by functions that run or trace a network.
"""

from typing import Any

import torch
from typing_extensions import override

from joulelab.workloads.diffusion_parts import default_dtype, host_scalars, scheduler_of, set_steps
from joulelab.workloads.digits import SIDE_PX, DigitsDiffusionSettings, all_digits
from joulelab.workloads.digits_networks import SOURCES, as_tensors
from joulelab.workloads.network import Loop
from joulelab.workloads.training import Recipe

from diffusers import UNet2DModel  # isort: skip  # after diffusion_parts, which prepares it


_BATCH = 64
_NOISE_LEVELS = 1000
# Noise levels, of which each scheduler takes what it knows: the cosine schedule of Nichol and
# Dhariwal, "Improved denoising diffusion probabilistic models", 2021, since small images lose their
# content too early under the linear one.
_SCHEDULE = {
    "num_train_timesteps": _NOISE_LEVELS,
    "beta_schedule": "squaredcos_cap_v2",
    "clip_sample": True,
    "timestep_spacing": "trailing",
    "lambda_min_clipped": -5.1,  # as diffusers advises for this schedule and multistep solvers
}
_SEED = 0
# The multistep solver holds what it believes the image to be within -1 to 1 only so; ddim does by
# clipping. It then lets no single image run away.
_HELD = {"dpm++": {"thresholding": True, "sample_max_value": 1.0}}


def recipe() -> Recipe:
    """Return how the network is trained: to tell the noise that was added to a digit."""
    images, _ = as_tensors(all_digits())
    centred = 2 * images - 1
    scheduler = scheduler_of("ddim", _SCHEDULE)

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        chosen = torch.randint(len(centred), (_BATCH,), generator=generator)
        times = torch.randint(_NOISE_LEVELS, (_BATCH,), generator=generator)
        noise = torch.randn((_BATCH, *centred.shape[1:]), generator=generator)
        noisy = scheduler.add_noise(centred[chosen], noise, times)
        return torch.nn.functional.mse_loss(network(noisy, times).sample, noise)

    return Recipe(
        name="digits-diffusion",
        build=_network,
        loss=loss,
        num_steps=1000,
        peak_rate=3e-3,
        sources=("workloads/digits_drawing.py", *SOURCES),
    )


def _network(dtype: torch.dtype, device: torch.device) -> Any:
    with device, default_dtype(dtype):
        return UNet2DModel(  # type: ignore[no-untyped-call]
            sample_size=SIDE_PX,
            in_channels=1,
            out_channels=1,
            layers_per_block=1,
            block_out_channels=(16, 32),
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            norm_num_groups=8,
            attention_head_dim=16,
        )


class Denoising(Loop):
    """The steps from noise to images.

    Args:
        network: The network.
        settings: Steps and scheduler.
        num_images: How many are drawn side by side, from noise that is the same everywhere.
    """

    def __init__(self, network: Any, settings: DigitsDiffusionSettings, num_images: int) -> None:
        self._network = network
        self._num_steps = settings.steps
        self._scheduler = scheduler_of(
            settings.scheduler, {**_SCHEDULE, **_HELD.get(settings.scheduler, {})}
        )
        random = torch.Generator().manual_seed(_SEED)  # on the host
        noise = torch.randn(num_images, 1, SIDE_PX, SIDE_PX, generator=random)
        self._noise = noise.to(network.device, network.dtype)
        self._times = torch.empty(0)
        self.images = self._noise
        """Images from -1 to 1 after the last step that was taken."""

    @property
    @override
    def num_steps(self) -> int:
        return self._num_steps

    @override
    def start(self) -> None:
        set_steps(self._scheduler, self._num_steps)
        self.images = self._noise
        with host_scalars():
            self._times = self._scheduler.timesteps.to(self._noise.device)

    @override
    def step(self, index: int) -> None:
        noise = self._network(self.images, self._times[index], return_dict=False)[0]
        self._follow(noise, index)

    @override
    def skip_to(self, index: int) -> None:
        self.start()
        for skipped in range(index):
            self._follow(torch.zeros_like(self._noise), skipped)

    def _follow(self, noise: torch.Tensor, index: int) -> None:
        with host_scalars():
            time = self._scheduler.timesteps[index]
            self.images = self._scheduler.step(noise, time, self.images, return_dict=False)[0]
