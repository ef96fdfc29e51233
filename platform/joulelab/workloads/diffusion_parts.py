"""The networks of a text-to-image pipeline, random or pretrained, and its tokenizers.

Imports torch, transformers and diffusers, so it is imported only by functions that run or trace a
network.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import active_fake_mode

from joulelab.errors import ConfigError
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads import hub
from joulelab.workloads.diffusion_geometry import Config, Pipeline
from joulelab.workloads.diffusion_settings import DiffusionSettings
from joulelab.workloads.formats import storage_dtype

ensure_torchvision()  # diffusers imports transformers, which imports it

from diffusers import AutoencoderKL, DiffusionPipeline, UNet2DConditionModel  # noqa: E402
from transformers import (  # noqa: E402
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a pipeline.

    Attributes:
        unet: Predicts the noise in latents.
        vae: Turns latents into images.
        text_encoders: Turn tokens into what conditions ``unet``.
        tokenizers: Those of the text encoders; empty where the weights are random.
        schedule: Configuration of its scheduler.
    """

    unet: Any
    vae: Any
    text_encoders: tuple[Any, ...]
    tokenizers: tuple[Any, ...] = ()
    schedule: Mapping[str, Any]

    @property
    def network(self) -> "PipelineNetwork":
        """All networks as one, in inference mode."""
        return PipelineNetwork(self)

    def tokens(self, texts: Sequence[str]) -> tuple[torch.Tensor, ...]:
        """Return the tokens of ``texts`` for each text encoder, shape (texts, PROMPT_TOKENS).

        Random networks have no vocabulary: to them every byte of a text is a token.
        """
        if self.tokenizers:
            return tuple(_tokenized(tokenizer, texts) for tokenizer in self.tokenizers)
        return tuple(_bytes_as_tokens(encoder.config, texts) for encoder in self.text_encoders)


class PipelineNetwork(torch.nn.ModuleDict):
    """The networks of a pipeline as one, in inference mode.

    Args:
        parts: What the pipeline is made of.
    """

    def __init__(self, parts: Parts) -> None:
        encoders = dict(zip(_ENCODERS, parts.text_encoders, strict=False))
        super().__init__({**encoders, "unet": parts.unet, "vae": parts.vae})
        self.parts = parts
        """What the pipeline is made of."""
        self.eval()


def parts_of(settings: DiffusionSettings, device: torch.device) -> Parts:
    """Make or load the networks of ``settings``, on ``device`` and in inference mode.

    On tensors without memory no weights are read: those that would be have the same geometry.

    Raises:
        ConfigError: If weights cannot be read, or are of another geometry.
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
