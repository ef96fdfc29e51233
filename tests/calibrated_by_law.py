"""What calibrating a board shows whose power and rates follow the law, without noise."""

from dataclasses import replace

import numpy as np

from joulelab.core.device import DeviceIdentity
from joulelab.core.power_law import board_w, relative_time
from joulelab.hardware import GPUS
from joulelab.hardware.board_facts import SCHEMA, BoardFacts, ClockPoint, Fact

LOADS = {"gemm": (8.0, -4.0, 30.0, 150.0, 0.0), "stream": (8.0, 2.0, 30.0, 40.0, 60.0)}
"""Log-odds of the working share, log of memory over core time; watts clocked (per GHz), of the
work and of the memory."""


def board_like(key, *, constant=1.0, ridge=1.0, rise=1.0, knee=1.0):
    """Return the catalogue's board with some of its constants multiplied."""
    spec = GPUS[key]
    curve, power, timing = spec.voltage, spec.power, spec.timing
    return replace(
        spec,
        voltage=replace(
            curve,
            ridge_mhz=ridge * curve.ridge_mhz,
            slope_per_ghz=rise * curve.slope_per_ghz,
            curvature_per_ghz2=rise * curve.curvature_per_ghz2,
        ),
        power=replace(power, constant_w=constant * power.constant_w),
        timing=replace(timing, memory_knee_mhz=knee * timing.memory_knee_mhz),
    )


def facts_by_law(board, *, num_clocks=24, facts=(), uuid="GPU-1", driver="1", host="here"):
    """Return the calibration of a board."""
    grid_mhz = np.array(sorted(board.sm_clocks_mhz))
    grid_mhz = grid_mhz[grid_mhz <= board.default_clock_mhz]
    chosen = np.linspace(0, len(grid_mhz) - 1, num_clocks).round().astype(int)
    clocks_mhz = grid_mhz[chosen] if num_clocks else np.zeros(0)
    return BoardFacts(
        schema=SCHEMA,
        device=DeviceIdentity(
            uuid=uuid, name=board.product_names[0], backend="nvml", driver_version=driver
        ),
        host=host,
        measured_at="2026-11-01T00:00:00+00:00",
        joulelab_version="1",
        facts=tuple(Fact(name=name, value=value, u=0.1 * value) for name, value in facts),
        curve=tuple(point for load in LOADS for point in _points(board, load, clocks_mhz)),
    )


def _points(board, load, clocks_mhz):
    odds, memory, clocked_w, work_w, memory_w = LOADS[load]
    top_mhz = board.default_clock_mhz
    ratio = clocks_mhz / top_mhz
    knee = np.full(len(ratio), board.timing.memory_knee_mhz / top_mhz)
    time = relative_time(ratio, np.tile((odds, memory), (len(ratio), 1)), knee)
    squared = np.array([board.voltage.at(clock) ** 2 for clock in clocks_mhz])
    core_w = clocked_w * clocks_mhz / 1e3 + work_w / time
    power_w = board_w(board.power.constant_w, squared, core_w, memory_w / time)
    for each in zip(clocks_mhz, power_w, time, strict=True):
        clock_mhz, watts, relative = map(float, each)
        yield ClockPoint(
            load=load,
            sm_clock_mhz=int(clock_mhz),
            power_w=watts,
            power_u_w=0.003 * watts,
            rate_per_s=10.0 / relative,
        )
