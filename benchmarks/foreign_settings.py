"""Let somebody else set clocks and limits before and while a GPU is measured; count what passes.

Usage: python benchmarks/foreign_settings.py

Eleven scenarios, each on a driver that tells its locks and on one that does not (as NVML), under
control of a clock guard and observing only, with three values: 132 measurements. A measurement
is wrong if it is valid although in one of its windows something else was set than was asked for.
"""

import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from figures import Figure
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.device import Capabilities, DeviceAddress, DeviceState
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.trial import Trial
from joulelab.devices.control import Control, OwnControl
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.devices.simulated.store import DriverState, DriverStore
from joulelab.guard import GuardClient, GuardSettings, ObserveOnly
from joulelab.guard.server import GuardServer

PROCEDURE = Procedure(idle_s=2.0, warmup_min_s=3.0, warmup_max_s=3.0, min_windows=3, limit_s=6.0)
WARMING_S = 4.0
IN_WINDOWS_S = 9.0
"""Device time at which the warm-up, and the middle one of the windows, is under way."""
CLOCK = OperatingPoint(sm_clock_mhz=1005)
LIMIT = OperatingPoint(sm_clock_mhz=1005, power_limit_w=500.0)
DEFAULT = OperatingPoint()
NUM_VALUES = 3

Meddle = Callable[[DriverState, int], None]


def lock_sm(gpu: DriverState, value: int) -> None:
    """Lock the SM clock."""
    gpu.lock_sm(*[(600, 600), (1200, 1200), (1500, 1500)][value])


def lock_range(gpu: DriverState, value: int) -> None:
    """Confine the SM clock to a range below the highest."""
    gpu.lock_sm(*[(345, 600), (345, 1200), (1005, 1500)][value])


def lock_memory(gpu: DriverState, value: int) -> None:
    """Lock the memory clock below the highest."""
    gpu.lock_mem(2201, 2201)


def limit_power(gpu: DriverState, value: int) -> None:
    """Set the board's power limit."""
    gpu.limit_power([250.0, 450.0, 650.0][value])


