"""The network that draws digits: how it is trained, and how it draws, step by step."""

from typing import Any

import torch
from typing_extensions import override

from joulelab.workloads.diffusion_parts import Denoising, default_dtype, scheduler_of
from joulelab.workloads.digits_data import SIDE_PX, all_digits
from joulelab.workloads.digits_networks import SOURCES, as_tensors
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


class DigitsDenoising(Denoising):
    """The steps from noise, the same everywhere, to ``num_images`` images from -1 to 1."""

    def __init__(self, network: Any, scheduler: str, num_steps: int, num_images: int) -> None:
        schedule = {**_SCHEDULE, **_HELD.get(scheduler, {})}
        super().__init__(scheduler_of(scheduler, schedule), num_steps)
        self._network = network
        random = torch.Generator().manual_seed(_SEED)  # on the host
        noise = torch.randn(num_images, 1, SIDE_PX, SIDE_PX, generator=random)
        self._noise = noise.to(network.device, network.dtype)

    @override
    def noise(self) -> torch.Tensor:
        return self._noise

    @override
    def step(self, index: int) -> None:
        noise = self._network(self.latents, self._times[index], return_dict=False)[0]
        self.follow(noise, index)
