"""The parts of a text-to-image pipeline: networks, tokenizers, and schedulers that denoise."""

import warnings
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from joulelab.workloads import hub
from joulelab.workloads.diffusion_settings import Pipeline
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.network import NetworkSettings
from joulelab.workloads.network_cost import Loop

from diffusers import (  # isort: skip  # hub makes them importable
    AutoencoderKL,
    DDIMScheduler,
    DiffusionPipeline,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    UNet2DConditionModel,
    UniPCMultistepScheduler,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection  # isort: skip
from transformers.modeling_utils import local_torch_dtype  # isort: skip

PROMPT_TOKENS = 77
"""Length of a prompt, padded: CLIP's longest."""

default_dtype = local_torch_dtype
"""Makes networks in a format in a ``with`` block."""

_ENCODERS = ("text_encoder", "text_encoder_2")
_UNWANTED = {
    "safety_checker": None,
    "feature_extractor": None,
    "requires_safety_checker": False,
}
"""Parts of older pipelines that judge finished images."""

_TOKENIZERS = ("tokenizer", "tokenizer_2")


class Parts(torch.nn.ModuleDict):
    """The networks of a pipeline, its scheduler's configuration and, unless random, tokenizers."""

    unet: Any
    vae: Any

    def __init__(
        self,
        *,
        unet: Any,
        vae: Any,
        text_encoders: tuple[Any, ...],
        schedule: Mapping[str, Any],
        tokenizers: tuple[Any, ...] = (),
    ) -> None:
        encoders = dict(zip(_ENCODERS, text_encoders, strict=False))
        super().__init__({**encoders, "unet": unet, "vae": vae})
        self.text_encoders, self.tokenizers, self.schedule = text_encoders, tokenizers, schedule
        self.eval()

    def tokens(self, texts: Sequence[str]) -> tuple[torch.Tensor, ...]:
        """Return tokens for each text encoder, (texts, PROMPT_TOKENS); bytes if random."""
        if self.tokenizers:
            return tuple(_tokenized(tokenizer, texts) for tokenizer in self.tokenizers)
        return tuple(_bytes_as_tokens(encoder.config, texts) for encoder in self.text_encoders)


def parts_of(pipeline: Pipeline, settings: NetworkSettings, device: torch.device) -> Parts:
    """Make or load the networks of ``pipeline``, on ``device`` and in inference mode.

    On tensors without memory no weights are read: those that would be have the same geometry.
    Raises ConfigError if weights cannot be read, or are of another geometry.
    """
    dtype = storage_dtype(settings.precision)
    if settings.weights is None or active_fake_mode() is not None:
        with device, default_dtype(dtype), hub.unfilled():
            encoders = _text_encoders(pipeline)
            unet = UNet2DConditionModel(**pipeline.unet)  # type: ignore[no-untyped-call]
        with device, default_dtype(decoder_dtype(pipeline, dtype)), hub.unfilled():
            vae = AutoencoderKL(**pipeline.vae)  # type: ignore[no-untyped-call]
        return Parts(unet=unet, vae=vae, text_encoders=encoders, schedule=pipeline.schedule)
    return _pretrained_parts(pipeline, settings.weights, dtype, device)


def decoder_dtype(pipeline: Pipeline, dtype: torch.dtype) -> torch.dtype:
    """Return the decoder's format: that of an XL pipeline overflows in half precision."""
    return torch.float32 if pipeline.pooled_width and dtype == torch.float16 else dtype


def _text_encoders(pipeline: Pipeline) -> tuple[torch.nn.Module, ...]:
    """Make the text encoders; the last of an XL pipeline also pools its text."""
    kinds: list[Any] = [CLIPTextModel] * len(pipeline.text_encoders)
    if pipeline.pooled_width:
        kinds[-1] = CLIPTextModelWithProjection
    configs = [CLIPTextConfig(**config) for config in pipeline.text_encoders]
    return tuple(kind(config) for kind, config in zip(kinds, configs, strict=True))


def _pretrained_parts(
    pipeline: Pipeline, weights: str, dtype: torch.dtype, device: torch.device
) -> Parts:
    is_xl = bool(pipeline.pooled_width)
    unwanted = {} if is_xl else _UNWANTED
    with hub.reading(weights):
        loaded: Any = DiffusionPipeline.from_pretrained(  # type: ignore[no-untyped-call]
            weights, dtype=dtype, **unwanted
        )
    unet = {key: value for key, value in pipeline.unet.items() if key != "sample_size"}
    hub.require_geometry(SimpleNamespace(**unet), loaded.unet.config, unet, weights)
    loaded.to(device)
    loaded.vae.to(decoder_dtype(pipeline, dtype))
    names = range(len(pipeline.text_encoders))
    return Parts(
        unet=loaded.unet,
        vae=loaded.vae,
        text_encoders=tuple(getattr(loaded, _ENCODERS[index]) for index in names),
        tokenizers=tuple(getattr(loaded, _TOKENIZERS[index]) for index in names),
        schedule=loaded.scheduler.config,
    )


def _tokenized(tokenizer: Any, texts: Sequence[str]) -> torch.Tensor:
    tokens: torch.Tensor = tokenizer(
        list(texts),
        padding="max_length",
        max_length=PROMPT_TOKENS,
        truncation=True,
        return_tensors="pt",
    ).input_ids
    return tokens


def _bytes_as_tokens(config: Any, texts: Sequence[str]) -> torch.Tensor:
    rows = []
    for text in texts:
        row = [config.bos_token_id, *text.encode()[: PROMPT_TOKENS - 2]]
        rows.append(row + [config.eos_token_id] * (PROMPT_TOKENS - len(row)))
    return torch.tensor(rows)


_KINDS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "dpm++": (DPMSolverMultistepScheduler, {"use_karras_sigmas": False}),
    "dpm++-karras": (DPMSolverMultistepScheduler, {"use_karras_sigmas": True}),
    "euler": (EulerDiscreteScheduler, {}),
    "euler-a": (EulerAncestralDiscreteScheduler, {}),
    "ddim": (DDIMScheduler, {}),
    "unipc": (UniPCMultistepScheduler, {}),
}


class Denoising(Loop):
    """The steps from noise to what it hides; ``options`` are given to the scheduler's steps."""

    def __init__(self, scheduler: Any, num_steps: int, **options: Any) -> None:
        self._scheduler, self.num_steps, self._options = scheduler, num_steps, options
        self._times = torch.empty(0)
        self.latents = torch.empty(0)
        """What is left after the last step that was taken."""

    @abstractmethod
    def noise(self) -> torch.Tensor:
        """Return what is denoised, of variance 1 and the same each time."""

    @override
    def start(self) -> None:
        scheduler = self._scheduler
        with _quiet_numpy(), host_scalars():
            scheduler.set_timesteps(self.num_steps)
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
    """Make the scheduler of a short name from what it knows of a ``scheduler_config.json``."""
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
