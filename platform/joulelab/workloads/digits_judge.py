"""A small classifier of digits, whose features tell sets of images of digits apart.

Imports torch, so it is imported only by functions that score images.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from typing_extensions import override

from joulelab.workloads.digits import NUM_CLASSES, SIDE_PX, all_digits
from joulelab.workloads.digits_tensors import as_tensors
from joulelab.workloads.training import Recipe, load_trained

FloatArray = npt.NDArray[np.floating[Any]]

_CHANNELS = 16
_NUM_FEATURES = 32
_BATCH = 64


class Reader(nn.Module):
    """Two convolutions, and a layer of features from which the digit is told."""

    def __init__(self) -> None:
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
        return f"digits-judge {recipe().digest}"

    def features(self, images: FloatArray) -> FloatArray:
        """Return the features, shape (n, 32), of images of shape (n, 1, 8, 8), from 0 to 1."""
        network = Reader()
        load_trained(network, recipe())
        with torch.inference_mode():
            found: FloatArray = network.features(torch.from_numpy(images)).numpy()
        return found


def recipe() -> Recipe:
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
        sources=(
            "workloads/digits_judge.py",
            "workloads/digits_tensors.py",
            "workloads/digits.py",
        ),
    )
