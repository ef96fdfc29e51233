"""A real NVIDIA GPU, through the driver's own library.

Observing is safe by construction: every setter of NVML is called from :meth:`NvmlDevice.apply`
and :meth:`NvmlDevice.reset` and from nowhere else, not even to find out whether it would work.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self

import pynvml  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.core.clock import Clock, MonotonicClock
from joulelab.core.device import (
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    GpuProcess,
)
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.devices import nvml_library as library
from joulelab.devices.base import (
    ActivityProbe,
    Device,
    check_point,
    this_process_may_administer,
    unlocked_clocks_mhz,
)
from joulelab.devices.dcgm import DcgmActivities, activities_of
from joulelab.devices.nvml_library import Handle, PowerSamples, call
from joulelab.devices.nvml_state import (
    MEMORY_POWER_AVERAGE,
    POWER_AVERAGE,
    POWER_INSTANT,
    GpmProbe,
    StateReader,
    gpm_supported,
    read_fields,
)
from joulelab.errors import DeviceNotFoundError, DeviceUnsupportedError


class NvmlDevice(Device):
    """One GPU, found by the UUID of the whole of it, ``"GPU-..."``.

    Raises DeviceNotFoundError if there is no such GPU; names those that there are;
    DeviceUnsupportedError if ``uuid`` names a MIG instance; DeviceError if there is no driver.
    """

    def __init__(self, uuid: str) -> None:
        if uuid.startswith("MIG-"):
            raise DeviceUnsupportedError(_whole_gpu_only(uuid))
        self._dcgm: DcgmActivities | None = None
        library.start()
        self._open = True
        try:
            self._gpu = library.find(uuid)
            self._is_split = _mig_enabled(self._gpu) is True
        except BaseException:
            self.close()
            raise
        self._clock = MonotonicClock()
        self._state = StateReader(self._gpu)
        self._samples = PowerSamples(self._gpu.native)
        self._capabilities: Capabilities | None = None
        self._power_limit_changed = False

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        library.start()
        try:
            uuids = library.find_uuids()
        finally:
            library.stop()
        return tuple(DeviceAddress(backend="nvml", uuid=uuid) for uuid in uuids)

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
        gpu = self._gpu
        ecc = gpu.ask_if_supported("the ECC mode", pynvml.nvmlDeviceGetEccMode)
        persistence = gpu.ask_if_supported("persistence mode", pynvml.nvmlDeviceGetPersistenceMode)
        pci = gpu.ask_if_supported("the PCI address", pynvml.nvmlDeviceGetPciInfo)
        return DeviceIdentity(
            uuid=gpu.uuid,
            name=gpu.ask("the name", pynvml.nvmlDeviceGetName),
            backend="nvml",
            driver_version=call("Reading the driver version", pynvml.nvmlSystemGetDriverVersion),
            vbios_version=gpu.ask_if_supported("the VBIOS", pynvml.nvmlDeviceGetVbiosVersion),
            pci_bus_id=None if pci is None else pci.busId,
            ecc_enabled=None if ecc is None else bool(ecc[0]),
            mig_enabled=_mig_enabled(gpu),
            persistence_mode=None if persistence is None else bool(persistence),
        )

    @override
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            found = _find_capabilities(self._gpu)
            if not found.has_activity and not self._is_split:
                self._dcgm = activities_of(self._gpu.uuid)
            if self._dcgm is not None:
                found = replace(found, has_activity=True, activity_source="dcgm")
            self._capabilities = found
        return self._capabilities

    @override
    def read_power_w(self) -> float:
        (power_mw,) = read_fields(self._whole().native, [POWER_INSTANT])
        # Where that field is missing (Volta, drivers before 530), power usage is the fast reading.
        return 1e-3 * (self._power_usage_mw() if power_mw is None else power_mw)

    @override
    def read_average_power_w(self) -> float:
        (power_mw,) = read_fields(self._whole().native, [POWER_AVERAGE])
        return 1e-3 * (self._power_usage_mw() if power_mw is None else power_mw)

    @override
    def read_memory_power_w(self) -> float:
        (power_mw,) = read_fields(self._whole().native, [MEMORY_POWER_AVERAGE])
        if power_mw is None:
            raise self._unsupported("memory power")
        return 1e-3 * power_mw

    @override
    def read_energy_j(self) -> float:
        counter = pynvml.nvmlDeviceGetTotalEnergyConsumption
        energy_mj: int = self._whole().ask("the energy counter", counter)
        return 1e-3 * energy_mj

    @override
    def read_power_samples(self) -> PowerTrace:
        self._whole()
        return self._samples.read()

    @override
    def read_state(self) -> DeviceState:
        return self._state.read()

    @override
    def read_brief_state(self) -> DeviceState:
        return self._state.read_brief()

    @override
    def read_sm_clock_mhz(self) -> int:
        return self._state.read_clock_mhz(pynvml.NVML_CLOCK_SM)

    @override
    def read_live_state(self) -> DeviceState:
        return self._state.read_live()

    @override
    def read_processes(self) -> tuple[GpuProcess, ...]:
        running = self._gpu.ask("its processes", pynvml.nvmlDeviceGetComputeRunningProcesses)
        return tuple(GpuProcess(pid=each.pid, memory_b=each.usedGpuMemory) for each in running)

    @override
    def activity(self) -> ActivityProbe:
        gpu = self._whole()
        if not self.capabilities().has_activity:
            raise self._unsupported("activity counters (GPM from Hopper on, else DCGM's)")
        return GpmProbe(gpu.native) if self._dcgm is None else self._dcgm.optional_probe()

    @override
    def apply(self, point: OperatingPoint) -> None:
        self._whole()
        check_point(point, self.capabilities())
        if point.power_limit_w is not None:
            self._set_power_limit_mw(round(point.power_limit_w * 1000))
            self._power_limit_changed = True
        if (clock := point.mem_clock_mhz) is not None:
            self._set("memory clock", pynvml.nvmlDeviceSetMemoryLockedClocks, clock, clock)
        if (clock := point.sm_clock_mhz) is not None:
            self._set("SM clock", pynvml.nvmlDeviceSetGpuLockedClocks, clock, clock)

    @override
    def reset(self) -> None:
        """Unlock the clocks, and restore the default power limit if this object changed it.

        A limit that somebody else chose is the site's policy and stays.
        """
        self._set("SM clock", pynvml.nvmlDeviceResetGpuLockedClocks)
        with suppress(DeviceUnsupportedError):  # memory clocks lock from Ampere on
            self._set("memory clock", pynvml.nvmlDeviceResetMemoryLockedClocks)
        if self._power_limit_changed:
            default = pynvml.nvmlDeviceGetPowerManagementDefaultLimit
            self._set_power_limit_mw(self._gpu.ask("the default power limit", default))
            self._power_limit_changed = False

    @override
    def close(self) -> None:
        if self._open:
            self._open = False
            library.stop()
        if self._dcgm is not None:
            self._dcgm.stop()

    def _whole(self) -> library.Handle:
        """Return the GPU, unless others run on parts of it whose energy cannot be separated."""
        if self._is_split:
            raise DeviceUnsupportedError(_whole_gpu_only(self._gpu.uuid))
        return self._gpu

    def _power_usage_mw(self) -> float:
        power_mw: int = self._gpu.ask("the power usage", pynvml.nvmlDeviceGetPowerUsage)
        return power_mw

    def _set_power_limit_mw(self, limit_mw: int) -> None:
        self._set("power limit", pynvml.nvmlDeviceSetPowerManagementLimit, limit_mw)

    def _set(self, what: str, setter: Callable[..., None], *values: int) -> None:
        call(f"Changing the {what} of {self._gpu.uuid}", setter, self._gpu.native, *values)


def _whole_gpu_only(uuid: str) -> str:
    return (
        f"{uuid} is split by MIG, and NVML tells energy and power of the whole GPU only, whoever "
        "uses its instances. Measure on a GPU without MIG (`nvidia-smi -mig 0` ends it)."
    )


def _mig_enabled(gpu: Handle) -> bool | None:
    mode = gpu.ask_if_supported("the MIG mode", pynvml.nvmlDeviceGetMigMode)
    return None if mode is None else bool(mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE)


def _find_capabilities(gpu: Handle) -> Capabilities:
    """Find what a whole GPU has by asking it; nothing is changed."""
    ask = gpu.ask_if_supported
    mem_clocks_mhz = _descending(
        ask("the memory clocks", pynvml.nvmlDeviceGetSupportedMemoryClocks)
    )
    sm_clocks_mhz: tuple[int, ...] = ()
    if mem_clocks_mhz:  # all that can be locked are listed at the highest
        listed = pynvml.nvmlDeviceGetSupportedGraphicsClocks
        sm_clocks_mhz = _descending(ask("the SM clocks", listed, mem_clocks_mhz[0]))
    limits_mw = ask("the power limits", pynvml.nvmlDeviceGetPowerManagementLimitConstraints)
    default = pynvml.nvmlDeviceGetPowerManagementDefaultLimit
    default_mw = ask("the default power limit", default)
    (memory_power_mw,) = read_fields(gpu.native, [MEMORY_POWER_AVERAGE])
    memory = ask("its memory", pynvml.nvmlDeviceGetMemoryInfo)
    unlocked = unlocked_clocks_mhz(gpu.ask("the name", pynvml.nvmlDeviceGetName), mem_clocks_mhz)
    return Capabilities(
        sm_clocks_mhz=sm_clocks_mhz,
        mem_clocks_mhz=mem_clocks_mhz,
        power_limits_w=None if limits_mw is None else (limits_mw[0] * 1e-3, limits_mw[1] * 1e-3),
        default_power_limit_w=None if default_mw is None else default_mw * 1e-3,
        has_energy_counter=_answers(gpu, pynvml.nvmlDeviceGetTotalEnergyConsumption),
        has_power_samples=_answers(
            gpu, pynvml.nvmlDeviceGetSamples, pynvml.NVML_TOTAL_POWER_SAMPLES, 0
        ),
        has_memory_power=memory_power_mw is not None,
        has_activity=gpm_supported(gpu.native),
        can_set_clocks=this_process_may_administer() if sm_clocks_mhz else False,
        unlocked_sm_clock_mhz=unlocked[0],
        unlocked_mem_clock_mhz=unlocked[1],
        memory_b=None if memory is None else int(memory.total),
    )


def _descending(clocks_mhz: list[int] | None) -> tuple[int, ...]:
    return tuple(sorted(set(clocks_mhz or ()), reverse=True))


def _answers(gpu: Handle, sensor: Callable[..., object], *arguments: int) -> bool:
    try:
        gpu.ask("a sensor", sensor, *arguments)
    except (DeviceUnsupportedError, DeviceNotFoundError):
        return False
    return True
