"""The network that draws digits, and how it is trained.

Imports torch and diffusers, so it is imported only by functions that run or trace a network.
"""

from typing import Any

import torch

from joulelab.workloads.diffusion_parts import default_dtype
from joulelab.workloads.diffusion_schedulers import scheduler_of
from joulelab.workloads.digits import SIDE_PX, all_digits
from joulelab.workloads.digits_diffusion import DigitsDiffusionSettings
from joulelab.workloads.digits_tensors import as_tensors
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.training import Recipe, load_trained

from diffusers import UNet2DModel  # isort: skip  # after schedulers, which prepare it

_BATCH = 64
_NOISE_LEVELS = 1000
# The cosine schedule of Nichol and Dhariwal, "Improved denoising diffusion probabilistic models",
# 2021: small images lose their content too early under the linear one.
SCHEDULE = {
    "num_train_timesteps": _NOISE_LEVELS,
    "beta_schedule": "squaredcos_cap_v2",
    "clip_sample": True,
    "timestep_spacing": "trailing",
    "lambda_min_clipped": -5.1,  # as diffusers advises for this schedule and multistep solvers
}
"""Noise levels; each scheduler takes what it knows of it."""


def recipe() -> Recipe:
    """Return how the network is trained: to tell the noise that was added to a digit."""
    images, _ = as_tensors(all_digits())
    centred = 2 * images - 1
    scheduler = scheduler_of("ddim", SCHEDULE)

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        chosen = torch.randint(len(centred), (_BATCH,), generator=generator)
        times = torch.randint(_NOISE_LEVELS, (_BATCH,), generator=generator)
        noise = torch.randn((_BATCH, *centred.shape[1:]), generator=generator)
        noisy = scheduler.add_noise(centred[chosen], noise, times)
        return torch.nn.functional.mse_loss(network(noisy, times).sample, noise)

    return Recipe(
        name="digits-diffusion",
        build=_random,
        loss=loss,
        num_steps=1000,
        peak_rate=3e-3,
        sources=(
            "workloads/digits_diffusion_network.py",
            "workloads/digits_tensors.py",
            "workloads/digits.py",
        ),
    )


def load_network(settings: DigitsDiffusionSettings, device: torch.device) -> Any:
    """Return the network on ``device`` in the format of the precision."""
    with device, default_dtype(storage_dtype(settings.precision)):
        network = _random()
    network.train(mode=False)
    if settings.weights is not None:
        load_trained(network, recipe())
    return network


def _random() -> Any:
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
