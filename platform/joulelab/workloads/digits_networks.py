"""The networks that read handwritten digits, and how they are trained."""

from typing import Any

import torch
from torch import nn
from torch._guards import active_fake_mode
from typing_extensions import override

from joulelab.workloads import hub
from joulelab.workloads.digits_data import (
    NUM_CLASSES,
    SIDE_PX,
    Digits,
    FloatArray,
    all_digits,
    training_digits,
)
from joulelab.workloads.formats import storage_dtype
from joulelab.workloads.training import Recipe, load_trained

from transformers import (  # isort: skip  # hub makes it importable
    AutoConfig,
    ViTForImageClassification,
)


_BATCH = 64
_LARGEST_VIT_NOISE, _LARGEST_LSTM_NOISE = 0.4, 0.2  # shares of the range of a pixel
_WIDTH = 64  # of the LSTM
_CHANNELS, _NUM_FEATURES = 16, 32  # of the judge
SOURCES = ("workloads/digits_networks.py", "workloads/digits_data.py")
"""Files that define these networks and what they learn from."""


def some_digits(batch: int, precision: str, device: torch.device) -> torch.Tensor:
    """Return ``batch`` images, shape (batch, 1, 8, 8), from 0 to 1; they repeat after the last."""
    dtype = storage_dtype(precision)
    if active_fake_mode() is not None:  # has shapes only
        return torch.empty(batch, 1, SIDE_PX, SIDE_PX, dtype=dtype, device=device)
    images, _ = as_tensors(training_digits())
    return images[torch.arange(batch) % len(images)].to(device, dtype)


def as_tensors(digits: Digits) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels, on the host."""
    return torch.from_numpy(digits.images), torch.from_numpy(digits.labels)


def noisy_batch(
    images: torch.Tensor, num: int, largest: float, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw ``num`` images and add noise of a strength that is drawn too, up to ``largest``.

    Returns the noisy images, and which ones they are.
    """
    chosen = torch.randint(len(images), (num,), generator=generator)
    noise = torch.randn((num, *images.shape[1:]), generator=generator)
    strength = largest * torch.rand((), generator=generator)
    return images[chosen] + strength * noise, chosen


def vit_recipe() -> Recipe:
    """Return how the network is trained: on digits with noise."""
    images, labels = as_tensors(training_digits())

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        noisy, chosen = noisy_batch(images, _BATCH, _LARGEST_VIT_NOISE, generator)
        logits = network(pixel_values=noisy).logits
        return torch.nn.functional.cross_entropy(logits, labels[chosen])

    return Recipe(
        name="digits-vit",
        build=_random_vit,
        loss=loss,
        num_steps=500,
        peak_rate=2e-3,
        sources=SOURCES,
    )


def _random_vit(dtype: torch.dtype, device: torch.device) -> Any:
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


class RowReader(nn.Module):
    """Reads rows, and says after each of them what the digit is."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        made: Any = {"dtype": dtype, "device": device}
        self.lstm = nn.LSTM(SIDE_PX, _WIDTH, batch_first=True, **made)
        self.hidden = nn.Linear(_WIDTH, _WIDTH, **made)
        self.classes = nn.Linear(_WIDTH, NUM_CLASSES, **made)

    @override
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes after the last of ``rows``, shape (batch, rows, 8)."""
        return self.decided(self.lstm(rows)[0][:, -1])

    def decided(self, states: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes in ``states`` of the LSTM, shape (..., width)."""
        scores: torch.Tensor = self.classes(torch.relu(self.hidden(states)))
        return scores


def lstm_recipe() -> Recipe:
    """Return how the network is trained: to decide after every row, on digits with noise."""
    images, labels = as_tensors(training_digits())

    def loss(network: Any, generator: torch.Generator) -> torch.Tensor:
        noisy, chosen = noisy_batch(images, _BATCH, _LARGEST_LSTM_NOISE, generator)
        states, _ = network.lstm(noisy[:, 0])
        scores = network.decided(states)
        targets = labels[chosen, None].expand(-1, SIDE_PX)
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    return Recipe(
        name="digits-lstm",
        build=RowReader,
        loss=loss,
        num_steps=1500,
        peak_rate=5e-3,
        sources=SOURCES,
    )


class Reader(nn.Module):
    """Two convolutions, and a layer of features from which the digit is read."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, _CHANNELS, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(_CHANNELS, 2 * _CHANNELS, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * _CHANNELS * (SIDE_PX // 2) ** 2, _NUM_FEATURES),
        )
        self.classes = nn.Linear(_NUM_FEATURES, NUM_CLASSES)
        self.to(device, dtype)

    @override
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, shape (n, 10), of images (n, 1, 8, 8)."""
        scores: torch.Tensor = self.classes(torch.relu(self.features(images)))
        return scores


class DigitsJudge:
    """The trained classifier; it is trained when it is first asked."""

    @property
    def name(self) -> str:
        """What it is, its training included."""
        return f"digits-judge {judge_recipe().digest}"

    def features(self, images: FloatArray) -> FloatArray:
        """Return the features, shape (n, 32), of images of shape (n, 1, 8, 8), from 0 to 1."""
        recipe = judge_recipe()
        network: Any = recipe.build(torch.float32, torch.device("cpu"))
        load_trained(network, recipe)
        with torch.inference_mode():
            found: FloatArray = network.features(torch.from_numpy(images)).numpy()
        return found


def judge_recipe() -> Recipe:
    """Return how the classifier is trained: on all digits."""
    images, labels = as_tensors(all_digits())

    def loss(network: nn.Module, generator: torch.Generator) -> torch.Tensor:
        chosen = torch.randint(len(labels), (_BATCH,), generator=generator)
        return nn.functional.cross_entropy(network(images[chosen]), labels[chosen])

    return Recipe(
        name="digits-judge",
        build=Reader,
        loss=loss,
        num_steps=500,
        peak_rate=3e-3,
        sources=SOURCES,
    )
