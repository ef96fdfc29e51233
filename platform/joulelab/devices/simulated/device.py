"""A simulated GPU behind the face that a real one shows, and programs as they run on it."""

import os
from collections.abc import Sequence
from typing import Any, Self

from typing_extensions import override

from joulelab.core.clock import Clock, MonotonicClock, VirtualClock
from joulelab.core.cost import Data, PhaseCost
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
from joulelab.devices.base import ActivityProbe, Device, check_point
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.engine import UNITS
from joulelab.devices.simulated.machine import Machine
from joulelab.devices.simulated.played import PlayedWorkload
from joulelab.devices.simulated.store import DriverState, DriverStore
from joulelab.errors import DeviceError, DevicePermissionError, MeasurementError
from joulelab.workloads.base import Workload


def fleet(
    kinds: str | Sequence[str], num_gpus: int, store: str | None = None
) -> tuple[DeviceAddress, ...]:
    """Make ``num_gpus`` simulated GPUs of each kind, a name in the catalogue, and return where.

    Raises UnknownNameError if the catalogue has no such GPU; names the closest; DeviceError if
    ``store`` is no folder in which files can be made.
    """
    driver, keys = DriverStore(store), [kinds] if isinstance(kinds, str) else dict.fromkeys(kinds)
    try:
        uuids = [driver.create(key, index).uuid for key in keys for index in range(num_gpus)]
    except OSError as error:
        raise DeviceError(
            f"store must be a folder in which files can be made, got {driver.root}: "
            f"{error.strerror}. Name another one with --store, or leave it out."
        ) from error
    found = dict.fromkeys(uuids)
    return tuple(DeviceAddress(backend="simulated", uuid=uuid, store=store) for uuid in found)


