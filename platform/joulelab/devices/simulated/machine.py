"""One board that lives: its physics, its sensors, its program, and the store it obeys."""

import os
import threading
import time
from collections.abc import Callable
from math import exp, sqrt
from random import Random
from typing import TypeVar

from joulelab.core.clock import Clock
from joulelab.core.cost import Data, PhaseCost
from joulelab.core.device import GpuProcess
from joulelab.devices.simulated.board import Board, Sensors
from joulelab.devices.simulated.engine import Engine
from joulelab.devices.simulated.faults import Fault
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.devices.simulated.store import DriverState, Settings
from joulelab.errors import DeviceError, DeviceLostError

T = TypeVar("T")

RUN_S = 0.05
"""Length of the runs whose times :attr:`Board.run_noise` is of."""
_LOOK_S = 0.1
"""While a program plays, the driver's state is looked at this often."""
_DONE_S = 1e-9
"""A program with less than this left to do has ended."""


_STAMP = 777_777
_RECENT_NS = 50_000_000
"""Longer than any kernel's granularity of file times."""


class StoreWatch:
    """The settings in a driver's state, re-read when they change.

    Every change renames or unlinks a file, which moves the folder's modification time. That
    time is coarse: two changes may share it. So a folder that changed a moment ago is first
    stamped with a time that no kernel would give it, then read; whatever comes later shows.
    """

    def __init__(self, state: DriverState) -> None:
        self._state = state
        self._folder = str(state.folder)  # a path object costs more than the call
        self._seen_ns = 0
        self.settings = Settings()
        self.changed()

    def changed(self) -> bool:
        """Read the settings if the folder changed; return whether they differ."""
        modified_ns = os.stat(self._folder).st_mtime_ns
        if modified_ns == self._seen_ns:
            return False
        self._seen_ns = self._stamped(modified_ns)
        before, self.settings = self.settings, self._state.settings()
        return self.settings != before

    def _stamped(self, modified_ns: int) -> int:
        now_ns = time.time_ns()
        if now_ns - modified_ns > _RECENT_NS or modified_ns % 1_000_000 == _STAMP:
            return modified_ns
        stamp_ns = now_ns - now_ns % 1_000_000 + _STAMP
        try:
            os.utime(self._state.folder, ns=(stamp_ns, stamp_ns))
        except PermissionError:
            return 0  # somebody else's folder: read it every time while it is fresh
        return stamp_ns


