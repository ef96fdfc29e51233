"""The network of Ali et al. (ICPP 2023): three hidden layers of 64 SELUs, trained by RMSprop.

Its inputs there are two activities and the clock; here they are those of the other learners of
tables. Several networks that differ by their random start are trained at once, as one batched
product per layer (deep ensembles, Lakshminarayanan et al. 2017).
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, medians
from joulelab.power_models.members.readings import thinned
from joulelab.power_models.members.tabular import INPUTS, decoded, examples
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names

_FILE = "committee.safetensors"
_NUM_NETWORKS = 3
_WIDTHS = (64, 64, 64)
_NUM_EPOCHS = 100
_BATCH = 128


class Networks(nn.Module):
    """Several networks of one shape side by side, from random starts (LeCun's, made for SELUs)."""

    def __init__(self, num_inputs: int, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        widths = (num_inputs, *_WIDTHS, 1)
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for before, after in pairwise(widths):
            start = torch.randn(_NUM_NETWORKS, before, after, generator=random) / before**0.5
            self.weights.append(nn.Parameter(start))
            self.biases.append(nn.Parameter(torch.zeros(_NUM_NETWORKS, 1, after)))

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        """Return the output of each network, shape ``(networks, n)``."""
        values = inputs.expand(_NUM_NETWORKS, *inputs.shape)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = torch.baddbmm(bias, values, weight)
            if layer < len(_WIDTHS):
                values = nn.functional.selu(values)
        return values[:, :, 0]


class DnnModel(PowerModel):
    """The mean of three networks.

    Inputs are cut to the range of the training runs, beyond which a network may say anything.
    """

    name: ClassVar[str] = "dnn"
    learned_arrays: ClassVar[tuple[str, ...]] = ("typical", "bounds", "scale")

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        rows = thinned(queries)
        queries, values = queries.select(rows), values[rows]
        taught = examples(queries, values, self.target)
        self._typical = medians(taught.inputs, 0.0)
        inputs = filled(taught.inputs, self._typical)
        self._bounds = np.array([inputs.min(axis=0), inputs.max(axis=0)])
        middle = np.average(taught.outputs, weights=taught.weights)
        self._scale = np.array([middle, max(float(taught.outputs.std()), 1e-6)])
        self._networks = Networks(len(INPUTS), self.seed)
        targets = (taught.outputs - middle) / self._scale[1]
        with one_thread():
            _train(self._networks, self._inputs(queries), targets, taught.weights, self.seed)
        return self

    @override
    def _save_native(self, folder: Path) -> None:
        save_file(self._networks.state_dict(), folder / _FILE)

    @override
    def _load_native(self, folder: Path) -> None:
        self._networks = Networks(len(INPUTS), self.seed)
        try:
            self._networks.load_state_dict(load_file(folder / _FILE))
        except SafetensorError as error:
            raise ConfigError(
                f"Weights as safetensors are required, got {folder / _FILE}: {error}."
            ) from error

    def _inputs(self, queries: Queries) -> Tensor:
        """Return the inputs, each from -1 to 1 over the range of the training runs."""
        low, high = self._bounds
        inputs = np.clip(filled(matrix(queries, INPUTS), self._typical), low, high)
        return torch.tensor(2 * (inputs - low) / np.maximum(high - low, 1e-9) - 1).float()

    @override
    def answer(self, queries: Queries) -> Array:
        with one_thread(), torch.inference_mode():
            outputs = self._networks(self._inputs(queries)).double().numpy()
        middle, scale = self._scale
        return decoded(queries, middle + scale * outputs.mean(axis=0), self.target)


@contextmanager
def one_thread() -> Generator[None]:
    """Compute on one thread: products this small take longer to share out than to do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _train(networks: Networks, inputs: Tensor, targets: Array, weights: Array, seed: int) -> None:
    """Train all networks on the same batches, by the mean weighted square of their errors."""
    random = torch.Generator().manual_seed(seed)
    wanted, weight = torch.tensor(targets).float(), torch.tensor(weights).float()
    optimizer = torch.optim.RMSprop(networks.parameters(), lr=1e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _NUM_EPOCHS)
    for _ in range(_NUM_EPOCHS):
        order = torch.randperm(len(wanted), generator=random)
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            optimizer.zero_grad()
            errors = networks(inputs[batch]) - wanted[batch]
            (weight[batch] * errors**2).mean(dim=1).sum().backward()
            optimizer.step()
        rate.step()
