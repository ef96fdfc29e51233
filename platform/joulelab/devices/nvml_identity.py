"""Which GPU it is, and what it can be asked and told."""

from collections.abc import Callable

import pynvml  # type: ignore[import-untyped]

from joulelab.core.device import Capabilities, DeviceIdentity
from joulelab.devices.knobs import this_process_may_administer, unlocked_clocks_mhz
from joulelab.devices.nvml_library import Handle, call
from joulelab.devices.nvml_state import MEMORY_POWER_AVERAGE, gpm_supported, read_fields
from joulelab.errors import DeviceNotFoundError, DeviceUnsupportedError


def read_identity(gpu: Handle) -> DeviceIdentity:
    """Read the identity of a GPU and the driver settings that can move a number."""
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
        mig_enabled=mig_enabled(gpu),
        persistence_mode=None if persistence is None else bool(persistence),
    )


def mig_enabled(gpu: Handle) -> bool | None:
    """Read whether the GPU is split into instances; ``None`` where it cannot be."""
    mode = gpu.ask_if_supported("the MIG mode", pynvml.nvmlDeviceGetMigMode)
    return None if mode is None else bool(mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE)


def find_capabilities(gpu: Handle) -> Capabilities:
    """Find what a whole GPU can be asked and told, by asking it; nothing is changed."""
    mem_clocks_mhz = _descending(
        gpu.ask_if_supported("the memory clocks", pynvml.nvmlDeviceGetSupportedMemoryClocks)
    )
    sm_clocks_mhz = _sm_clocks_mhz(gpu, mem_clocks_mhz)
    (memory_power_mw,) = read_fields(gpu.native, [MEMORY_POWER_AVERAGE])
    unlocked = unlocked_clocks_mhz(gpu.ask("the name", pynvml.nvmlDeviceGetName), mem_clocks_mhz)
    return Capabilities(
        sm_clocks_mhz=sm_clocks_mhz,
        mem_clocks_mhz=mem_clocks_mhz,
        power_limits_w=_power_limits_w(gpu),
        default_power_limit_w=_default_power_limit_w(gpu),
        has_energy_counter=_answers(gpu, pynvml.nvmlDeviceGetTotalEnergyConsumption),
        has_power_samples=_answers(
            gpu, pynvml.nvmlDeviceGetSamples, pynvml.NVML_TOTAL_POWER_SAMPLES, 0
        ),
        has_memory_power=memory_power_mw is not None,
        has_activity=gpm_supported(gpu.native),
        can_set_clocks=this_process_may_administer() if sm_clocks_mhz else False,
        unlocked_sm_clock_mhz=unlocked[0],
        unlocked_mem_clock_mhz=unlocked[1],
        memory_b=_memory_b(gpu),
    )


def _memory_b(gpu: Handle) -> int | None:
    memory = gpu.ask_if_supported("its memory", pynvml.nvmlDeviceGetMemoryInfo)
    return None if memory is None else int(memory.total)


def _sm_clocks_mhz(gpu: Handle, mem_clocks_mhz: tuple[int, ...]) -> tuple[int, ...]:
    """SM clocks at the highest memory clock, where all that can be locked are listed."""
    if not mem_clocks_mhz:
        return ()
    return _descending(
        gpu.ask_if_supported(
            "the SM clocks", pynvml.nvmlDeviceGetSupportedGraphicsClocks, mem_clocks_mhz[0]
        )
    )


def _descending(clocks_mhz: list[int] | None) -> tuple[int, ...]:
    return tuple(sorted(set(clocks_mhz or ()), reverse=True))


def _power_limits_w(gpu: Handle) -> tuple[float, float] | None:
    limits_mw = gpu.ask_if_supported(
        "the power limits", pynvml.nvmlDeviceGetPowerManagementLimitConstraints
    )
    return None if limits_mw is None else (limits_mw[0] * 1e-3, limits_mw[1] * 1e-3)


def _default_power_limit_w(gpu: Handle) -> float | None:
    limit_mw = gpu.ask_if_supported(
        "the default power limit", pynvml.nvmlDeviceGetPowerManagementDefaultLimit
    )
    return None if limit_mw is None else limit_mw * 1e-3


def _answers(gpu: Handle, sensor: Callable[..., object], *arguments: int) -> bool:
    try:
        gpu.ask("a sensor", sensor, *arguments)
    except (DeviceUnsupportedError, DeviceNotFoundError):
        return False
    return True
