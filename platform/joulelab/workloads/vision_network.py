"""What the networks that look at images share: their weights, their images, their norms.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch._guards import active_fake_mode

from joulelab.errors import ConfigError
from joulelab.estimator.tracing.building import fake_network
from joulelab.workloads import hub
from joulelab.workloads.formats import storage_dtype

from transformers import (  # isort: skip  # hub makes it importable
    AutoConfig,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    PreTrainedConfig,
    PreTrainedModel,
)

_CHANNELS = 3


class VisionSettings(Protocol):
    """What the settings of a network say about its weights."""

    @property
    def model(self) -> str:
        """Name of its geometry."""
        ...

    @property
    def weights(self) -> str | None:
        """Folder or hub id of a checkpoint."""
        ...

    @property
    def precision(self) -> str:
        """Number format."""
        ...


def classifier(
    geometry: Mapping[str, Any], settings: VisionSettings, device: torch.device
) -> PreTrainedModel:
    """Return a network that classifies images.

    Raises:
        ConfigError: If its weights cannot be read, or are of another geometry.
    """
    return _network(AutoModelForImageClassification, geometry, settings, device)


def detector(
    geometry: Mapping[str, Any], settings: VisionSettings, device: torch.device
) -> PreTrainedModel:
    """Return a network that detects objects in images.

    Raises:
        ConfigError: As :func:`classifier` does.
    """
    return _network(AutoModelForObjectDetection, geometry, settings, device)


def residual_network(
    name: str, precision: str, layout: torch.memory_format, device: torch.device
) -> torch.nn.Module:
    """Return the random network of torchvision called ``name``, its weights laid out so."""
    from torchvision.models import get_model

    def build() -> torch.nn.Module:
        network: Any = get_model(name, weights=None)
        network.to(memory_format=layout)
        built: torch.nn.Module = network
        return built

    dtype = storage_dtype(precision)
    if active_fake_mode() is not None:
        network = fake_network(build, dtype)
    else:
        with device:
            network = build().to(dtype)
    return network.train(mode=False)


def random_images(batch: int, size: int, precision: str, device: torch.device) -> torch.Tensor:
    """Return square images of normally distributed values, as networks get them: centred."""
    shape = (batch, _CHANNELS, size, size)
    return torch.randn(*shape, dtype=storage_dtype(precision), device=device)


def settle_norms(network: torch.nn.Module, run: Callable[[], object]) -> None:
    """Give every batch norm the mean and variance of what it meets in ``run``, as training does.

    Without them the values of a deep random network grow from layer to layer until they overflow
    in half precision, and what is not a number takes less power. Traces have no values to settle.
    """
    if active_fake_mode() is not None:
        return
    norms = [part for part in network.modules() if hasattr(part, "running_var")]
    hooks = [norm.register_forward_pre_hook(_settle) for norm in norms]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()


def _settle(norm: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    values = inputs[0].float()
    variance, mean = torch.var_mean(values, dim=(0, 2, 3), correction=0)
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance)


def _network(
    auto: Any, geometry: Mapping[str, Any], settings: VisionSettings, device: torch.device
) -> PreTrainedModel:
    config = AutoConfig.for_model(**geometry)
    dtype = storage_dtype(settings.precision)
    network = hub.network_of(auto, config, settings.weights, dtype, device)
    _require_geometry(config, network.config, geometry, settings)
    return network


def _require_geometry(
    wanted: PreTrainedConfig,
    found: PreTrainedConfig,
    geometry: Mapping[str, Any],
    settings: VisionSettings,
) -> None:
    """Refuse weights of another shape; how many classes they tell apart is theirs to say."""
    differing = [
        name
        for name in sorted({*geometry, "hidden_size", "image_size"} - {"num_labels"})
        if _plain(getattr(found, name, None)) != _plain(getattr(wanted, name, None))
    ]
    if differing:
        raise ConfigError(
            f"weights must be of the geometry that model names, {settings.model}, but "
            f"{settings.weights!r} differs in {', '.join(differing)}."
        )


def _plain(value: Any) -> Any:
    """Return what decides the shape: of a configuration in the configuration, its own."""
    if isinstance(value, PreTrainedConfig):
        return [_plain(getattr(value, name, None)) for name in ("hidden_sizes", "depths")]
    return list(value) if isinstance(value, tuple) else value
