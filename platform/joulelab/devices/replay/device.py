"""A recorded GPU behind the face that a real one shows."""

import hashlib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from typing_extensions import override

from joulelab.core.clock import Clock, MonotonicClock, VirtualClock
from joulelab.core.cost import WorkloadCost
from joulelab.core.device import (
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    GpuProcess,
)
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import Device, check_point
from joulelab.devices.replay.readers import read_results, read_sweep_table
from joulelab.devices.replay.recording import Board, Player, Program, Take
from joulelab.devices.simulated.store import DriverState, default_root
from joulelab.errors import ConfigError, DeviceNotFoundError, JouleLabError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload
from joulelab.workloads.ranks import StandIn


def read_recording(store: str | None) -> tuple[Board, ...]:
    """Read the boards of a recording: a results folder of ours, or a CSV file of a published sweep.

    Raises ConfigError if it is neither.
    """
    if store is None:
        raise ConfigError(
            "replay needs --store: a results folder, or a CSV file with the columns of a sweep."
        )
    path = Path(store)
    if path.is_dir():
        try:
            return read_results(path)  # lines of another shape are refused, not guessed at
        except JouleLabError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path} holds a line that is no measurement ({type(error).__name__}: {error}); "
                f"set it aside with `joulelab repair {path}`."
            ) from error
    if path.is_file():
        return read_sweep_table(path)
    raise ConfigError(f"store must be a results folder or a CSV file, but {store} does not exist.")


_Turns = defaultdict[tuple[str, OperatingPoint], int]
"""How many recordings of each phase and point were played, be it between other programs."""


class ReplayDevice(Device):
    """Plays one recorded board, on a virtual clock unless another is given.

    A workload runs as its recorded takes at the operating point in force, one after the other
    and then from the first again; a point that was not recorded is an error. Settings are kept
    outside the process, as a driver keeps them, so that a guard can lend the clocks.
    """

    is_hardware = False

    def __init__(self, board: Board, driver: DriverState, *, clock: Clock | None = None) -> None:
        self._board = board
        self._driver = driver
        self._clock = VirtualClock() if clock is None else clock
        self._player = Player(self._clock)
        self._player.rest(self._rest_w())
        self._turns: defaultdict[str, _Turns] = defaultdict(lambda: defaultdict(int))

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        uuids = [board.identity.uuid for board in read_recording(store)]
        return tuple(DeviceAddress(backend="replay", uuid=uuid, store=store) for uuid in uuids)

    @classmethod
    @override
    def open(cls, address: DeviceAddress) -> Self:
        return cls(_board(address), _driver_state(address))

    @classmethod
    @override
    def open_in_real_time(cls, address: DeviceAddress) -> Self:
        return cls(_board(address), _driver_state(address), clock=MonotonicClock())

    @property
    @override
    def clock(self) -> Clock:
        return self._clock

    @override
    def identity(self) -> DeviceIdentity:
        return self._board.identity

    @override
    def capabilities(self) -> Capabilities:
        points = self._board.states
        limits_w = [limit_w for p in points if (limit_w := p.power_limit_w) is not None]
        sm_clocks_mhz = {clock for p in points if (clock := p.sm_clock_mhz) is not None}
        mem_clocks_mhz = {clock for p in points if (clock := p.mem_clock_mhz) is not None}
        return Capabilities(
            sm_clocks_mhz=tuple(sorted(sm_clocks_mhz, reverse=True)),
            mem_clocks_mhz=tuple(sorted(mem_clocks_mhz, reverse=True)),
            power_limits_w=(min(limits_w), max(limits_w)) if limits_w else None,
            default_power_limit_w=None,
            has_energy_counter=True,
            has_power_samples=True,
            has_memory_power=False,
            has_activity=False,
            can_set_clocks=True,
        )

    @override
    def read_power_w(self) -> float:
        power_w = self._rested().power_w()
        if power_w is None:
            raise self._unsupported("recorded power at rest")
        return power_w

    @override
    def read_energy_j(self) -> float:
        """Read the energy of all that was played; it stands still where nothing was recorded."""
        return self._rested().energy_j()

    @override
    def read_power_samples(self) -> PowerTrace:
        """Read the samples of the last seconds; there are none where nothing was recorded."""
        return self._rested().samples()

    @override
    def read_state(self) -> DeviceState:
        point = self.point_in_force
        if point not in self._board.states:
            raise self._not_recorded(point)
        return replace(self._board.states[point], held=point)

    @override
    def read_processes(self) -> tuple[GpuProcess, ...]:
        return ()

    @property
    def point_in_force(self) -> OperatingPoint:
        """The settings that are kept for the board."""
        return self._driver.settings().point

    @override
    def apply(self, point: OperatingPoint) -> None:
        check_point(point, self.capabilities())
        knobs = ("sm_clock_mhz", "mem_clock_mhz", "power_limit_w")
        changed = {k: value for k in knobs if (value := getattr(point, k)) is not None}
        target = replace(self.point_in_force, **changed)
        if target not in self._board.states:
            raise self._not_recorded(target)
        self._driver.apply(point)

    @override
    def reset(self) -> None:
        self._driver.reset()

    @override
    def host(self, workload: Workload[Any]) -> Workload[Any]:
        program = self._program_of(workload)
        return _Replayed(self, workload, program, self._turns[program.label])

    def play(self, take: Take) -> None:
        """Play a recorded take, and rest after it."""
        self._rested().play(take, self._rest_w())

    def _rested(self) -> Player:
        self._player.rest(self._rest_w())
        return self._player

    def _rest_w(self) -> float | None:
        return self._board.idle_power_w.get(self.point_in_force)

    def _program_of(self, workload: Workload[Any]) -> Program:
        programs = self._board.programs
        fits = [program for program in programs if _is_same(program, workload)]
        if getattr(workload.settings, "app", None) == "" and len(programs) == 1:
            fits = [p for p in programs if {phase for phase, _ in p.takes} >= {*workload.phases}]
        if fits:
            return fits[0]
        raise ConfigError(
            f"{type(workload).__name__.lower()} with {workload.settings} was not recorded on "
            f"{self._board.identity.name}; there are: {', '.join(p.label for p in programs)}."
        )

    def _not_recorded(self, point: OperatingPoint) -> ConfigError:
        there = ", ".join(sorted(known.label for known in self._board.states))
        return ConfigError(f"Nothing was recorded at {point.label}; there are: {there}.")


