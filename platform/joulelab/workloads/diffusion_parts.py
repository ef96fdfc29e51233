"""The parts of a text-to-image pipeline: networks, random or pretrained, tokenizers, schedulers.

Imports torch, transformers and diffusers, so it is imported only by functions that run or trace a
network.
"""

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads import hub
from joulelab.workloads.diffusion import DiffusionSettings
from joulelab.workloads.diffusion_geometry import Config, Pipeline
from joulelab.workloads.formats import storage_dtype

from diffusers import (  # isort: skip  # hub makes them importable
    AutoencoderKL,
    DiffusionPipeline,
    UNet2DConditionModel,
)
from diffusers.schedulers.scheduling_ddim import DDIMScheduler  # isort: skip
from diffusers.schedulers.scheduling_dpmsolver_multistep import (  # isort: skip
    DPMSolverMultistepScheduler,
)
from diffusers.schedulers.scheduling_euler_ancestral_discrete import (  # isort: skip
    EulerAncestralDiscreteScheduler,
)
from diffusers.schedulers.scheduling_euler_discrete import EulerDiscreteScheduler  # isort: skip
from diffusers.schedulers.scheduling_unipc_multistep import UniPCMultistepScheduler  # isort: skip
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection  # isort: skip


PROMPT_TOKENS = 77
"""Length of a prompt, padded: CLIP's longest."""

_ENCODERS = ("text_encoder", "text_encoder_2")
_UNWANTED = {
    "safety_checker": None,
    "feature_extractor": None,
    "requires_safety_checker": False,
}
"""Parts of older pipelines that judge finished images."""

_TOKENIZERS = ("tokenizer", "tokenizer_2")
_KINDS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "dpm++": (DPMSolverMultistepScheduler, {"use_karras_sigmas": False}),
    "dpm++-karras": (DPMSolverMultistepScheduler, {"use_karras_sigmas": True}),
    "euler": (EulerDiscreteScheduler, {}),
    "euler-a": (EulerAncestralDiscreteScheduler, {}),
    "ddim": (DDIMScheduler, {}),
    "unipc": (UniPCMultistepScheduler, {}),
}


class Parts(torch.nn.ModuleDict):
    """The networks of a pipeline as one, in inference mode, and what else it has.

    Args:
        unet: Predicts the noise in latents.
        vae: Turns latents into images.
        text_encoders: Turn tokens into what conditions ``unet``.
        schedule: Configuration of its scheduler.
        tokenizers: Those of the text encoders; empty where the weights are random.
    """

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
        """Return the tokens of ``texts`` for each text encoder, shape (texts, PROMPT_TOKENS).

        Random networks have no vocabulary: to them every byte of a text is a token.
        """
        if self.tokenizers:
            return tuple(_tokenized(tokenizer, texts) for tokenizer in self.tokenizers)
        return tuple(_bytes_as_tokens(encoder.config, texts) for encoder in self.text_encoders)


def parts_of(settings: DiffusionSettings, device: torch.device) -> Parts:
    """Make or load the networks of ``settings``, on ``device`` and in inference mode.

    On tensors without memory no weights are read: those that would be have the same geometry.
    Raises ConfigError if weights cannot be read, or are of another geometry.
    """
    dtype = storage_dtype(settings.precision)
    if settings.weights is None or active_fake_mode() is not None:
        parts = _random_parts(settings.pipeline, dtype, device)
    else:
        parts = _pretrained_parts(settings, settings.weights, dtype, device)
    if settings.attention_slicing:
        parts.unet.set_attention_slice("auto")
    return parts


def decoder_dtype(pipeline: Pipeline, dtype: torch.dtype) -> torch.dtype:
    """Return the format of the decoder of a pipeline whose other networks are in ``dtype``.

    In half precision that of an XL pipeline overflows, so diffusers decodes in single precision.
    """
    return torch.float32 if pipeline.pooled_width and dtype == torch.float16 else dtype


def _random_parts(pipeline: Pipeline, dtype: torch.dtype, device: torch.device) -> Parts:
    with device, default_dtype(dtype):
        encoders = _text_encoders(pipeline)
        unet = UNet2DConditionModel(**pipeline.unet)  # type: ignore[no-untyped-call]
    with device, default_dtype(decoder_dtype(pipeline, dtype)):
        vae = AutoencoderKL(**pipeline.vae)  # type: ignore[no-untyped-call]
    return Parts(unet=unet, vae=vae, text_encoders=encoders, schedule=pipeline.schedule)


def _text_encoders(pipeline: Pipeline) -> tuple[torch.nn.Module, ...]:
    """Make the text encoders; the last of an XL pipeline also pools its text."""
    kinds: list[Any] = [CLIPTextModel] * len(pipeline.text_encoders)
    if pipeline.pooled_width:
        kinds[-1] = CLIPTextModelWithProjection
    configs = [CLIPTextConfig(**config) for config in pipeline.text_encoders]
    return tuple(kind(config) for kind, config in zip(kinds, configs, strict=True))


def _pretrained_parts(
    settings: DiffusionSettings, weights: str, dtype: torch.dtype, device: torch.device
) -> Parts:
    is_xl = bool(settings.pipeline.pooled_width)
    unwanted = {} if is_xl else _UNWANTED
    with hub.reading(weights):
        loaded: Any = DiffusionPipeline.from_pretrained(  # type: ignore[no-untyped-call]
            weights, dtype=dtype, **unwanted
        )
    _require_geometry(settings, loaded.unet.config, weights)
    loaded.to(device)
    loaded.vae.to(decoder_dtype(settings.pipeline, dtype))
    names = range(len(settings.pipeline.text_encoders))
    return Parts(
        unet=loaded.unet,
        vae=loaded.vae,
        text_encoders=tuple(getattr(loaded, _ENCODERS[index]) for index in names),
        tokenizers=tuple(getattr(loaded, _TOKENIZERS[index]) for index in names),
        schedule=loaded.scheduler.config,
    )


def _require_geometry(settings: DiffusionSettings, found: Config, weights: str) -> None:
    wanted = {key: value for key, value in settings.pipeline.unet.items() if key != "sample_size"}
    differing = [
        f"{key} {found.get(key)} (not {value})"
        for key, value in wanted.items()
        if _plain(found.get(key)) != _plain(value)
    ]
    if differing:
        raise ConfigError(
            f"weights must be of the geometry that model names, but the UNet of {weights!r} has "
            f"{', '.join(differing)}."
        )


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


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


@contextmanager
def default_dtype(dtype: torch.dtype) -> Generator[None]:
    """Make networks in ``dtype`` in a ``with`` block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


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


def set_steps(scheduler: Any, num_steps: int) -> None:
    """Let ``scheduler`` begin anew with ``num_steps`` steps, its noise levels on the host."""
    with _quiet_numpy(), host_scalars():
        scheduler.set_timesteps(num_steps)
        if hasattr(scheduler, "set_begin_index"):  # else it looks for it in the first step
            scheduler.set_begin_index(0)


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
