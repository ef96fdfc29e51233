"""What a device says about itself: values read from a driver, in SI units and MHz."""

from dataclasses import dataclass, replace
from enum import Flag

from joulelab.core.point import OperatingPoint


class EventReason(Flag):
    """Why the clocks are not at their maximum; NVML's ``nvmlClocksEventReason*`` bits."""

    NONE = 0
    IDLE = 0x1
    APPLICATION_CLOCKS = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL = 0x20
    HW_THERMAL = 0x40
    HW_POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100
    BOARD_LIMIT = 0x200
    RELIABILITY = 0x400


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAddress:
    """Where to find a device: enough to open it again in another process."""

    backend: str  # registry name of the device class that talks to it, e.g. "nvml"
    uuid: str  # UUID of the device
    # Folder in which a device that is not hardware keeps its state or its recording; None for
    # hardware.
    store: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """Which device it is, and the driver settings that can move a number."""

    uuid: str  # NVML UUID, "GPU-..."; the identity that survives reboots and re-indexing
    name: str  # product name as the driver gives it, e.g. "NVIDIA H200"
    backend: str  # registry name of the device class that talks to it, e.g. "nvml"
    driver_version: str
    vbios_version: str | None = None  # VBIOS version; None where the driver does not say
    pci_bus_id: str | None = None  # PCI bus id; None for devices that have none
    ecc_enabled: bool | None = None  # ECC memory mode; None where there is none
    mig_enabled: bool | None = None  # MIG mode; None where there is none
    # Whether the driver stays loaded without clients; None if unknown.
    persistence_mode: bool | None = None

    def leading(self, num: int) -> "DeviceIdentity":
        """Return it as the first of ``num`` that run a program together; itself where alone."""
        return self if num == 1 else replace(self, name=f"{num} x {self.name}")


NOT_HARDWARE = {"simulated": "simulated ", "replay": "replayed "}
"""What to say before the name of a board of these backends."""


def board_words(board: DeviceIdentity) -> str:
    """Name a board, and say so where it is no hardware."""
    return NOT_HARDWARE.get(board.backend, "") + board.name


def boards_in(name: str) -> tuple[int, str]:
    """Return how many boards a name is of, and their product name: ``(2, "NVIDIA H200")``."""
    num, separator, product = name.partition(" x ")
    return (int(num), product) if separator and num.isdecimal() else (1, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a device can read and set."""

    sm_clocks_mhz: tuple[int, ...]  # settable SM clocks, descending; empty where none can be set
    mem_clocks_mhz: tuple[int, ...]  # settable memory clocks, descending
    # Lowest and highest settable power limit, in watts; None if fixed.
    power_limits_w: tuple[float, float] | None
    default_power_limit_w: float | None  # the limit after a reset, in watts; None if unknown
    has_energy_counter: bool  # Device.read_energy_j works
    has_power_samples: bool  # Device.read_power_samples works
    has_memory_power: bool  # Device.read_memory_power_w works
    has_activity: bool  # Device.activity works
    # Whether *this process* may set clocks; None where only a try would tell and none was made.
    can_set_clocks: bool | None
    # Where the SM clock of this board stays under load while nothing holds it down, so that a lower
    # one shows a lock; None where it varies.
    unlocked_sm_clock_mhz: int | None = None
    unlocked_mem_clock_mhz: int | None = None  # the same for the memory clock
    # Backend that counts activities in the place of the device's own, which cannot; None where none
    # does.
    activity_source: str | None = None
    memory_b: int | None = None  # device memory in all, in bytes; None if unread


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """One look at a device's clocks, temperatures and limits."""

    sm_clock_mhz: int  # SM clock now
    mem_clock_mhz: int | None  # memory clock now; None where a recording does not tell
    temperature_c: float | None  # GPU temperature, in degrees Celsius; None likewise
    # Memory temperature, in degrees Celsius; None if unreadable.
    memory_temperature_c: float | None = None
    power_limit_w: float | None = None  # board power limit in force, in watts; None if unreadable
    event_reasons: EventReason = EventReason.NONE  # what holds the clocks down at this instant
    # Seconds so far (any origin) that the power cap held the clocks down; None where the driver has
    # no such counter.
    power_cap_s: float | None = None
    thermal_s: float | None = None  # the same for thermal slowdown, software and hardware together
    # Device memory in use by whomever, in bytes, without what the driver reserves for itself; None
    # if unread.
    memory_used_b: int | None = None
    # Locks and power limit that the driver says are set; None where it does not tell, as NVML does
    # not.
    held: OperatingPoint | None = None
    # Share (0 to 1) of the driver's last sample period, up to a second, in which a kernel ran; None
    # if unreadable.
    gpu_utilization: float | None = None
    memory_utilization: float | None = None  # the same for device memory that was read or written


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was read of a device at one instant."""

    at_s: float  # when, in seconds on the device's monotonic clock
    state: DeviceState  # clocks, temperatures, limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Mean activity of a device's units over an interval, each 0 to 1; ``None`` if unread.

    The names are DCGM's (field ids 1001 to 1008).
    """

    gr_engine_active: float | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    fp64_active: float | None = None
    fp32_active: float | None = None
    fp16_active: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds a compute context on the device."""

    pid: int  # process id as the driver sees it (of the host, inside a container)
    memory_b: int | None = None  # device memory it holds, in bytes; None if the driver does not say
