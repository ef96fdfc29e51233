"""The sensors of a GPU, which all monitors of this process read together.

The table of them is this module's only state: two monitors that know nothing of each other must
not read a GPU twice, which would cost the program twice.
"""

import os
import threading
from collections.abc import Callable

from joulelab.core.device import DeviceAddress
from joulelab.devices.base import Device
from joulelab.monitor.opening import open_in_real_time
from joulelab.sampling.meter import Meter
from joulelab.sampling.sampler import Sampler

KEPT_SAMPLES = 60_000
"""Twenty minutes of 20-ms samples; half of them go at once."""

Listener = Callable[[frozenset[int]], None]


class Sensors:
    """Samples one GPU in the background while at least one monitor listens.

    Attributes:
        sampler: Samples of power and state since the first listener.
        meter: Reads of the counter since then; ``None`` where there is none.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.holders = 0
        self._has_counter = device.capabilities().has_energy_counter
        self._listeners: tuple[Listener, ...] = ()
        self.sampler = Sampler(device)
        self.meter: Meter | None = None

    def listen(self, listener: Listener) -> None:
        """Sample from now on, and tell ``listener`` which processes are seen."""
        with _turn:
            first = not self._listeners
            self._listeners += (listener,)
            if first:
                self.sampler = Sampler(self.device, max_samples=KEPT_SAMPLES, seen=self._note_pids)
                self.meter = Meter(self.device) if self._has_counter else None
                self.sampler.start()
                if self.meter is not None:
                    self.meter.start()

    def leave(self, listener: Listener) -> None:
        """Tell ``listener`` no more; the last one ends the sampling. Safe to call twice."""
        with _turn:
            were = self._listeners
            self._listeners = tuple(each for each in were if each != listener)
            if were and not self._listeners:
                if self.meter is not None:
                    self.meter.stop()
                self.sampler.stop()

    def _note_pids(self, pids: frozenset[int]) -> None:
        for listener in self._listeners:
            listener(pids)


_turn = threading.RLock()
_held: dict[tuple[int, DeviceAddress | Device], Sensors] = {}


def hold(source: DeviceAddress | Device) -> Sensors:
    """Return the sensors of a GPU, which are open until every holder has let go.

    A device that is given itself is closed by its owner. Raises DeviceError if it cannot be opened.
    """
    with _turn:
        key = _key(source)
        if key not in _held:
            device = source if isinstance(source, Device) else open_in_real_time(source)
            _held[key] = Sensors(device)
        _held[key].holders += 1
        return _held[key]


def let_go(source: DeviceAddress | Device) -> None:
    """Undo one :func:`hold`; the last one closes a device that was opened for it."""
    with _turn:
        key = _key(source)
        _held[key].holders -= 1
        if not _held[key].holders:
            sensors = _held.pop(key)
            if not isinstance(source, Device):
                sensors.device.close()


def _key(source: DeviceAddress | Device) -> tuple[int, DeviceAddress | Device]:
    """A forked process has no threads of its parent's, and so needs sensors of its own."""
    return os.getpid(), source