class Machine:
    """What is behind the face of a simulated device.

    Time passes only as the clock says: every look first lets the board live up to the present.
    """

    def __init__(self, driver: DriverState, board: Board, clock: Clock) -> None:
        start_s = clock.now_s()
        self.spec = driver.spec
        self.driver = driver
        self.board = board
        self.clock = clock
        self.engine = Engine(self.spec, board, start_s)
        self.sensors = Sensors(self.spec.sensor, board, self.engine.history, start_s)
        self._watch = StoreWatch(driver)
        self._memory_b = 0.0
        self._ending = False
        self._gone = False
        self._goal = 0.0
        self._spell = 1.0
        self._random = Random(board.seed)  # noqa: S311 - noise, not a secret
        self._holding: frozenset[Fault] = frozenset()
        self._lock = threading.RLock()
        self.engine.adopt(self._watch.settings, at_once=True)
        self._turn_faults(start_s)

    @property
    def settings(self) -> Settings:
        """The driver's settings as last seen."""
        return self._watch.settings

    def now_s(self) -> float:
        """Bring the board up to the present; return device time.

        Raises DeviceLostError if the device is lost.
        """
        with self._lock:
            now_s = self.clock.now_s()
            if self._ending and now_s > self.engine.time_s:
                self.engine.run(None)
                self._ending = False
            self._advance(now_s)
            if self._watch.changed():
                self.engine.adopt(self._watch.settings)
                self._turn_faults(now_s)
            self._gone |= self.suffers("lost")
            self._gone |= self.engine.temperature_c > self.spec.thermal.shutdown_c
            if self._gone:
                raise DeviceLostError(
                    f"{self.spec.product_names[0]} {self.driver.uuid} is lost: it has fallen off "
                    "the bus. Nothing read from it can be trusted until its node restarts."
                )
        return now_s

    def look(self, reading: Callable[[float], T]) -> T:
        """Return ``reading`` of device time, undisturbed by other threads."""
        with self._lock:
            return reading(self.now_s())

    def suffers(self, kind: str) -> bool:
        """Whether a fault of this kind held at the last look."""
        return any(fault.kind == kind for fault in self._holding)

    def activity_s(self) -> tuple[float, dict[str, float]]:
        """Return device time, and for how much of it each unit was active."""
        return self.look(lambda now_s: (now_s, self.engine.activity_s()))

    def processes(self) -> tuple[GpuProcess, ...]:
        """Return who holds the device."""
        self.now_s()
        held_b = self._held_b()
        return tuple(GpuProcess(pid=pid, memory_b=held_b[pid]) for pid in sorted(held_b))

    @property
    def memory_used_b(self) -> int:
        """Memory that all of them hold, as of the last look."""
        return sum(self._held_b().values())

    def hold_memory(self, resident_b: float | None) -> None:
        """Open a context that holds ``resident_b`` bytes, perhaps none; ``None`` closes it.

        Raises DeviceError if the device has less memory.
        """
        held_b = resident_b or 0.0
        if held_b > self.spec.memory_b:
            raise DeviceError(
                f"{self.spec.product_names[0]} has {self.spec.memory_b / 1e9:.0f} GB of memory, "
                f"{held_b / 1e9:.1f} GB are needed: take a smaller batch or model."
            )
        with self._lock:
            self.now_s()
            self._memory_b = held_b
            self.engine.hold_context(resident_b is not None)

    def model_of(self, phase: PhaseCost, data: Data, *, until_s: float = 0.0) -> PhaseModel:
        """Return what ``phase`` takes of this device with operands that hold ``data``.

        What takes less than ``until_s`` waits for others that share it.
        """
        return PhaseModel(
            self.spec,
            phase,
            data=data,
            voltage_scale=self.board.voltage_scale,
            until_s=until_s,
            factors=self.board.among_others(phase.kernels),
        )

    def duration_s(self, model: PhaseModel) -> float:
        """Return the time of one execution of ``model`` at the present clocks."""
        self.now_s()
        governor = self.engine.governor
        return model.at(governor.clock_mhz, governor.mem_clock_mhz).duration_s

    def begin(self, model: PhaseModel) -> None:
        """Execute ``model`` over and over from now on."""
        with self._lock:
            self.now_s()
            if not (self._ending and self.engine.model is model):
                self.engine.run(model)
                self._goal = self.engine.work
                self._spell = self._draw(self.board.spell_noise)
            self._ending = False

    def end(self) -> None:
        """Execute nothing more from now on."""
        with self._lock:
            self.now_s()
            self.engine.run(None)
            self._ending = False

    def let_end(self) -> None:
        """End what :meth:`begin` began, unless the same model goes on at the same instant."""
        with self._lock:
            self.now_s()
            self._ending = True
            self._goal = self.engine.work  # what comes next is beyond what was done until now

    def execute(self, model: PhaseModel, executions: float) -> None:
        """Execute ``model`` so many times, or a part of one; device time passes.

        Execution ends when this returns, unless the same model goes on at the same instant:
        then not even the lag of a switch lies between.
        """
        self.begin(model)
        run_s = executions * self.engine.duration_s
        self._goal += executions * (self._noise(run_s) if model.has_kernels else 1.0)
        while (left_s := (self._goal - self.engine.work) * self.engine.duration_s) > _DONE_S:
            self.clock.sleep_s(min(left_s, _LOOK_S))
            self.now_s()
        self._ending = True

    def _held_b(self) -> dict[int, int]:
        foreign = (fault for fault in self._holding if fault.kind == "foreign_process")
        held_b = {fault.pid: fault.memory_b for fault in foreign}
        if self.engine.has_context:
            held_b[os.getpid()] = int(self._memory_b)
        return held_b

    def _noise(self, run_s: float) -> float:
        """Draw how much longer a run takes; one as long as several scatters as their mean does."""
        return self._spell * self._draw(self.board.run_noise / sqrt(max(1.0, run_s / RUN_S)))

    def _draw(self, noise: float) -> float:
        """Draw how much longer than usual something takes, 1 for as long."""
        return exp(self._random.gauss(0.0, noise)) if noise else 1.0

    def _advance(self, until_s: float) -> None:
        if self.engine.faults:
            turns_s = {turn for fault in self.engine.faults for turn in (fault.at_s, fault.until_s)}
            for turn_s in sorted(t for t in turns_s if self.engine.time_s < t <= until_s):
                self.engine.advance(turn_s)
                self._turn_faults(turn_s)
        self.engine.advance(until_s)

    def _turn_faults(self, now_s: float) -> None:
        """Let the sensors feel the faults that begin or end now."""
        holding = frozenset(fault for fault in self.engine.faults if fault.holds(now_s))
        began = {fault.kind for fault in holding - self._holding}
        ended = {fault.kind for fault in self._holding - holding}
        self._holding = holding
        if "counter_reset" in began:
            self.sensors.reset_energy(now_s)
        if "frozen_counter" in began | ended:
            self.sensors.hold_energy(now_s if "frozen_counter" in began else None)
        if "stale_power" in began | ended:
            self.sensors.hold_power(now_s if "stale_power" in began else None)
