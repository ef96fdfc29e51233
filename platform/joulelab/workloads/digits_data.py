"""Handwritten digits.

They come with scikit-learn: 1797 grey images of 8 by 8 pixels, those of the test set of Alpaydin
and Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning Repository, 1998.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

SIDE_PX = 8
NUM_CLASSES = 10

_LARGEST = 16
_NUM_TRAINING = 1197
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digits:
    """Images and what they show."""

    images: FloatArray  # shape (n, 1, 8, 8), from 0 to 1
    labels: IntArray  # the digits, shape (n,)

    def __getitem__(self, which: Any) -> "Digits":
        return Digits(images=self.images[which], labels=self.labels[which])


@cache
def all_digits() -> Digits:
    """Return the digits, in an order drawn once and for all."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / _LARGEST).astype(np.float32).reshape(-1, 1, SIDE_PX, SIDE_PX)
    order = np.random.default_rng(_SEED).permutation(len(labels))
    return Digits(images=images, labels=labels.astype(np.int64))[order]


def training_digits() -> Digits:
    """Return the two thirds on which networks are trained."""
    return all_digits()[:_NUM_TRAINING]


def held_out_digits() -> Digits:
    """Return the third that no classifier has seen."""
    return all_digits()[_NUM_TRAINING:]
