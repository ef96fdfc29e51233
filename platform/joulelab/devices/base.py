"""What the rest of the package needs of a GPU."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from joulelab.core.clock import Clock
from joulelab.core.device import (
    Activity,
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    GpuProcess,
)
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.errors import DeviceUnsupportedError
from joulelab.workloads.base import Workload
from joulelab.workloads.ranks import Ranks


class ActivityProbe(ABC):
    """Counts unit activity between its making and :meth:`read`."""

    @abstractmethod
    def read(self) -> Activity:
        """Return mean activity since the probe was made or last read."""


class Device(ABC):
    """One GPU: sensors to read and knobs to turn, in SI units and MHz.

    An implementation converts vendor units (NVML: milliwatts, millijoules) and vendor
    error codes in its own module; neither is seen outside it. A sensor that a device lacks
    raises :class:`DeviceUnsupportedError`; a device that has gone raises
    :class:`DeviceLostError`. No method returns 0 or a last good value in place of a reading.
    """

    is_hardware: ClassVar[bool] = True
    """Whether programs run on the device itself, and not in arithmetic or from a record."""

    @classmethod
    @abstractmethod
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        """Return the devices that this backend can open here, in the driver's order.

        Args:
            store: Folder of state or recordings, for backends that are not hardware.

        Raises:
            DeviceError: If the backend itself is absent (no driver, no tool); says why.
        """

    @classmethod
    @abstractmethod
    def open(cls, address: DeviceAddress) -> Self:
        """Open the device at ``address``.

        Raises:
            DeviceNotFoundError: If there is none; names those that there are.
        """

    @classmethod
    def open_in_real_time(cls, address: DeviceAddress) -> Self:
        """Open the device at ``address`` so that its time is the program's; raises as open does."""
        return cls.open(address)

    def open_partner(self, address: DeviceAddress) -> Self:
        """Open the device at ``address`` on the clock of this one; raises as open does."""
        return self.open(address)

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock on which this device's readings are timed."""

    @abstractmethod
    def identity(self) -> DeviceIdentity:
        """Return which device this is."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Return what this device can be asked and told."""

    @abstractmethod
    def read_power_w(self) -> float:
        """Read board power, in watts, from the fastest reading the driver has."""

    @abstractmethod
    def read_state(self) -> DeviceState:
        """Read clocks, temperatures, limits and event reasons."""

    def read_brief_state(self) -> DeviceState:
        """Read the state without what the driver is slow to tell, to be looked at often.

        Memory in use, its temperature and the throttle counters may be ``None`` though
        :meth:`read_state` has them. A backend that is quick in everything reads it all.
        """
        return self.read_state()

    def read_live_state(self) -> DeviceState:
        """Read the brief state, utilisation and memory in use, to be looked at every second."""
        return self.read_state()

    @abstractmethod
    def read_processes(self) -> tuple[GpuProcess, ...]:
        """Read which processes hold a compute context on the device."""

    def read_average_power_w(self) -> float:
        """Read the driver's own moving average of board power, in watts.

        On Hopper and Ada it averages a second: unfit for windows under 5 s.
        """
        raise self._unsupported("averaged power")

    def read_energy_j(self) -> float:
        """Read the cumulative energy counter, in joules since an arbitrary origin.

        It may tick (every 100 ms on an H200) and the call may take milliseconds: time both
        sides of it.
        """
        raise self._unsupported("energy counter")

    def read_power_samples(self) -> PowerTrace:
        """Read the power samples that the driver holds in its buffer, on :attr:`clock`.

        Successive reads overlap; an H200 holds some 2.4 s of 20-ms samples.
        """
        raise self._unsupported("buffered power samples")

    def read_memory_power_w(self) -> float:
        """Read the power of the memory alone, in watts, as averaged by the driver."""
        raise self._unsupported("memory power")

    def activity(self) -> ActivityProbe:
        """Start counting the activity of the device's units."""
        raise self._unsupported("activity counters")

    @abstractmethod
    def apply(self, point: OperatingPoint) -> None:
        """Put ``point`` in force; knobs that are ``None`` are left as they are.

        Raises:
            ConfigError: If a clock is not on the device's grid (names its neighbours) or a
                limit is out of range; nothing has been changed then.
            DevicePermissionError: If this process may not set the knobs; says what is missing.
            DeviceUnsupportedError: If the device has no such knob.
        """

    @abstractmethod
    def reset(self) -> None:
        """Return every knob to the driver's default. Safe to call twice."""

    def host(self, workload: Workload[Any]) -> Workload[Any]:
        """Return ``workload`` as it runs on this device.

        A real GPU runs the program itself. A device that exists only in arithmetic returns a
        stand-in that plays the program's :meth:`Workload.cost`.
        """
        return workload

    def host_together(self, workload: Workload[Any], partners: Sequence["Device"]) -> Workload[Any]:
        """Return ``workload`` as it runs on this device and ``partners``, a process on each.

        Raises:
            ConfigError: If it cannot run on so many.
        """
        return Ranks(workload, [device.identity().uuid for device in (self, *partners)])

    def close(self) -> None:
        """Let go of the device. Safe to call twice."""

    def _unsupported(self, what: str) -> DeviceUnsupportedError:
        return DeviceUnsupportedError(f"{self.identity().name} has no {what} here.")
