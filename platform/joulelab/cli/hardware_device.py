"""What a device says of itself, as figures of a data file."""

from contextlib import closing
from typing import Any

from joulelab.cli.selection import choose_address, open_device
from joulelab.core.device import Capabilities


def read_figures(
    device: str, *, store: str | None, uuid: str | None, gpu: str | None
) -> tuple[dict[str, Any], str]:
    """Return the values that a device gives of itself, by dotted name, and where they come from.

    What its driver does not tell is left out.

    Raises:
        DeviceError: If there is no such device, or it does not answer.
    """
    with closing(open_device(choose_address(device, store=store, uuid=uuid, gpu=gpu))) as opened:
        identity, capabilities = opened.identity(), opened.capabilities()
    source = f"read from a {identity.name} ({identity.backend}, driver {identity.driver_version})"
    return {"identity.product_names": [identity.name], **values_of(capabilities)}, source


def values_of(found: Capabilities) -> dict[str, Any]:
    """Return the figures of a data file that a device's capabilities tell, by dotted name."""
    lowest_w, highest_w = found.power_limits_w or (None, None)
    values = {
        "clocks.sm_mhz": list(found.sm_clocks_mhz),
        "clocks.mem_mhz": list(found.mem_clocks_mhz),
        "clocks.default_mhz": found.unlocked_sm_clock_mhz,
        "limits.min_w": lowest_w,
        "limits.max_w": highest_w,
        "limits.default_w": found.default_power_limit_w,
        "memory.size_b": found.memory_b,
        "sensor.has_memory_power": found.has_memory_power,
        "sensor.has_activity": found.has_activity,
    }
    return {name: value for name, value in values.items() if value not in (None, [])}
