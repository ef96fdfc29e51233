"""What goes on beside a measurement, on the device's own clock."""

import time
from abc import ABC, abstractmethod

from joulelab.core.clock import Ticker
from joulelab.devices.base import Device
from joulelab.errors import DeviceLostError, MeasurementError


class Background(ABC):
    """Does something again and again until it is stopped, or an error ends it.

    What ``failed`` stands before the reason.
    """

    def __init__(self, device: Device, failed: str) -> None:
        self._device = device
        self._clock = device.clock
        self._failed = failed
        self._error: Exception | None = None
        self._ticker: Ticker | None = None
        self.cpu_s = 0.0
        """CPU time that it took so far."""

    def stop(self) -> None:
        """End it. Safe to call twice, and before it was started."""
        if self._ticker is not None:
            self._ticker.stop()

    def raise_if_failed(self) -> None:
        """Raise what ended it, if anything did.

        Raises DeviceLostError if the device has gone; MeasurementError if a read failed in another
        way.
        """
        if isinstance(self._error, DeviceLostError):
            raise self._error
        if self._error is not None:
            raise MeasurementError(f"{self._failed}: {self._error}") from self._error

    @abstractmethod
    def _act(self, now_s: float) -> None:
        """Do it once."""

    def _beat(self) -> None:
        if self._error is not None:
            return
        cpu_s, now_s = time.thread_time(), self._clock.now_s()
        try:
            self._act(now_s)
        except Exception as error:  # a thread's top frame; raise_if_failed tells
            self._error = error
        self._bill(time.thread_time() - cpu_s, self._clock.now_s() - now_s)

    def _bill(self, cpu_s: float, _call_s: float) -> None:
        """Note the time that it took, of the CPU and in all."""
        self.cpu_s += cpu_s
