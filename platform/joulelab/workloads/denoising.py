"""Denoising by the schedulers of diffusers, step by step."""

import warnings
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads.network_cost import Loop

ensure_torchvision()  # diffusers imports it

from diffusers.schedulers.scheduling_ddim import DDIMScheduler  # noqa: E402
from diffusers.schedulers.scheduling_dpmsolver_multistep import (  # noqa: E402
    DPMSolverMultistepScheduler,
)
from diffusers.schedulers.scheduling_euler_ancestral_discrete import (  # noqa: E402
    EulerAncestralDiscreteScheduler,
)
from diffusers.schedulers.scheduling_euler_discrete import EulerDiscreteScheduler  # noqa: E402
from diffusers.schedulers.scheduling_unipc_multistep import UniPCMultistepScheduler  # noqa: E402

_KINDS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "dpm++": (DPMSolverMultistepScheduler, {"use_karras_sigmas": False}),
    "dpm++-karras": (DPMSolverMultistepScheduler, {"use_karras_sigmas": True}),
    "euler": (EulerDiscreteScheduler, {}),
    "euler-a": (EulerAncestralDiscreteScheduler, {}),
    "ddim": (DDIMScheduler, {}),
    "unipc": (UniPCMultistepScheduler, {}),
}


class Denoising(Loop):
    """The steps from noise to what it hides; a subclass draws the noise and predicts it.

    Args:
        scheduler: A scheduler of diffusers.
        num_steps: Steps of denoising.
        options: What a step of the scheduler is given besides.
    """

    def __init__(self, scheduler: Any, num_steps: int, **options: Any) -> None:
        self._scheduler, self._num_steps, self._options = scheduler, num_steps, options
        self._times = torch.empty(0)
        self.latents = torch.empty(0)
        """What is left after the last step that was taken."""

    @property
    @override
    def num_steps(self) -> int:
        return self._num_steps

    @abstractmethod
    def noise(self) -> torch.Tensor:
        """Return what is denoised, of variance 1 and the same each time."""

    @override
    def start(self) -> None:
        scheduler = self._scheduler
        with _quiet_numpy(), host_scalars():
            scheduler.set_timesteps(self._num_steps)
            if hasattr(scheduler, "set_begin_index"):  # else it looks for it in the first step
                scheduler.set_begin_index(0)
            noise = self.noise()
            self.latents = noise * self._scheduler.init_noise_sigma
            self._times = self._scheduler.timesteps.to(noise.device)

    @override
    def skip_to(self, index: int) -> None:
        self.start()
        for skipped in range(index):
            self.scaled(self.latents, skipped)
            self.follow(torch.zeros_like(self.latents), skipped)

    def scaled(self, samples: torch.Tensor, index: int) -> torch.Tensor:
        """Return ``samples`` as the network takes them in step ``index``."""
        with host_scalars():
            scaled: torch.Tensor = self._scheduler.scale_model_input(samples, self._time(index))
        return scaled

    def follow(self, noise: torch.Tensor, index: int) -> None:
        """Take step ``index``, in which ``noise`` was predicted."""
        with host_scalars():
            self.latents = self._scheduler.step(
                noise, self._time(index), self.latents, **self._options, return_dict=False
            )[0]

    def _time(self, index: int) -> torch.Tensor:
        """Return the time of a step, on the host: the scheduler decides by its value."""
        time: torch.Tensor = self._scheduler.timesteps[index]
        return time


def scheduler_of(name: str, schedule: Mapping[str, Any]) -> Any:
    """Make the scheduler of this short name.

    ``schedule`` holds noise levels, as in the ``scheduler_config.json`` of a pipeline; what another
    scheduler than its own does not know is left out.
    """
    kind, options = _KINDS[name]
    known = kind._get_init_keys(kind)  # noqa: SLF001
    taken = {key: value for key, value in schedule.items() if key in known}
    with _quiet_numpy(), host_scalars():
        return kind(**{**taken, **options})


def host_scalars() -> AbstractContextManager[object]:
    """Compute a scheduler's scalars for real in a ``with`` block, though its tensors be fake.

    A scheduler keeps its noise levels on the host, computes a few scalars of them and decides by
    their values; only what it does to the latents runs on the device. Under fake tensors, which
    have no values, this draws the same line: what takes no fake tensor is computed at once and
    is not recorded. Without fake tensors it does nothing.

    UniPC alone keeps scalars on the device, some dozens of launches per step on one number each;
    they are not recorded either.
    """
    return nullcontext() if active_fake_mode() is None else _HostScalars()  # type: ignore[no-untyped-call]


@contextmanager
def _quiet_numpy() -> Generator[None]:
    """Hide that some schedulers hand tensors to NumPy in a way that NumPy 2 has deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__", category=DeprecationWarning)
        yield


class _HostScalars(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @override
    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        draws = torch.Tag.nondeterministic_seeded in func.tags  # noise, of the latents' size
        if draws or any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        with _disable_current_modes():
            return func(*args, **kwargs)
