"""Power samples in bounded memory."""

from collections import deque

import numpy as np

from joulelab.core.ticks import Array
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError

_SAME_S = 1e-3
"""Samples closer than this are one sample, seen in two reads of an overlapping buffer."""


class PowerBuffer:
    """Samples of power in the order of their times, the older half dropped when full."""

    def __init__(self, max_samples: int = 500_000) -> None:
        if max_samples < 2:
            raise ConfigError(f"max_samples must be at least 2, got {max_samples}.")
        self._max_samples = max_samples
        self._chunks: deque[tuple[Array, Array]] = deque()
        self._size = 0
        self._last_s = -np.inf
        self.num_dropped = 0
        """Samples dropped so far to stay within ``max_samples``."""

    def __len__(self) -> int:
        return self._size

    def add(self, t_s: Array, power_w: Array) -> None:
        """Add the samples that are newer than all that came before."""
        new = int(np.searchsorted(t_s, self._last_s + _SAME_S, side="right"))
        if new < t_s.size:
            self._chunks.append((t_s[new:].copy(), power_w[new:].copy()))
            self._size += t_s.size - new
            self._last_s = float(t_s[-1])
        if self._size > self._max_samples:
            self._drop()

    def trace(self) -> PowerTrace | None:
        """Return all samples that are kept; ``None`` if there are none."""
        if not self._chunks:
            return None
        t_s, power_w = (np.concatenate(part) for part in zip(*self._chunks, strict=True))
        self._chunks = deque([(t_s, power_w)])
        return PowerTrace(t_s=t_s, power_w=power_w)

    def _drop(self) -> None:
        t_s, power_w = (np.concatenate(part) for part in zip(*self._chunks, strict=True))
        keep = self._max_samples // 2
        self.num_dropped += t_s.size - keep
        self._chunks = deque([(t_s[-keep:].copy(), power_w[-keep:].copy())])
        self._size = keep
