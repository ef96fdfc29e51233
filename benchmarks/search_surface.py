"""Surfaces for searches: what networks truly cost on a simulated A100, and readings of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import PhaseCost
from joulelab.core.power_law import CAP_SHARE
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.physics import LoadPoint, PhaseModel
from joulelab.hardware import GpuSpec
from joulelab.hardware.catalogue import GPUS
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.space import SearchSpace
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

SPEC = GPUS["a100_sxm"]
BATCHES = (1, 4, 16, 32, 64, 128)
PRECISIONS = {
    "vit": ("fp32", "tf32", "bf16", "int8"),
    "bert": ("fp32", "tf32", "bf16", "fp16"),
    "resnet50": ("fp32", "tf32", "bf16", "fp16"),
}
ENERGY_NOISE, TIME_NOISE = 0.005, 0.002
"""Scatter of one trial: 0.3 to 0.8 % of energy is usual from run to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What every configuration of a space truly costs.

    Attributes:
        space: The configurations.
        energy_j: Energy per unit of work of each.
        time_s: Time per unit.
        held_mhz: SM clock at which the power cap holds it; ``None`` where it does not.
    """

    space: SearchSpace
    energy_j: tuple[float, ...]
    time_s: tuple[float, ...]
    held_mhz: tuple[float | None, ...]

    @property
    def regret(self) -> np.ndarray:
        """Logarithm of each EDP over the least one."""
        edp = np.log(self.energy_j) + np.log(self.time_s)
        return np.asarray(edp - edp.min())

    def outcome(self, place: int, random: np.random.Generator) -> Outcome:
        """Measure a configuration once."""
        energy_j = self.energy_j[place] * exp(random.normal(0.0, ENERGY_NOISE))
        time_s = self.time_s[place] * exp(random.normal(0.0, TIME_NOISE))
        figures = reading(energy_j, time_s)
        held_mhz = self.held_mhz[place]
        return Outcome(
            candidate=self.space[place],
            figures=figures,
            capped=held_mhz is not None,
            held_mhz=held_mhz,
        )


def reading(
    energy_j: float,
    time_s: float,
    energy_noise: float = ENERGY_NOISE,
    time_noise: float = TIME_NOISE,
) -> Figures:
    """Return figures with the uncertainty of one trial."""
    return Figures(
        energy_j=energy_j,
        energy_u_j=energy_noise * energy_j,
        time_s=time_s,
        time_u_s=time_noise * time_s,
        power_w=energy_j / time_s,
        board="one",
    )


def simulated(workload: str) -> Surface:
    """Return the surface of a workload on a simulated A100, with batch and number format."""
    axes: dict[str, Sequence[KnobValue]] = {
        "sm_clock_mhz": SPEC.study_clocks_mhz,
        "batch": BATCHES,
        "precision": PRECISIONS[workload],
    }
    return surface_of(SearchSpace(workload, axes), SPEC)


def surface_of(space: SearchSpace, spec: GpuSpec, board: Board | None = None) -> Surface:
    """Return what every configuration of ``space`` costs on a simulated GPU, or on one board."""
    board = board or Board(seed=0)
    phases = {cell: _phases(space.workload, dict(cell), spec, board) for cell in space.cells}
    found = [_steady(phases[each.knobs], each.point.sm_clock_mhz, spec, board) for each in space]
    return Surface(
        space=space,
        energy_j=tuple(energy_j for energy_j, _, _ in found),
        time_s=tuple(time_s for _, time_s, _ in found),
        held_mhz=tuple(held_mhz for _, _, held_mhz in found),
    )


def _phases(
    workload: str, knobs: dict[str, KnobValue], spec: GpuSpec, board: Board
) -> list[tuple[PhaseCost, PhaseModel, float]]:
    cost = cached_cost(WORKLOADS[workload].from_knobs(knobs))
    request = WORKLOADS[workload].from_knobs(knobs).request
    scale = board.voltage_scale
    return [
        (
            phase,
            PhaseModel(spec, phase, data=cost.data, voltage_scale=scale),
            request.per_unit(phase.phase) / phase.work,
        )
        for phase in cost.phases
    ]


def _steady(
    phases: Sequence[tuple[PhaseCost, PhaseModel, float]],
    clock_mhz: int | None,
    spec: GpuSpec,
    board: Board,
) -> tuple[float, float, float | None]:
    """Return energy and time per unit of work, and the clock at which the cap holds, if it does."""
    energy_j = time_s = 0.0
    lowest = wanted = clock_mhz or spec.default_clock_mhz
    for _, model, share in phases:
        for held in (clock for clock in spec.sm_clocks_mhz if clock <= wanted):
            point = model.at(held, spec.mem_clocks_mhz[0])
            power_w = _warm_w(spec, point, board.leakage_scale)
            if power_w <= CAP_SHARE * spec.default_power_limit_w:
                break
        lowest = min(lowest, held)
        time_s += share * point.duration_s
        energy_j += share * power_w * point.duration_s
    return energy_j, time_s, lowest if lowest < wanted else None


def _warm_w(spec: GpuSpec, point: LoadPoint, leakage_scale: float) -> float:
    """Return power at the temperature that it leads to itself."""
    thermal, power_w = spec.thermal, point.power_w
    for _ in range(20):
        temperature_c = thermal.ambient_c + sum(thermal.resistance_k_per_w) * power_w
        heated = exp(spec.power.leakage_per_k * (temperature_c - thermal.reference_c)) - 1.0
        power_w = point.power_w + leakage_scale * point.leakage_w * heated
    return power_w
