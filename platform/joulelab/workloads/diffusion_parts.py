"""The parts of a text-to-image pipeline: networks, random or pretrained, and tokenizers."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._guards import active_fake_mode

from joulelab.workloads import hub
from joulelab.workloads.diffusion_settings import Pipeline
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.network import NetworkSettings

from diffusers import (  # isort: skip  # hub makes them importable
    AutoencoderKL,
    DiffusionPipeline,
    UNet2DConditionModel,
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


def parts_of(pipeline: Pipeline, settings: NetworkSettings, device: torch.device) -> Parts:
    """Make or load the networks of ``pipeline``, on ``device`` and in inference mode.

    On tensors without memory no weights are read: those that would be have the same geometry.
    Raises ConfigError if weights cannot be read, or are of another geometry.
    """
    dtype = storage_dtype(settings.precision)
    if settings.weights is None or active_fake_mode() is not None:
        return _random_parts(pipeline, dtype, device)
    return _pretrained_parts(pipeline, settings.weights, dtype, device)


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
