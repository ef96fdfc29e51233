"""The classes that a loaded network tells apart."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from joulelab.quality.image_files import in_batches
from joulelab.quality.protocols import FloatArray

_BATCH = 64


class ClassOutputs:
    """A loaded classifier.

    It is asked in batches of one size, whatever the workload's.

    Args:
        scores: Turns a tensor of inputs into scores of classes.
        precision: The precision in which it computes.
        prepared: Turns inputs of the data set into one array or tensor for the network.
    """

    def __init__(
        self,
        scores: Callable[[Any], Any],
        precision: str,
        prepared: Callable[[list[Any]], Any] = np.stack,
    ) -> None:
        self._scores = scores
        self._precision = precision
        self._prepared = prepared

    def class_scores(self, inputs: Sequence[Any]) -> FloatArray:
        """Return the scores of the classes, shape (n, classes)."""
        from joulelab.workloads import accelerator

        with accelerator.computing(self._precision):
            return np.concatenate([self._of(batch) for batch in in_batches(inputs, _BATCH)])

    def _of(self, batch: list[Any]) -> FloatArray:
        import torch

        from joulelab.workloads import accelerator, formats

        values = torch.as_tensor(self._prepared(batch))
        if values.is_floating_point():
            values = values.to(formats.storage_dtype(self._precision))
        scores: FloatArray = self._scores(values.to(accelerator.select_device())).float().cpu()
        return np.asarray(scores)
