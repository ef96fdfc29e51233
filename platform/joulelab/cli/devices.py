"""``joulelab devices``: what is there, and what its sensors are like."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import Flag
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulelab.cli.options import SomeGpus
from joulelab.core.device import Capabilities, DeviceAddress, DeviceIdentity, DeviceState
from joulelab.devices.base import Device
from joulelab.devices.choice import open_device
from joulelab.errors import MeasurementError
from joulelab.sampling import calibration

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices(SomeGpus):
    """Show the GPUs of this machine: clocks, limits, sensors and their tick, permissions.

    `joulelab processors` lists the devices that can be estimated.
    """

    quick: bool = False  # Do not wait for the energy counter to tick (some three seconds).
    json: bool = False  # Print one JSON array instead of tables.

    def run(self) -> int:
        """Look at every device at once and print what was found."""
        addresses = self.addresses()
        with ThreadPoolExecutor(len(addresses)) as pool:
            found = list(pool.map(self._look, addresses))
        if self.json:
            print(json.dumps([asdict(each) for each in found], indent=2, default=plain))
        else:
            console = Console()
            for each in found:
                console.print(_table(each))
        return 0

    def _look(self, address: DeviceAddress) -> "FoundDevice":
        with closing(open_device(address)) as device:
            capabilities = device.capabilities()
            has_samples = capabilities.has_power_samples and not self.quick
            has_counter = capabilities.has_energy_counter and not self.quick
            problems: list[str] = []
            return FoundDevice(
                identity=device.identity(),
                capabilities=capabilities,
                state=device.read_state(),
                tick=_tried(calibration.measure_tick, device, problems) if has_counter else None,
                samples=_tried(calibration.measure_sample_buffer, device, problems)
                if has_samples
                else None,
                problems=tuple(problems),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevice:
    """One device as it was found, its sensors as measured if they were waited for."""

    identity: DeviceIdentity
    capabilities: Capabilities
    state: DeviceState
    tick: calibration.CounterTick | None
    samples: calibration.SampleBuffer | None
    problems: tuple[str, ...] = ()


def plain(value: object) -> Any:
    """Make JSON of what :func:`dataclasses.asdict` leaves: flags become lists of names."""
    if isinstance(value, Flag):
        return [flag.name for flag in value]
    raise TypeError(f"{value!r} is not JSON.")


def permission_in_words(can_set_clocks: bool | None) -> str:
    """Say whether this process may set clocks."""
    return {
        True: "yes, this process may set them",
        False: "no, see `joulelab doctor`",
        None: "only a try would tell",
    }[can_set_clocks]


def clocks_in_words(clocks_mhz: tuple[int, ...]) -> str:
    """Condense a list of clocks: ``"110 from 345 to 1980 MHz"``."""
    if len(clocks_mhz) <= 3:
        return ", ".join(f"{clock} MHz" for clock in clocks_mhz) or "none can be set"
    return f"{len(clocks_mhz)} from {clocks_mhz[-1]} to {clocks_mhz[0]} MHz"


def tick_in_words(tick: calibration.CounterTick | None) -> str:
    """Say how the energy counter advances."""
    if tick is None:
        return "present"
    if tick.period_s is None or tick.jitter_s is None or tick.resolution_s is None:
        return "changes at every read"
    seen = tick.jitter_s > tick.resolution_s
    jitter = duration_in_words(tick.jitter_s if seen else tick.resolution_s)
    jitter = jitter if seen else f"below {jitter}"
    return f"ticks every {duration_in_words(tick.period_s)} (jitter {jitter})"


def duration_in_words(duration_s: float) -> str:
    """Write a short duration in milliseconds, or in microseconds below one."""
    if duration_s < 1e-3:
        return f"{1e6 * duration_s:.0f} us"
    return f"{1e3 * duration_s:.1f} ms"


def _tried(measure: Callable[[Device], T], device: Device, problems: list[str]) -> T | None:
    """Measure a sensor; one that does not work is a finding, not the end of the list."""
    try:
        return measure(device)
    except MeasurementError as error:
        problems.append(str(error))
        return None


def _table(found: FoundDevice) -> Table:
    identity, state = found.identity, found.state
    table = Table(
        title=f"{identity.name}  {identity.uuid}", title_justify="left", show_header=False
    )
    table.add_column(style="bold")
    table.add_column()
    for what, value in _rows(found, found.capabilities, state):
        table.add_row(what, Text(value))
    return table


def _rows(
    found: FoundDevice, capabilities: Capabilities, state: DeviceState
) -> list[tuple[str, str]]:
    samples = found.samples
    in_buffer = "" if samples is None else f", one every {duration_in_words(samples.period_s)}"
    counter = tick_in_words(found.tick) if capabilities.has_energy_counter else "none"
    return [
        ("driver", f"{found.identity.driver_version} through {found.identity.backend}"),
        ("SM clocks", clocks_in_words(capabilities.sm_clocks_mhz)),
        ("memory clocks", clocks_in_words(capabilities.mem_clocks_mhz)),
        ("power limit", _limit_in_words(capabilities, state)),
        ("SM clock now", f"{state.sm_clock_mhz} MHz"),
        ("memory clock now", _maybe(state.mem_clock_mhz, "MHz")),
        (
            "clocks held down by",
            ", ".join(str(flag.name) for flag in state.event_reasons) or "nothing",
        ),
        ("temperature", _maybe(state.temperature_c, "C")),
        ("energy counter", counter),
        ("power samples", f"buffered{in_buffer}" if capabilities.has_power_samples else "polled"),
        ("memory power", "yes" if capabilities.has_memory_power else "no"),
        ("unit activity", activity_in_words(capabilities)),
        ("set clocks", permission_in_words(capabilities.can_set_clocks)),
        *(("problem", problem) for problem in found.problems),
    ]


def activity_in_words(capabilities: Capabilities) -> str:
    """Say whether unit activities are counted, and by whom if not by the device's own backend."""
    source = capabilities.activity_source
    if not capabilities.has_activity:
        return "no"
    return "yes" if source is None else f"yes, through {source}"


def _maybe(value: float | None, unit: str) -> str:
    return "unreadable" if value is None else f"{value:g} {unit}"


def _limit_in_words(capabilities: Capabilities, state: DeviceState) -> str:
    now = _maybe(state.power_limit_w, "W")
    if capabilities.power_limits_w is None:
        return f"{now}, fixed"
    lowest_w, highest_w = capabilities.power_limits_w
    return f"{now}, can be set from {lowest_w:g} to {highest_w:g} W"