def unset(gpu: DriverState, value: int) -> None:
    """Take every setting away, as a reset does."""
    gpu.reset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Who sets what, when, and what is asked for meanwhile."""

    name: str
    point: OperatingPoint
    meddle: Meddle
    at_s: float | None


SCENARIOS = [
    Scenario(name=name, point=point, meddle=meddle, at_s=at_s)
    for name, point, meddle, at_s in (
        ("SM lock before, default asked", DEFAULT, lock_sm, None),
        ("SM range before, default asked", DEFAULT, lock_range, None),
        ("memory lock before, default asked", DEFAULT, lock_memory, None),
        ("power limit before, default asked", DEFAULT, limit_power, None),
        ("SM lock while warming up at the default", DEFAULT, lock_sm, WARMING_S),
        ("SM lock in a window at the default", DEFAULT, lock_sm, IN_WINDOWS_S),
        ("power limit in a window at the default", DEFAULT, limit_power, IN_WINDOWS_S),
        ("power limit before, a clock asked", CLOCK, limit_power, None),
        ("other SM lock in a window at a clock", CLOCK, lock_sm, IN_WINDOWS_S),
        ("memory lock in a window at a clock", CLOCK, lock_memory, IN_WINDOWS_S),
        ("reset in a window at a clock and a limit", LIMIT, unset, IN_WINDOWS_S),
    )
]


class MeddledDevice(SimulatedDevice):
    """A simulated GPU that somebody sets at some time, and that knows what was in force when."""

    def __init__(self, driver: DriverState, *, tells: bool) -> None:
        super().__init__(driver)
        self._tells = tells
        self.meddle: Callable[[], None] | None = None
        self.at_s = 0.0
        self.in_force: list[tuple[float, OperatingPoint]] = []

    @override
    def capabilities(self) -> Capabilities:
        told = super().capabilities()
        return told if self._tells else replace(
            told,
            unlocked_sm_clock_mhz=self._spec.default_clock_mhz,
            unlocked_mem_clock_mhz=self._spec.mem_clocks_mhz[0],
        )  # fmt: skip

    @override
    def read_state(self) -> DeviceState:
        now_s, meddle = self.clock.now_s(), self.meddle
        if meddle is not None and now_s >= self.at_s:
            self.meddle = None
            meddle()
        state = super().read_state()
        self.in_force.append((now_s, state.held or DEFAULT))
        return state if self._tells else replace(state, held=None)


@contextmanager
def guarded(folder: Path, address: DeviceAddress, *, tells: bool) -> Generator[Control]:
    """Hold a lease of a guard that sees the driver as the one who measures does."""

    def opened(wanted: DeviceAddress) -> MeddledDevice:
        return MeddledDevice(DriverStore(wanted.store).state(wanted.uuid), tells=tells)

    settings = GuardSettings(socket_path=folder / "guard.sock")
    settings.make_folders()
    server = GuardServer(settings, opened)
    thread = threading.Thread(target=server.serve)
    thread.start()
    while not settings.socket_path.exists():
        pass
    try:
        with GuardClient(settings.socket_path, start=False).lease(address) as lease:
            yield lease
    finally:
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(settings.socket_path))
            link.sendall(b'{"do":"stop"}\n')
            thread.join()


def unguarded(device: MeddledDevice, address: DeviceAddress, point: OperatingPoint) -> Control:
    """Return who measures where there is no guard: nobody sets a default, the process a clock."""
    return ObserveOnly(device, address) if point.is_default else OwnControl(device)


def play(scenario: Scenario, value: int, *, tells: bool, guard: bool) -> tuple[Measurement, bool]:
    """Play a scenario; return what was measured, and whether it is what was asked for."""
    with tempfile.TemporaryDirectory(prefix="jlf") as folder, ExitStack() as held:
        (address,) = fleet("h200_sxm", 1, f"{folder}/driver")
        driver = DriverStore(address.store).state(address.uuid)
        device = held.enter_context(closing(MeddledDevice(driver, tells=tells)))
        if scenario.at_s is None:
            scenario.meddle(driver, value)
        else:
            device.meddle, device.at_s = partial(scenario.meddle, driver, value), scenario.at_s
        control = (
            held.enter_context(guarded(Path(folder), address, tells=tells))
            if guard
            else unguarded(device, address, scenario.point)
        )
        bench = held.enter_context(Bench(device, control=control, procedure=PROCEDURE))
        asked = Configuration.of("stream", {}, scenario.point)
        (record,) = bench.measure(Trial(study="meddled", name="t", configuration=asked))
        return record.measurement, is_as_asked(record.measurement, device.in_force)


def is_as_asked(measurement: Measurement, in_force: list[tuple[float, OperatingPoint]]) -> bool:
    """Whether nothing but what was asked for was in force in any window."""
    windows = measurement.windows
    spans = [(window.start_s, window.start_s + window.duration_s) for window in windows]
    seen = [point for at_s, point in in_force if any(a <= at_s <= b for a, b in spans)]
    return all(point == measurement.configuration.point for point in seen)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of the measurements of one scenario."""

    refused: int = 0
    right: int = 0
    wrong: int = 0

    def note(self, *, valid: bool, as_asked: bool) -> None:
        """Count one: not valid, valid as it was undone in time, or valid and wrong."""
        self.refused += not valid
        self.right += valid and as_asked
        self.wrong += valid and not as_asked


def tallies() -> dict[str, Tally]:
    """Play every scenario in every way."""
    found = {scenario.name: Tally() for scenario in SCENARIOS}
    for scenario, tells, guard, value in product(
        SCENARIOS, (True, False), (True, False), range(NUM_VALUES)
    ):
        measurement, as_asked = play(scenario, value, tells=tells, guard=guard)
        found[scenario.name].note(valid=measurement.valid, as_asked=as_asked)
    return found


def figures() -> list[Figure]:
    """Return the figure that the project promises of settings that somebody else made."""
    found = tallies()
    return [
        Figure(
            name="foreign settings stored as valid",
            measured=sum(tally.wrong for tally in found.values()),
            promised=0,
            unit="",
            how=f"{len(found)} scenarios x {4 * NUM_VALUES} on simulated H200s",
        )
    ]


def main() -> int:
    """Print what came of each scenario; 1 if anything wrong is valid."""
    found = tallies()
    table = Table("scenario", "refused", "undone, valid", "wrong, valid")
    for name, tally in found.items():
        table.add_row(name, str(tally.refused), str(tally.right), str(tally.wrong))
    Console().print(table)
    return int(any(tally.wrong for tally in found.values()))


if __name__ == "__main__":
    sys.exit(main())
