"""Loads for simulated GPUs that go from phase to phase, as servers and trainings do.

They are played in the device's own time, so that hours of governing take seconds. Operations and
bytes are those of no particular network: what counts is what bounds each phase.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp
from random import Random

from joulelab.core.cost import KernelCost, PhaseCost, Pipe
from joulelab.devices.base import Device
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.engine import steady_load
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.errors import ConfigError
from joulelab.hardware import GpuSpec, spec_for
from joulelab.registry import unknown_name
from joulelab.workloads.base import Workload
from joulelab.workloads.program import PHASE, workload_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A phase of a load, and how long it takes at the driver's own clocks."""

    phase: str
    mean_s: float
    spread: float = 0.0  # standard deviation of the logarithm of the time


PHASES = ("prefill", "decode", "communication", "idle", "update")
"""Bound by tensor units, by memory, by other GPUs, by nobody, and by memory with plain units."""

LOADS: Mapping[str, tuple[Stage, ...]] = {
    "prefill": (Stage(phase="prefill", mean_s=60.0),),
    "decode": (Stage(phase="decode", mean_s=60.0),),
    "serving": (
        Stage(phase="idle", mean_s=2.0, spread=0.5),
        Stage(phase="prefill", mean_s=1.0, spread=0.4),
        Stage(phase="decode", mean_s=6.0, spread=0.4),
    ),
    "chat": (
        Stage(phase="prefill", mean_s=0.4, spread=0.3),
        Stage(phase="decode", mean_s=4.0, spread=0.5),
    ),
    "training": (
        Stage(phase="prefill", mean_s=3.0, spread=0.05),
        Stage(phase="communication", mean_s=1.0, spread=0.1),
        Stage(phase="update", mean_s=0.5, spread=0.05),
    ),
    "bursts": (
        Stage(phase="idle", mean_s=8.0, spread=0.8),
        Stage(phase="decode", mean_s=2.0, spread=0.6),
    ),
}
"""Stages that repeat, by the name of the load."""


def stages_of(name: str) -> tuple[Stage, ...]:
    """Return the stages of a load.

    Raises UnknownNameError if there is none; names the closest.
    """
    if name not in LOADS:
        raise unknown_name("load", name, LOADS)
    return LOADS[name]


def phase_cost(phase: str, spec: GpuSpec) -> PhaseCost:
    """Return what a few milliseconds of a phase ask of a kind of GPU.

    Raises UnknownNameError if there is no such phase.
    """
    bytes_per_ms = spec.memory_bandwidth_b_per_s * 1e-3
    pipe: Pipe = "tensor_bf16" if "tensor_bf16" in spec.flop_per_clock_per_sm else "tensor_fp16"
    flop_per_ms = spec.peak_flop_per_s(pipe) * 1e-3
    kernels = {
        "prefill": KernelCost(
            name="gemm", pipe=pipe, flop=4 * flop_per_ms, dram_b=1.0 * bytes_per_ms
        ),
        "decode": KernelCost(
            name="gemm", pipe=pipe, flop=0.4 * flop_per_ms, dram_b=4 * bytes_per_ms
        ),
        "communication": KernelCost(name="copy", pipe="fp32", flop=0, dram_b=0.5 * bytes_per_ms),
        "update": KernelCost(
            name="elementwise",
            pipe="fp32",
            flop=0.05 * spec.peak_flop_per_s("fp32") * 1e-3,
            dram_b=4 * bytes_per_ms,
        ),
    }
    if phase == "idle":
        return PhaseCost(phase=phase, work=1.0, wait_s=0.01, parameter_b=1e9)
    if phase not in kernels:
        raise unknown_name("phase", phase, PHASES)
    waits_s = 3e-3 if phase == "communication" else 0.0
    return PhaseCost(
        phase=phase, work=1.0, kernels=(kernels[phase],), wait_s=waits_s, parameter_b=1e9
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A stretch of one phase as it was played."""

    phase: str
    start_s: float  # when it began, on the device's clock
    stop_s: float
    executions: float  # how often the phase was executed


class SimulatedLoad:
    """Plays stages on a simulated GPU, one after the other and again from the first.

    A stage is as much work as its time at the driver's own clocks is worth, whatever the clock; the
    idle one is a time. So a lower clock makes the load slower, as it does a program. ``board`` says
    in what the board differs from its kind, if that is known. Raises ConfigError if the device
    plays nothing.
    """

    def __init__(
        self,
        device: Device,
        stages: tuple[Stage, ...],
        *,
        seed: int = 0,
        board: Board | None = None,
    ) -> None:
        spec = spec_for(device.identity().name)
        if device.is_hardware or spec is None:
            raise ConfigError(
                f"A load is played on a simulated GPU of the catalogue, got "
                f"{device.identity().name}; run a program on a real one."
            )
        self._clock = device.clock
        self.stages = stages
        self.spec = spec
        self._board = board
        self._random = Random(seed)  # noqa: S311 - times, not secrets
        self.costs = {stage.phase: phase_cost(stage.phase, spec) for stage in stages}
        self._hosted = {
            phase: device.host(_program(cost).from_knobs({})) for phase, cost in self.costs.items()
        }
        self._unit_s = {  # on a board that is exactly its kind
            phase: steady_load(spec, cost).time_per_unit_s for phase, cost in self.costs.items()
        }
        self.phase: str | None = None
        self.spells: list[Spell] = []
        """All that was played, in order."""
        self.work: dict[str, float] = dict.fromkeys(self.costs, 0.0)
        """Executions of each phase so far."""

    def model(self, phase: str) -> PhaseModel:
        """Return the truth about a phase on this board, at any clock."""
        scale = 1.0 if self._board is None else self._board.voltage_scale
        return PhaseModel(self.spec, self.costs[phase], voltage_scale=scale)

    def shown_w(self, power_w: float) -> float:
        """Return what the board's sensor, by which its power limit acts, shows of a power."""
        if self._board is None:
            return power_w
        return self._board.gain * power_w + self._board.offset_w

    def play(self, duration_s: float) -> None:
        """Play for a time on the device's clock; the last stage may be cut short."""
        stop_s = self._clock.now_s() + duration_s
        for hosted in self._hosted.values():
            hosted.prepare()
        for stage in self._endlessly():
            self._play_stage(stage, stop_s)
            if self._clock.now_s() >= stop_s:
                break
        self.phase = None
        for hosted in self._hosted.values():
            hosted.close()

    def _endlessly(self) -> Iterator[Stage]:
        while True:
            for stage in self.stages:
                log_time = self._random.gauss(0.0, stage.spread)
                yield replace(stage, mean_s=stage.mean_s * exp(log_time))

    def _play_stage(self, stage: Stage, stop_s: float) -> None:
        hosted, start_s = self._hosted[stage.phase], self._clock.now_s()
        todo, done = stage.mean_s / self._unit_s[stage.phase], 0.0
        self.phase = stage.phase
        while done < todo and self._clock.now_s() < stop_s:
            executions = hosted.run(PHASE)
            done += executions
            self.work[stage.phase] += executions
        self.spells.append(
            Spell(phase=stage.phase, start_s=start_s, stop_s=self._clock.now_s(), executions=done)
        )


def _program(cost: PhaseCost) -> type[Workload[object]]:
    def stage() -> None:
        """Nothing is computed: the device plays the cost."""

    return workload_type(stage, unit="execution", work=1.0, cost=cost)
