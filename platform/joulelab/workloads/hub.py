"""Networks of transformers with random weights, or with those of a folder or of the hub.

``auto`` is a class that makes networks of configurations: ``AutoModelForCausalLM`` and its kin, or
a network's own class. Networks are built on their device in their format, so random weights are
never copied through the host, and come in inference mode.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from safetensors import SafetensorError
from torch._guards import active_fake_mode

from joulelab.errors import ConfigError
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision

ensure_torchvision()  # transformers imports it

from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel  # noqa: E402
from transformers.initialization import no_init_weights  # noqa: E402

_NAMED_KEYS = 3


def network_of(
    auto: Any,
    config: PreTrainedConfig,
    weights: str | None,
    dtype: torch.dtype,
    device: torch.device,
    **options: Any,
) -> PreTrainedModel:
    """Return the network of ``config``, random if ``weights`` is ``None``, else those weights.

    Raises:
        ConfigError: As :func:`pretrained_model` does.
    """
    if weights is None:
        return random_model(auto, config, dtype, device, **options)
    return pretrained_model(auto, weights, dtype, device, **options)


def random_model(
    auto: Any, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device, **options: Any
) -> PreTrainedModel:
    """Make a network with the random weights of its initialisation, directly on ``device``."""
    make = getattr(auto, "from_config", None) or auto._from_config  # noqa: SLF001
    tracing = active_fake_mode() is not None
    # An initialisation may read values, which fake tensors do not have; it also ties weights.
    with device, no_init_weights() if tracing else nullcontext():
        network: PreTrainedModel = make(config, dtype=dtype, **options)
    if tracing:
        network.tie_weights()
    network.train(mode=False)
    return network


def pretrained_model(
    auto: Any, weights: str, dtype: torch.dtype, device: torch.device, **options: Any
) -> PreTrainedModel:
    """Load the network in the folder or of the hub id ``weights`` onto ``device``.

    On tensors without memory it is built from its configuration, and no weights are read.

    Raises:
        ConfigError: If it cannot be read, or lacks weights that the network has.
    """
    if active_fake_mode() is not None:
        return random_model(auto, published_config(weights), dtype, device, **options)
    with reading(weights):
        network, found = auto.from_pretrained(
            weights, dtype=dtype, output_loading_info=True, **options
        )
    _require_complete(sorted(found["missing_keys"]), weights)
    network.train(mode=False)
    network.to(device)
    loaded: PreTrainedModel = network
    return loaded


def published_config(weights: str) -> PreTrainedConfig:
    """Return the configuration in the folder or of the hub id ``weights``.

    Raises:
        ConfigError: If it cannot be read.
    """
    with reading(weights):
        config: PreTrainedConfig = AutoConfig.from_pretrained(weights)
    return config


def require_geometry(wanted: PreTrainedConfig, weights: str, names: Sequence[str]) -> None:
    """Refuse ``weights`` of another kind or shape of network than ``wanted``.

    Args:
        wanted: Configuration of the network that is asked for.
        weights: Folder or hub id.
        names: The values of a configuration that make the shape.

    Raises:
        ConfigError: If they differ, naming in what, or cannot be read.
    """
    found = published_config(weights)
    differing = [
        f"{name} {getattr(found, name, None)} (not {getattr(wanted, name)})"
        for name in names
        if getattr(found, name, None) != getattr(wanted, name)
    ]
    if found.model_type != wanted.model_type or differing:
        raise ConfigError(
            f"weights must be of the geometry that model names, but {weights!r} is a "
            f"{found.model_type} with {', '.join(differing) or 'the same shape'}."
        )


@contextmanager
def reading(weights: str) -> Generator[None]:
    """Turn what goes wrong when ``weights`` are read in a ``with`` block into one line."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigError(
            "weights must be a folder with a checkpoint, or the id of one on the hub that this "
            f"machine can reach and read, got {weights!r}. For a gated network accept its licence "
            f"on the hub and run `hf auth login`. {' '.join(str(error).split())}"
        ) from error


def _require_complete(missing: list[str], weights: str) -> None:
    """Refuse a checkpoint whose network would be random in part."""
    if missing:
        named = ", ".join(missing[:_NAMED_KEYS])
        raise ConfigError(
            f"weights must hold the whole network, but {weights!r} lacks {len(missing)} of its "
            f"tensors, such as {named}; take a checkpoint trained for this task."
        )
