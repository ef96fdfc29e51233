"""What trace models that are networks share: they learn what the state machine misses."""

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from joulelab.power_models.runs import Array
from joulelab.power_models.state import State, merged
from joulelab.power_models.traces.base import TraceModel
from joulelab.power_models.traces.levels import Levels
from joulelab.power_models.traces.load_trace import LoadTrace, Schedule

_LARGEST = 0.4
"""A network may correct the baseline by a factor of 1.5 either way, whatever it is asked."""
_ENERGY_WEIGHT = 1.0
"""How much the error of a window's energy counts beside that of its steps."""


class NetworkTraceModel(TraceModel):
    """The state machine's level, times what a network makes of the schedule up to each step.

    The network begins at a factor of one, so that data which teach it nothing leave the baseline.
    """

    num_epochs: ClassVar[int] = 60
    window: ClassVar[int] = 64
    """Longest stretch of steps that is learned at once."""
    learning_rate: ClassVar[float] = 3e-3
    weight_decay: ClassVar[float] = 1e-2

    @abstractmethod
    def network(self, num_features: int) -> nn.Module:
        """Make a network from features, shape ``(b, n, k)``, to log-factors, shape ``(b, n)``."""

    @override
    def learn(self, traces: Sequence[LoadTrace]) -> None:
        self._levels = Levels.of(traces, self.encoding)
        features = [self._features(each.schedule) for each in traces]
        with one_thread(), torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._network = self.network(features[0].shape[1])
            _train(self._network, self._windows(traces, features), self)

    @override
    def answer(self, schedule: Schedule) -> Array:
        features = torch.tensor(self._features(schedule)).float()
        with one_thread(), torch.inference_mode():
            factor = _bounded(self._network(features[None]))[0].double().numpy()
        return np.asarray(self._expected_w(schedule) * np.exp(factor))

    @override
    def _state(self) -> State:
        weights = {name: w.numpy() for name, w in self._network.state_dict().items()}
        network = State(arrays=weights).with_prefix("network.")
        return merged(self._levels.state().with_prefix("levels."), network)

    @override
    def _restore(self, state: State) -> None:
        self._levels = Levels.of_state(state.prefixed("levels."), self.encoding)
        num_features = len(self.encoding.ranges) + len(self.encoding.phases) + 2
        self._network = self.network(num_features)
        weights = state.prefixed("network.").arrays
        self._network.load_state_dict({name: torch.tensor(w) for name, w in weights.items()})

    def _features(self, schedule: Schedule) -> Array:
        """Return what a network reads: the schedule, and the level of the state machine."""
        level = np.log(self._expected_w(schedule))
        middle = np.log(self._levels.lowest_w) + 1.0
        return np.column_stack([self.encoding.features(schedule), level - middle])

    def _expected_w(self, schedule: Schedule) -> Array:
        return self._limited(self._levels.power_w(schedule))

    def _windows(
        self, traces: Sequence[LoadTrace], features: Sequence[Array]
    ) -> tuple[Tensor, ...]:
        """Cut traces into windows, filled up at the end.

        Returns:
            Features ``(b, n, k)``, baseline power, measured power and weight, each ``(b, n)``; the
            weights of a trace add to one, those of filled-up steps are zero.
        """
        parts: list[tuple[Array, ...]] = []
        for trace, columns in zip(traces, features, strict=True):
            expected_w = self._expected_w(trace.schedule)
            weight = np.full(len(expected_w), 1.0 / len(expected_w))
            whole = (columns, expected_w, trace.power_w, weight)
            starts = range(0, len(weight), self.window)
            parts.extend(tuple(each[i : i + self.window] for each in whole) for i in starts)
        longest = max(len(part[0]) for part in parts)
        columns_of = [[_filled(part[i], longest, zero=i == 3) for part in parts] for i in range(4)]
        return tuple(torch.tensor(np.stack(each)).float() for each in columns_of)


@contextmanager
def one_thread() -> Generator[None]:
    """Compute on one thread: products this small take longer to share out than to do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _bounded(log_factor: Tensor) -> Tensor:
    """Bend log-factors so that none exceeds the largest, and small ones stay as they are."""
    return _LARGEST * torch.tanh(log_factor / _LARGEST)


def _filled(values: Array, num_steps: int, *, zero: bool) -> Array:
    """Return ``values`` filled up to ``num_steps`` with zeros or the last one."""
    last = np.zeros_like(values[-1:]) if zero else values[-1:]
    return np.concatenate([values, np.repeat(last, num_steps - len(values), axis=0)])


def _train(network: nn.Module, windows: tuple[Tensor, ...], how: NetworkTraceModel) -> None:
    """Minimise squared log-errors of steps and of energies, each trace with one weight."""
    x, expected_w, measured_w, weight = windows
    wanted = torch.log(measured_w / expected_w)
    share = weight.sum(dim=1)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=how.learning_rate, weight_decay=how.weight_decay
    )
    rate = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=how.learning_rate, total_steps=how.num_epochs
    )
    for _ in range(how.num_epochs):
        optimizer.zero_grad()
        found = _bounded(network(x))
        steps = (weight * (found - wanted) ** 2).sum()
        energy = (weight * expected_w * found.exp()).sum(dim=1)
        energy = torch.log(energy / (weight * measured_w).sum(dim=1))
        loss = steps + _ENERGY_WEIGHT * (share * energy**2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
