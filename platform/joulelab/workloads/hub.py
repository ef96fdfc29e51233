"""Networks of transformers with random weights, or with those of a folder or of the hub.

``auto`` is a class that makes networks of configurations: ``AutoModelForCausalLM`` and its kin, or
a network's own class. Networks are built on their device in their format, so random weights are
never copied through the host, and come in inference mode.
"""

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from safetensors import SafetensorError
from torch._guards import active_fake_mode

from joulelab.errors import ConfigError
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.network import NetworkSettings

ensure_torchvision()  # transformers imports it

from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel  # noqa: E402
from transformers.initialization import no_init_weights  # noqa: E402

_NAMED_KEYS = 3


def network_of(
    auto: Any,
    config: PreTrainedConfig,
    settings: NetworkSettings,
    device: torch.device,
    *,
    shape: Iterable[str],
    **options: Any,
) -> PreTrainedModel:
    """Return the network of ``config``, made by ``auto`` with ``options``, as ``settings`` say.

    Raises ConfigError if weights cannot be read, are not whole, or differ in ``shape``.
    """
    dtype, weights = storage_dtype(settings.precision), settings.weights
    if weights is None:
        return random_model(auto, config, dtype, device, **options)
    require_geometry(config, published_config(weights), ("model_type", *shape), weights)
    return pretrained_model(auto, weights, dtype, device, **options)


def unfilled() -> AbstractContextManager[object]:
    """Return what builds networks without initial values among fake tensors, which have none."""
    return no_init_weights() if active_fake_mode() is not None else nullcontext()


def random_model(
    auto: Any, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device, **options: Any
) -> PreTrainedModel:
    """Make a network with the random weights of its initialisation, directly on ``device``."""
    make = getattr(auto, "from_config", None) or auto._from_config  # noqa: SLF001
    with device, unfilled():
        network: PreTrainedModel = make(config, dtype=dtype, **options)
    if active_fake_mode() is not None:
        network.tie_weights()  # which an initialisation does
    network.train(mode=False)
    return network


def pretrained_model(
    auto: Any, weights: str, dtype: torch.dtype, device: torch.device, **options: Any
) -> PreTrainedModel:
    """Load the network in the folder or of the hub id ``weights`` onto ``device``.

    On tensors without memory it is built from its configuration, and no weights are read.
    Raises ConfigError if it cannot be read, or lacks weights that the network has.
    """
    if active_fake_mode() is not None:
        return random_model(auto, published_config(weights), dtype, device, **options)
    with reading(weights):
        network, found = auto.from_pretrained(
            weights, dtype=dtype, output_loading_info=True, **options
        )
    if missing := sorted(found["missing_keys"]):  # it would be random in part
        raise ConfigError(
            f"weights must hold the whole network, but {weights!r} lacks {len(missing)} of its "
            f"tensors, such as {', '.join(missing[:_NAMED_KEYS])}; take a checkpoint trained for "
            "this task."
        )
    network.train(mode=False)
    network.to(device)
    loaded: PreTrainedModel = network
    return loaded


def published_config(weights: str) -> PreTrainedConfig:
    """Return the configuration in a folder or of a hub id; ConfigError if it cannot be read."""
    with reading(weights):
        config: PreTrainedConfig = AutoConfig.from_pretrained(weights)
    return config


def require_geometry(wanted: object, found: object, names: Iterable[str], weights: str) -> None:
    """Refuse ``weights`` that differ from ``wanted`` in ``names``, by a ConfigError."""
    values = {
        name: [_plain(getattr(each, name, None)) for each in (found, wanted)] for name in names
    }
    differing = [
        f"{name} {has} (not {asked})" for name, (has, asked) in values.items() if has != asked
    ]
    if differing:
        raise ConfigError(
            f"weights must be of the geometry that model names, but {weights!r} has "
            f"{', '.join(differing)}."
        )


def _plain(value: Any) -> Any:
    """Return what decides the shape: of a configuration in the configuration, its own."""
    if isinstance(value, PreTrainedConfig):
        return [_plain(getattr(value, name, None)) for name in ("hidden_sizes", "depths")]
    return list(value) if isinstance(value, tuple) else value


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