class SimulatedDevice(Device):
    """One simulated GPU.

    Its settings are in the driver's store, outside the process, and outlive it; a change made
    there by another process is noticed at the next call. Its temperature, counters and running
    program are in this object.

    It is the board that the store's seed names, on a virtual clock of its own, unless others are
    given.
    """

    is_hardware = False

    def __init__(
        self, driver: DriverState, *, clock: Clock | None = None, board: Board | None = None
    ) -> None:
        self._driver = driver
        self._spec = driver.spec
        self.machine = Machine(
            driver,
            Board.of(driver.seed, self._spec) if board is None else board,
            VirtualClock() if clock is None else clock,
        )

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        uuids = DriverStore(store).uuids()
        return tuple(DeviceAddress(backend="simulated", uuid=u, store=store) for u in uuids)

    @classmethod
    @override
    def open(cls, address: DeviceAddress) -> Self:
        return cls(DriverStore(address.store).state(address.uuid))

    @classmethod
    @override
    def open_in_real_time(cls, address: DeviceAddress) -> Self:
        return cls(DriverStore(address.store).state(address.uuid), clock=MonotonicClock())

    @override
    def open_partner(self, address: DeviceAddress) -> Self:
        return type(self)(DriverStore(address.store).state(address.uuid), clock=self.clock)

    @property
    @override
    def clock(self) -> Clock:
        return self.machine.clock

    @override
    def identity(self) -> DeviceIdentity:
        return DeviceIdentity(
            uuid=self._driver.uuid,
            name=self._spec.product_names[0],
            backend="simulated",
            driver_version=self._driver.driver_version,
        )

    @override
    def capabilities(self) -> Capabilities:
        self.machine.now_s()
        return Capabilities(
            sm_clocks_mhz=self._spec.sm_clocks_mhz,
            mem_clocks_mhz=self._spec.mem_clocks_mhz if self._spec.mem_clock_lockable else (),
            power_limits_w=self._spec.power_limits_w,
            default_power_limit_w=self._spec.default_power_limit_w,
            has_energy_counter=True,
            has_power_samples=True,
            has_memory_power=self._spec.sensor.has_memory_power,
            has_activity=self._spec.sensor.has_activity,
            can_set_clocks=self._permitted(),
            memory_b=int(self._spec.memory_b),
        )

    @override
    def read_power_w(self) -> float:
        return self.machine.look(self.machine.sensors.power_w)

    @override
    def read_average_power_w(self) -> float:
        power_w = self.machine.look(self.machine.sensors.average_power_w)
        if power_w is None:
            raise self._unsupported("averaged power")
        return power_w

    @override
    def read_energy_j(self) -> float:
        return self.machine.look(self.machine.sensors.energy_j)

    @override
    def read_power_samples(self) -> PowerTrace:
        return self.machine.look(self.machine.sensors.samples)

    @override
    def read_memory_power_w(self) -> float:
        if not self._spec.sensor.has_memory_power:
            raise self._unsupported("memory power")
        return self.machine.look(self.machine.sensors.memory_power_w)

    @override
    def activity(self) -> ActivityProbe:
        if not self._spec.sensor.has_activity:
            raise self._unsupported("activity counters")
        return _Probe(self.machine)

    @override
    def read_state(self) -> DeviceState:
        return self.machine.look(lambda now_s: self._state())

    @override
    def read_processes(self) -> tuple[GpuProcess, ...]:
        return self.machine.processes()

    @override
    def apply(self, point: OperatingPoint) -> None:
        self.machine.now_s()
        check_point(point, self.capabilities())
        self._require_permission()
        self._driver.apply(point)
        self._await_call()

    @override
    def reset(self) -> None:
        self.machine.now_s()
        self._require_permission()
        self._driver.reset()
        self._await_call()

    @override
    def host(self, workload: Workload[Any]) -> Workload[Any]:
        return PlayedWorkload([self.machine], workload)

    @override
    def host_together(self, workload: Workload[Any], partners: Sequence[Device]) -> Workload[Any]:
        others = [device.machine for device in partners if isinstance(device, SimulatedDevice)]
        return PlayedWorkload([self.machine, *others], workload)

    def play(self, phase: PhaseCost, *, data: Data = "random") -> None:
        """Execute ``phase`` over and over, starting now, until :meth:`stop`.

        Raises ConfigError if the phase needs a pipe that the GPU lacks.
        """
        self.machine.begin(self.machine.model_of(phase, data))

    def stop(self) -> None:
        """End what :meth:`play` began."""
        self.machine.end()

    def _state(self) -> DeviceState:
        engine = self.machine.engine
        temperature_c, activity = int(engine.temperature_c), engine.activity
        return DeviceState(
            sm_clock_mhz=engine.governor.clock_mhz,
            mem_clock_mhz=engine.governor.mem_clock_mhz,
            temperature_c=temperature_c,
            memory_temperature_c=temperature_c if self._spec.sensor.has_memory_power else None,
            power_limit_w=engine.governor.limit_w,
            event_reasons=engine.governor.reasons,
            power_cap_s=engine.power_cap_s,
            thermal_s=engine.thermal_s,
            memory_used_b=self.machine.memory_used_b,
            held=self.machine.settings.point,
            gpu_utilization=activity.gr_engine_active or 0.0,
            memory_utilization=activity.dram_active or 0.0,
        )

    def _permitted(self) -> bool:
        settings = self.machine.settings
        return not settings.restricted or os.getpid() in settings.administrators

    def _require_permission(self) -> None:
        if self.machine.suffers("refused"):
            raise DevicePermissionError(
                f"The driver of {self._driver.uuid} refused to change its settings."
            )
        if not self._permitted():
            raise DevicePermissionError(
                f"Process {os.getpid()} may not set clocks or power limits of "
                f"{self._driver.uuid}: its driver obeys administrators only. Run the clock guard "
                "with that right and take a lease from it, or measure at the driver's own clocks "
                "with --observe-only."
            )

    def _await_call(self) -> None:
        self.machine.now_s()
        self.clock.sleep_s(self._spec.timing.set_call_s)


class _Probe(ActivityProbe):
    can_mark = True

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._first = self._marked = machine.activity_s()

    @override
    def read(self) -> Activity:
        self.mark()
        return self.read_to_mark()

    @override
    def mark(self) -> None:
        self._marked = self.machine.activity_s()

    @override
    def read_to_mark(self) -> Activity:
        (first_s, before_s), (last_s, active_s) = self._first, self._marked
        passed_s = last_s - first_s
        if not passed_s > 0:
            raise MeasurementError("Activity needs some time to pass between two reads.")
        self._first = self._marked
        shares = {unit: (active_s[unit] - before_s[unit]) / passed_s for unit in UNITS}
        return Activity(**{unit: min(1.0, share) for unit, share in shares.items()})  # rounding
