"""What the rest of the package needs of a GPU, and what may be asked of its knobs, by whom.

NVIDIA's kernel module lets a process set clocks and power limits if it holds CAP_SYS_ADMIN in
the machine's initial user namespace: root on the host, not root inside an unprivileged
container. The kernel says both in ``/proc``; trying a setter to see would change the GPU.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
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
from joulelab.core.plan import check_on_grid
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, DeviceUnsupportedError
from joulelab.hardware import spec_for
from joulelab.workloads.base import Workload
from joulelab.workloads.ranks import Ranks


class ActivityProbe(ABC):
    """Counts unit activity between its making and :meth:`read`."""

    can_mark: ClassVar[bool] = False
    """Whether :meth:`mark` spares what :meth:`read` costs."""

    @abstractmethod
    def read(self) -> Activity:
        """Return mean activity since the probe was made or last read."""

    def mark(self) -> None:
        """Take note of the counters now, for :meth:`read_to_mark`."""
        raise NotImplementedError

    def read_to_mark(self) -> Activity:
        """Return mean activity until the last mark, from which on the next read counts."""
        raise NotImplementedError


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
        """Return what this device can read and set."""

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

    def read_sm_clock_mhz(self) -> int:
        """Read the SM clock alone, to be looked at often."""
        return self.read_brief_state().sm_clock_mhz

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


def check_point(point: OperatingPoint, capabilities: Capabilities) -> None:
    """Refuse a point that the device cannot be put at; nothing is changed.

    Raises:
        ConfigError: If a clock is not on the device's grid (names its neighbours) or the power
            limit is out of range (names the range).
        DeviceUnsupportedError: If the device has no such knob.
    """
    _check_clock("sm_clock_mhz", point.sm_clock_mhz, capabilities.sm_clocks_mhz)
    _check_clock("mem_clock_mhz", point.mem_clock_mhz, capabilities.mem_clocks_mhz)
    _check_power_limit(point.power_limit_w, capabilities.power_limits_w)


def unlocked_clocks_mhz(
    product_name: str, mem_clocks_mhz: tuple[int, ...]
) -> tuple[int | None, int | None]:
    """Return the SM and the memory clock that an unlocked board keeps under load.

    ``mem_clocks_mhz`` are descending.

    Returns:
        ``None`` for a board whose clocks vary by themselves, or that the catalogue lacks.
    """
    spec = spec_for(product_name)
    if spec is None or not spec.stays_at_default:
        return None, None
    return spec.default_clock_mhz, mem_clocks_mhz[0] if mem_clocks_mhz else None


def _check_clock(knob: str, clock_mhz: int | None, grid_mhz: tuple[int, ...]) -> None:
    if clock_mhz is None:
        return
    if not grid_mhz:
        raise DeviceUnsupportedError(f"{knob} cannot be set on this device, got {clock_mhz}.")
    check_on_grid(clock_mhz, grid_mhz, knob=knob)


def _check_power_limit(limit_w: float | None, range_w: tuple[float, float] | None) -> None:
    if limit_w is None:
        return
    if range_w is None:
        raise DeviceUnsupportedError(f"power_limit_w cannot be set on this device, got {limit_w}.")
    lowest_w, highest_w = range_w
    if not lowest_w <= limit_w <= highest_w:
        raise ConfigError(
            f"power_limit_w must be within {lowest_w:g} and {highest_w:g}, got {limit_w:g}."
        )


CAP_SYS_ADMIN = 21

_INITIAL_NAMESPACE = ["0", "0", "4294967295"]


def may_administer(status: str, uid_map: str) -> bool | None:
    """Judge from the kernel's account of a process whether the driver will obey it.

    These are its ``status`` and ``uid_map`` below ``/proc``.

    Returns:
        ``None`` where only a try would tell: the capability is there, but within a user
        namespace that the driver may not honour.
    """
    effective = next(
        (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")),
        None,
    )
    if effective is None:
        return None
    if not effective >> CAP_SYS_ADMIN & 1:
        return False
    return True if uid_map.split() == _INITIAL_NAMESPACE else None


def this_process_may_administer() -> bool | None:
    """Judge it for this process; ``None`` where there is no ``/proc`` to ask."""
    own = Path("/proc/self")
    try:
        return may_administer((own / "status").read_text(), (own / "uid_map").read_text())
    except OSError:
        return None
