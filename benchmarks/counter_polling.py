"""Reads a GPU's energy counter all the time, for benchmarks that need its truth at any instant."""

import threading
import time

from joulelab.core.ticks import CounterPolls
from joulelab.devices.base import Device


class Polling:
    """Reads the counter of a device all the time, from another thread."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._polls: list[tuple[float, float, float]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> "Polling":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._ends.wait(0.001):
            before_s = time.monotonic()
            energy_j = self._device.read_energy_j()
            self._polls.append((before_s, time.monotonic(), energy_j))

    def polls(self) -> CounterPolls:
        """Return all reads so far."""
        return CounterPolls.of(self._polls.copy())
