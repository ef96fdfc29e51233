"""How digits are drawn, step by step.

Imports torch and diffusers, so it is imported only by functions that run or trace a network.
"""

from typing import Any

import torch
from typing_extensions import override

from joulelab.workloads.diffusion_schedulers import host_scalars, scheduler_of, set_steps
from joulelab.workloads.digits import SIDE_PX
from joulelab.workloads.digits_diffusion import DigitsDiffusionSettings
from joulelab.workloads.digits_diffusion_network import SCHEDULE
from joulelab.workloads.loop import Loop

_SEED = 0
# The multistep solver holds what it believes the image to be within -1 to 1 only so; ddim does by
# clipping. It then lets no single image run away.
_HELD = {"dpm++": {"thresholding": True, "sample_max_value": 1.0}}


class Denoising(Loop):
    """The steps from noise to images.

    Args:
        network: The network.
        settings: Steps and scheduler.
        num_images: How many are drawn side by side.
        seed: Seed of the noise, which is drawn on the host, so that it is the same everywhere.
    """

    def __init__(
        self,
        network: Any,
        settings: DigitsDiffusionSettings,
        num_images: int,
        *,
        seed: int = _SEED,
    ) -> None:
        self._network = network
        self._num_steps = settings.steps
        self._scheduler = scheduler_of(
            settings.scheduler, {**SCHEDULE, **_HELD.get(settings.scheduler, {})}
        )
        random = torch.Generator().manual_seed(seed)
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