class _Replayed(StandIn):
    """A workload as the takes that were recorded of it.

    Until it rests it plays one recording of a phase at a point, and then the next one.
    """

    def __init__(
        self, device: ReplayDevice, workload: Workload[Any], program: Program, turns: _Turns
    ) -> None:
        super().__init__(workload)
        self._device = device
        self._program = program
        self._turn = turns
        self._playing: tuple[str, OperatingPoint] | None = None
        self._num_runs = 0
        self._recording: str | None = None

    @override
    def prepare(self) -> None:
        """Do nothing: it was prepared when it was recorded."""

    @override
    def run(self, phase: str) -> float:
        at = (phase, self._device.point_in_force)
        if at != self._playing:
            self.rest()
            self._playing = at
        takes = self._program.find(*at, self._turn[at])
        take = takes[self._num_runs % len(takes)]
        self._device.play(take)
        self._num_runs += 1
        self._recording = take.recording
        return take.work

    @override
    def rest(self) -> None:
        if self._playing is not None:
            self._turn[self._playing] += 1
        self._playing, self._num_runs = None, 0

    @property
    @override
    def recording(self) -> str | None:
        return self._recording

    @override
    def close(self) -> None:
        """Do nothing: nothing was taken."""

    @override
    def cost(self) -> WorkloadCost:
        return self._workload.cost()


def _is_same(program: Program, workload: Workload[Any]) -> bool:
    """Whether ``program`` is ``workload`` with the same settings, defaults filled in."""
    if program.workload not in WORKLOADS:
        return False
    recorded = WORKLOADS[program.workload].from_knobs(dict(program.knobs))
    return type(recorded) is type(workload) and bool(recorded.settings == workload.settings)


def _board(address: DeviceAddress) -> Board:
    boards = {board.identity.uuid: board for board in read_recording(address.store)}
    if address.uuid not in boards:
        raise DeviceNotFoundError(
            f"uuid must be of a board in {address.store}, got {address.uuid!r}; there are: "
            f"{', '.join(boards)}."
        )
    return boards[address.uuid]


def _driver_state(address: DeviceAddress) -> DriverState:
    path = str(Path(address.store or "").resolve())
    digest = hashlib.sha256(path.encode()).hexdigest()[:12]
    folder = default_root().parent / "replay" / digest / address.uuid
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return DriverState(folder)
