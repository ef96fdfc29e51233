"""The network of the workload that reads digits, and how it is trained.

Imports torch and transformers, so it is imported only by functions that run or trace a network.
"""

from typing import Any

import torch

from joulelab.workloads import formats, hub
from joulelab.workloads.digits import NUM_CLASSES, SIDE_PX, training_digits
from joulelab.workloads.digits_tensors import as_tensors, noisy_batch
from joulelab.workloads.digits_vit import DigitsVitSettings
from joulelab.workloads.training import Recipe, load_trained

from transformers import (  # isort: skip  # hub makes it importable
    AutoConfig,
    ViTForImageClassification,
)

_BATCH = 64
_LARGEST_NOISE = 0.4  # share of the range of a pixel


def recipe() -> Recipe:
    """Return how the network is trained: on digits with noise."""
    images, labels = as_tensors(training_digits())

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        noisy, chosen = noisy_batch(images, _BATCH, _LARGEST_NOISE, generator)
        logits = network(pixel_values=noisy).logits
        return torch.nn.functional.cross_entropy(logits, labels[chosen])

    return Recipe(
        name="digits-vit",
        build=lambda: _random(torch.float32, torch.device("cpu")),
        loss=loss,
        num_steps=500,
        peak_rate=2e-3,
        sources=(
            "workloads/digits_vit_network.py",
            "workloads/digits_tensors.py",
            "workloads/digits.py",
        ),
    )


def load_network(settings: DigitsVitSettings, device: torch.device) -> Any:
    """Return the network on ``device`` in the format of the precision."""
    network = _random(formats.storage_dtype(settings.precision), device)
    if settings.weights is not None:
        load_trained(network, recipe())
    return network


def _random(dtype: torch.dtype, device: torch.device) -> Any:
    config = AutoConfig.for_model(
        "vit",
        image_size=SIDE_PX,
        patch_size=2,
        num_channels=1,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        num_labels=NUM_CLASSES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return hub.random_model(ViTForImageClassification, config, dtype, device)
