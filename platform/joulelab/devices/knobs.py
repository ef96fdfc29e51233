"""What may be asked of a device's knobs, where they are by themselves, and who may turn them.

NVIDIA's kernel module lets a process set clocks and power limits if it holds CAP_SYS_ADMIN in
the machine's initial user namespace: root on the host, not root inside an unprivileged
container. The kernel says both in ``/proc``; trying a setter to see would change the GPU.
"""

from pathlib import Path

from joulelab.core.device import Capabilities
from joulelab.core.plan import check_on_grid
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, DeviceUnsupportedError
from joulelab.hardware import spec_for


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
