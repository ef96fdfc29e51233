"""A Llama network of transformers, with random or pretrained weights.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

import torch

from joulelab.errors import ConfigError
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads import hub
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.llama_geometry import LlamaGeometry
from joulelab.workloads.llama_settings import LlamaSettings

ensure_torchvision()  # transformers imports it

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

_SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "vocab_size"),
)


def config_of(geometry: LlamaGeometry) -> LlamaConfig:
    """Return the transformers configuration of ``geometry``."""
    return LlamaConfig(**geometry.config_values)


def config_for(settings: LlamaSettings) -> PreTrainedConfig:
    """Return the configuration of the network that ``settings`` name, published or elsewhere.

    Raises:
        ConfigError: If it cannot be read, is no Llama, or cannot read sequences so long.
    """
    if not settings.is_elsewhere:
        return config_of(settings.geometry)
    config = hub.published_config(settings.model)
    if config.model_type != "llama":
        raise ConfigError(
            f"model must be a Llama network, but {settings.model!r} is a {config.model_type}."
        )
    settings.check_lengths(config.max_position_embeddings)
    return config


def random_network(settings: LlamaSettings, device: torch.device) -> PreTrainedModel:
    """Make a network with normally distributed weights, directly on ``device``.

    Raises:
        ConfigError: As :func:`config_for` does.
    """
    return hub.random_model(
        AutoModelForCausalLM,
        config_for(settings),
        storage_dtype(settings.precision),
        device,
        attn_implementation=settings.attention,
    )


def pretrained_network(
    settings: LlamaSettings, weights: str, device: torch.device
) -> PreTrainedModel:
    """Load the network in the folder or of the hub id ``weights`` onto ``device``.

    Raises:
        ConfigError: If it cannot be read, or is not of the geometry in ``settings``.
    """
    hub.require_geometry(config_for(settings), weights, _SHAPE)
    return hub.pretrained_model(
        AutoModelForCausalLM,
        weights,
        storage_dtype(settings.precision),
        device,
        attn_implementation=settings.attention,
    )
