"""What a phase comes to on a simulated board that nobody slows down by measuring it.

The same board, governor and heat as behind a simulated device, but time passes only in the
arithmetic, so that a table of workloads takes seconds.
"""

from dataclasses import dataclass

from joulelab.core.cost import Data, PhaseCost
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.engine import Engine
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.devices.simulated.store import Settings
from joulelab.errors import ConfigError
from joulelab.hardware import GpuSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """A phase executed over and over at the driver's own clocks.

    Attributes:
        energy_per_unit_j: Energy per unit of work, idle power included.
    """

    time_per_unit_s: float
    energy_per_unit_j: float
    power_w: float
    clock_mhz: float


def steady_load(
    spec: GpuSpec,
    phase: PhaseCost,
    *,
    data: Data = "random",
    board: Board | None = None,
    warmup_s: float = 2.0,
    window_s: float = 2.0,
) -> SteadyLoad:
    """Return what ``phase`` costs on a board of kind ``spec`` after a warm-up.

    By default the board is exactly its kind. ``window_s``, the time that counts, is up to 4 s.

    Raises:
        ConfigError: If a kernel needs a pipe that the GPU lacks, or the times are not positive.
    """
    if not (warmup_s > 0 and 0 < window_s <= 4):
        raise ConfigError(
            f"warmup_s must be positive and window_s within 0 and 4, got {warmup_s}, {window_s}."
        )
    engine = Engine(spec, board or Board(seed=0), 0.0)
    engine.adopt(Settings(), at_once=True)
    engine.hold_context(True)
    scale = 1.0 if board is None else board.voltage_scale
    engine.run(PhaseModel(spec, phase, data=data, voltage_scale=scale))
    engine.advance(warmup_s)
    done, stop_s = engine.work, warmup_s + window_s
    engine.advance(stop_s)
    work = (engine.work - done) * phase.work
    power_w = engine.history.power_w(stop_s, window_s)
    return SteadyLoad(
        time_per_unit_s=window_s / work,
        energy_per_unit_j=power_w * window_s / work,
        power_w=power_w,
        clock_mhz=float(engine.governor.clock_mhz),
    )
