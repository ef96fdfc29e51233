"""Profiles of programs on simulated GPUs: what a profiler would record there."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from joulelab.attribution.metered import Metered
from joulelab.attribution.profile import KernelCall, PhaseProfile, cost_name
from joulelab.core.cost import PhaseCost
from joulelab.core.measurement import Measurement
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GpuSpec
from joulelab.tracing.kernels import kernels_of
from joulelab.tracing.program import ProgramPhase


class SimulatedSource:
    """Profiles traced phases, of one of some GPUs, with the times of its own physics."""

    def __init__(
        self, spec: GpuSpec, phases: tuple[ProgramPhase, ...], num_devices: int = 1
    ) -> None:
        self._spec = spec
        self._phases = phases
        self._num_devices = num_devices

    def profile(self, measured: Mapping[str, Measurement]) -> tuple[PhaseProfile, ...]:
        """Return a profile of every phase that was measured, at the clocks of its measurement."""
        return tuple(
            self._profile(phase, measured[phase.phase])
            for phase in self._phases
            if phase.phase in measured
        )

    def planted_j(
        self, profile: PhaseProfile, measured: Measurement, board: Board
    ) -> NDArray[np.float64]:
        """Return what each call of a profile truly takes, as the board's sensor shows it.

        Static power is what is left of the whole's, over its time.
        """
        phase = next(each for each in self._phases if each.phase == profile.phase)
        cost = one_execution(phase, self._num_devices)
        factors = board.among_others(cost.kernels)
        model = PhaseModel(self._spec, cost, voltage_scale=board.voltage_scale, factors=factors)
        clock_mhz, mem_clock_mhz = self._clocks(measured)
        of_kernels = iter(model.kernels_at(clock_mhz, mem_clock_mhz).dynamic_j.tolist())
        spinning_w = model.spinning_w(clock_mhz)
        awake_w = self._spec.link.awake_w
        dynamic_j = board.gain * np.array(
            [
                spinning_w * call.device_s + awake_w * call.beside_s
                if call.waits_in or call.beside_s
                else next(of_kernels)
                for call in profile.calls
            ]
        )
        metered = Metered.of(measured, static_w=0.0)
        static_j = cost.work * metered.energy_j - dynamic_j.sum()
        static_w = static_j / (cost.work * metered.time_s)
        device_s = np.array([call.device_s for call in profile.calls])
        return np.asarray(dynamic_j + static_w * device_s)

    def _clocks(self, measured: Measurement) -> tuple[int, int]:
        clock_mhz = measured.observed.sm_clock_mhz or max(self._spec.sm_clocks_mhz)
        return round(clock_mhz), round(
            measured.observed.mem_clock_mhz or self._spec.mem_clocks_mhz[0]
        )

    def _profile(self, phase: ProgramPhase, measured: Measurement) -> PhaseProfile:
        cost = one_execution(phase, self._num_devices)
        points = PhaseModel(self._spec, cost).kernels_at(*self._clocks(measured))
        rows = zip(phase.program.operators, cost.kernels, points.device_s.tolist(), strict=True)
        return PhaseProfile(
            phase=phase.phase,
            executions=phase.count,
            unit=measured.unit,
            work=phase.work / phase.count,
            calls=tuple(
                KernelCall(operator=operator, kernel=cost_name(operator, kernel), device_s=device_s)
                for operator, kernel, device_s in rows
            ),
        )


def one_execution(phase: ProgramPhase, num_devices: int = 1) -> PhaseCost:
    """Return the cost of one execution of a phase's program on each GPU, launch by launch."""
    return PhaseCost(
        phase=phase.phase,
        work=phase.work / phase.count,
        kernels=kernels_of(phase.program),
        parameter_b=phase.program.parameter_b,
        host_calls=phase.host_calls,
        num_devices=num_devices,
    )
