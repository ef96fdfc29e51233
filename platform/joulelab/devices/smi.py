"""An NVIDIA GPU through ``nvidia-smi``, for machines on which NVML itself cannot be loaded.

It prints instant power, clocks and temperatures some twenty times a second and can lock clocks,
but has no energy counter and no buffered samples: energy comes from polled power.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar, Self

from typing_extensions import override

from joulelab.core.clock import Clock, MonotonicClock
from joulelab.core.device import (
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    EventReason,
    GpuProcess,
)
from joulelab.core.point import OperatingPoint
from joulelab.devices.base import (
    Device,
    check_point,
    this_process_may_administer,
    unlocked_clocks_mhz,
)
from joulelab.devices.tool import TOOL, LineStream, SmiQuery, ask_tool, check_exit, number, switch
from joulelab.errors import DeviceNotFoundError, DeviceUnsupportedError

PERIOD_S = 0.05
"""Half of an H200's power tick, so that none is missed."""

_IDENTITY = (
    "name",
    "driver_version",
    "vbios_version",
    "pci.bus_id",
    "ecc.mode.current",
    "mig.mode.current",
    "persistence_mode",
    "power.min_limit",
    "power.max_limit",
    "power.default_limit",
)
_READINGS = (
    "power.draw.instant",
    "power.draw.average",
    "power.draw",
    "enforced.power.limit",
    "clocks.current.sm",
    "clocks.current.memory",
    "temperature.gpu",
    "temperature.memory",
    "memory.used",
    "utilization.gpu",
    "utilization.memory",
    "clocks_event_reasons.active",
    "clocks_event_reasons_counters.sw_power_cap",
    "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown",
)
_KNOWN_REASONS = sum(reason.value for reason in EventReason)


