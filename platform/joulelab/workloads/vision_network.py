"""What the networks that look at images share: their weights, their images, their norms."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._guards import active_fake_mode

from joulelab.tracing.trace import fake_network
from joulelab.workloads import hub
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.network import NetworkSettings

from torchvision.models import ResNet50_Weights  # isort: skip  # hub makes them importable
from transformers import (  # isort: skip
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    PreTrainedModel,
    RTDetrImageProcessor,
    ViTImageProcessor,
    YolosImageProcessor,
)


Prepared = Callable[[list[Any]], torch.Tensor]

_CHANNELS = 3
_DETECTION: dict[str, Any] = {"rt_detr": RTDetrImageProcessor, "yolos": YolosImageProcessor}
_PUBLISHED_PX, _PUBLISHED_RESIZED_PX = 224, 232


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


def classifier(
    geometry: Mapping[str, Any],
    settings: NetworkSettings,
    device: torch.device,
    auto: Any = AutoModelForImageClassification,
) -> PreTrainedModel:
    """Return a network of as many classes as its weights have; ConfigError if they do not fit."""
    shape = sorted({*geometry, "hidden_size", "image_size"} - {"num_labels"})
    config = AutoConfig.for_model(**geometry)
    return hub.network_of(auto, config, settings, device, shape=shape)


def detector(
    geometry: Mapping[str, Any],
    settings: NetworkSettings,
    images: Callable[[], torch.Tensor],
    device: torch.device,
) -> torch.nn.Module:
    """Return a network that detects objects in ``images``; ConfigError as :func:`classifier`."""
    network = classifier(geometry, settings, device, AutoModelForObjectDetection)
    if settings.weights is None:
        batch = images()
        settle_norms(network, lambda: network(pixel_values=batch))
    return network


def detecting(network: Any, images: torch.Tensor, confidence: float) -> Callable[[], object]:
    """Return what detects objects in a batch; how many boxes are kept decides their shape."""
    sizes = torch.full((len(images), 2), images.shape[-1], device=images.device)
    chosen = _DETECTION[network.config.model_type]().post_process_object_detection

    def detect() -> object:
        found = network(pixel_values=images)
        return chosen(found, threshold=confidence, target_sizes=sizes)

    return detect


def prepared_for_vit(weights: str | None, size_px: int) -> Prepared:
    """Return what prepares images as ``weights`` say, or ViT's own; ConfigError if unreadable."""
    processor = _published(weights) or ViTImageProcessor(size=_square(size_px))
    return lambda images: as_pixels(processor, images)


def prepared_for_resnet50(size_px: int) -> Prepared:
    """Return what prepares images as for torchvision's IMAGENET1K_V2, at another size if asked."""
    resized_px = round(size_px * _PUBLISHED_RESIZED_PX / _PUBLISHED_PX)
    prepare = ResNet50_Weights.IMAGENET1K_V2.transforms(crop_size=size_px, resize_size=resized_px)
    return lambda images: torch.stack([prepare(torch.as_tensor(image)) for image in images])


def detection_processor(kind: str, weights: str | None, size_px: int) -> Any:
    """Return the processor of detectors of ``kind``; ConfigError if that of ``weights`` fails."""
    processor = _published(weights) or _DETECTION[kind]()
    processor.size = _square(size_px)
    return processor


def _published(weights: str | None) -> Any:
    if weights is None:
        return None
    with hub.reading(weights):
        return AutoImageProcessor.from_pretrained(weights)  # type: ignore[no-untyped-call]


def _square(size_px: int) -> dict[str, int]:
    return {"height": size_px, "width": size_px}


def as_pixels(processor: Any, images: list[Any]) -> torch.Tensor:
    """Return what ``processor`` of transformers makes of images (3, height, width), 0 to 1."""
    pixels: torch.Tensor = processor(
        images, do_rescale=False, return_tensors="pt", input_data_format="channels_first"
    ).pixel_values
    return pixels
