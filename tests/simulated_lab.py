"""Simulated GPUs and loads of known size, for tests."""

from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from joulelab.core.clock import Clock
from joulelab.core.cost import Data, KernelCost, PhaseCost, Pipe, WorkloadCost
from joulelab.core.device import DeviceState
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.devices.simulated.board import Board
from joulelab.workloads.base import Workload

ELEMENT_B: dict[Pipe, int] = {"tensor_bf16": 2, "fp32": 4, "tensor_fp64": 8, "fp64": 8}


def typical(
    root: Path, key: str = "h200_sxm", *, clock: Clock | None = None, phase_s: float = 0.0
) -> SimulatedDevice:
    """Return a GPU without the traits of one board: true readings, nominal silicon."""
    board = Board(seed=1, noise=0.0, phase_s=phase_s)
    return SimulatedDevice(DriverStore(root).create(key), clock=clock, board=board)


def gemm(n: int, pipe: Pipe = "tensor_bf16", *, count: int = 1) -> PhaseCost:
    """Return the cost of ``count`` square matrix products, operands read once."""
    kernel = KernelCost(
        name="gemm", pipe=pipe, flop=2.0 * n**3, dram_b=3.0 * ELEMENT_B[pipe] * n * n, count=count
    )
    return PhaseCost(phase="gemm", work=count * 2e-12 * n**3, kernels=(kernel,))


def copy(num_b: float = 8.6e9) -> PhaseCost:
    """Return the cost of moving ``num_b`` bytes through the memory."""
    kernel = KernelCost(name="copy", pipe="fp32", flop=0.0, dram_b=num_b)
    return PhaseCost(phase="copy", work=num_b / 1e9, kernels=(kernel,))


def wait(duration_s: float) -> PhaseCost:
    """Return a phase that leaves the device alone."""
    return PhaseCost(phase="wait", work=1.0, wait_s=duration_s)


def hold(device: SimulatedDevice) -> None:
    """Let this process hold a context, so that the clocks stay up."""
    device.machine.hold_memory(1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Steady state of a load."""

    power_w: float
    state: DeviceState


def settled(
    device: SimulatedDevice, phase: PhaseCost, *, data: Data = "random", after_s: float = 10.0
) -> Seen:
    """Play ``phase`` for ``after_s`` and return mean power of the last second."""
    device.play(phase, data=data)
    device.clock.sleep_s(after_s)
    power_w = float(device.read_power_samples().power_w[-50:].mean())
    state = device.read_state()
    device.stop()
    return Seen(power_w=power_w, state=state)


@dataclass(frozen=True)
class ToySettings:
    """Knobs of :class:`Toy`."""

    size: int = 4096
    pipe: Pipe = "tensor_bf16"
    memory_b: float = 1e9


class Toy(Workload[ToySettings]):
    """A workload of one matrix product and a pause."""

    settings_type = ToySettings
    unit = "TFLOP"

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return ("gemm", "wait")

    @override
    def prepare(self) -> None:
        raise AssertionError("a played program must not be run")

    @override
    def run(self, phase: str) -> float:
        raise AssertionError("a played program must not be run")

    @override
    def close(self) -> None:
        pass

    @override
    def cost(self) -> WorkloadCost:
        phases = (gemm(self.settings.size, self.settings.pipe), wait(0.2))
        return WorkloadCost(unit="TFLOP", phases=phases, resident_b=self.settings.memory_b)