class SmiDevice(Device):
    """One GPU, found by the UUID of the whole of it, ``"GPU-..."``.

    Raises DeviceNotFoundError if there is no such GPU; names those that there are; DeviceError if
    ``nvidia-smi`` is absent or fails.
    """

    backend: ClassVar[str] = "smi"

    def __init__(self, uuid: str) -> None:
        there = [address.uuid for address in self.discover()]
        if uuid not in there:
            raise DeviceNotFoundError(
                f"uuid must be of a GPU that {TOOL} sees, got {uuid!r}; there are: "
                f"{', '.join(there) or 'none'}."
            )
        self._uuid = uuid
        self._fixed = SmiQuery(uuid, _IDENTITY).rows[0]
        query = SmiQuery(uuid, _READINGS)
        repeat = ["-lms", str(round(PERIOD_S * 1000))]
        self._readings = LineStream([*query.command, *repeat], query.parse, PERIOD_S)
        self._clock = MonotonicClock()
        self._capabilities: Capabilities | None = None
        self._power_limit_changed = False

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        rows = SmiQuery(None, ["uuid"]).rows
        uuids = [uuid for row in rows if (uuid := row["uuid"]) is not None]
        return tuple(DeviceAddress(backend=cls.backend, uuid=uuid) for uuid in uuids)

    @classmethod
    @override
    def open(cls, address: DeviceAddress) -> Self:
        return cls(address.uuid)

    @property
    @override
    def clock(self) -> Clock:
        return self._clock

    @override
    def identity(self) -> DeviceIdentity:
        return DeviceIdentity(
            uuid=self._uuid,
            name=self._fixed["name"] or "unknown",
            backend=self.backend,
            driver_version=self._fixed["driver_version"] or "unknown",
            vbios_version=self._fixed["vbios_version"],
            pci_bus_id=self._fixed["pci.bus_id"],
            ecc_enabled=switch(self._fixed["ecc.mode.current"]),
            mig_enabled=switch(self._fixed["mig.mode.current"]),
            persistence_mode=switch(self._fixed["persistence_mode"]),
        )

    @override
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            self._capabilities = self._find_capabilities()
        return self._capabilities

    @override
    def read_power_w(self) -> float:
        now = self._whole().latest()
        return self._required(now, "power.draw.instant", "power.draw")

    @override
    def read_average_power_w(self) -> float:
        return self._required(self._whole().latest(), "power.draw.average")

    @override
    def read_state(self) -> DeviceState:
        now = self._readings.latest()
        reasons = int(now["clocks_event_reasons.active"] or "0x0", 16)
        counters = "clocks_event_reasons_counters."
        used_mib = number(now["memory.used"])
        return DeviceState(
            sm_clock_mhz=int(self._required(now, "clocks.current.sm")),
            mem_clock_mhz=int(self._required(now, "clocks.current.memory")),
            temperature_c=self._required(now, "temperature.gpu"),
            memory_temperature_c=number(now["temperature.memory"]),
            power_limit_w=number(now["enforced.power.limit"]),
            event_reasons=EventReason(reasons & _KNOWN_REASONS),
            power_cap_s=_total_s(now, [f"{counters}sw_power_cap"]),
            thermal_s=_total_s(
                now, [f"{counters}sw_thermal_slowdown", f"{counters}hw_thermal_slowdown"]
            ),
            memory_used_b=None if used_mib is None else round(used_mib) * 2**20,
            gpu_utilization=_share(now["utilization.gpu"]),
            memory_utilization=_share(now["utilization.memory"]),
        )

    @override
    def read_processes(self) -> tuple[GpuProcess, ...]:
        asked = "--query-compute-apps=gpu_uuid,pid,used_memory"
        done = ask_tool([TOOL, asked, "--format=csv,noheader,nounits"])
        check_exit(f"Listing processes of {self._uuid}", done)
        rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
        return tuple(
            GpuProcess(
                pid=int(pid),
                memory_b=None if memory_mib.startswith("[") else int(memory_mib) * 2**20,
            )
            for uuid, pid, memory_mib in rows
            if uuid == self._uuid
        )

    @override
    def apply(self, point: OperatingPoint) -> None:
        self._whole()
        check_point(point, self.capabilities())
        if point.power_limit_w is not None:
            self._set("power limit", "-pl", f"{point.power_limit_w:g}")
            self._power_limit_changed = True
        if (clock := point.mem_clock_mhz) is not None:
            self._set("memory clock", "-lmc", f"{clock},{clock}")
        if (clock := point.sm_clock_mhz) is not None:
            self._set("SM clock", "-lgc", f"{clock},{clock}")

    @override
    def reset(self) -> None:
        """Unlock the clocks, and restore the default power limit if this object changed it."""
        self._set("SM clock", "-rgc")
        with suppress(DeviceUnsupportedError):  # memory clocks lock from Ampere on
            self._set("memory clock", "-rmc")
        default_w = self.capabilities().default_power_limit_w
        if self._power_limit_changed and default_w is not None:
            self._set("power limit", "-pl", f"{default_w:g}")
            self._power_limit_changed = False

    @override
    def close(self) -> None:
        self._readings.stop()

    def _whole(self) -> LineStream[dict[str, str | None]]:
        if switch(self._fixed["mig.mode.current"]):
            raise DeviceUnsupportedError(
                f"{self._uuid} is split by MIG, and {TOOL} tells power of the whole GPU only."
            )
        return self._readings

    def _required(self, now: dict[str, str | None], *names: str) -> float:
        for name in names:
            value = number(now[name])
            if value is not None:
                return value
        raise self._unsupported(" or ".join(names))

    def _set(self, what: str, *arguments: str) -> None:
        check_exit(
            f"Changing the {what} of {self._uuid}", ask_tool([TOOL, "-i", self._uuid, *arguments])
        )

    def _find_capabilities(self) -> Capabilities:
        asked = ["--query-supported-clocks=mem,gr", "--format=csv,noheader,nounits"]
        done = ask_tool([TOOL, "-i", self._uuid, *asked])
        check_exit(f"Listing the clocks of {self._uuid}", done)
        pairs = [line.split(",") for line in done.stdout.splitlines() if "[" not in line]
        clocks = [(int(mem), int(sm)) for mem, sm in pairs]
        mem_clocks_mhz = _descending(mem for mem, _ in clocks)
        sm_clocks_mhz = _descending(sm for mem, sm in clocks if mem == mem_clocks_mhz[0])
        lowest_w, highest_w = (number(self._fixed[f"power.{end}_limit"]) for end in ("min", "max"))
        no_limits = lowest_w is None or highest_w is None
        unlocked = unlocked_clocks_mhz(self._fixed["name"] or "", mem_clocks_mhz)
        return Capabilities(
            sm_clocks_mhz=sm_clocks_mhz,
            mem_clocks_mhz=mem_clocks_mhz,
            power_limits_w=None if no_limits else (lowest_w, highest_w),  # type: ignore[arg-type]
            default_power_limit_w=number(self._fixed["power.default_limit"]),
            has_energy_counter=False,
            has_power_samples=False,
            has_memory_power=False,
            has_activity=False,
            can_set_clocks=this_process_may_administer() if sm_clocks_mhz else False,
            unlocked_sm_clock_mhz=unlocked[0],
            unlocked_mem_clock_mhz=unlocked[1],
        )


def _descending(clocks_mhz: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(clocks_mhz), reverse=True))


def _total_s(now: dict[str, str | None], names: Sequence[str]) -> float | None:
    known_us = [value for name in names if (value := number(now[name])) is not None]
    return sum(known_us) * 1e-6 if known_us else None


def _share(percentage: str | None) -> float | None:
    value = number(percentage)
    return None if value is None else value / 100
