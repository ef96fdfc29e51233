"""What the meter read of a phase, with the drift that attribution can bear."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from joulelab.core.energy import mean_u_j
from joulelab.core.measurement import Measurement
from joulelab.core.record import voiding
from joulelab.errors import MeasurementError

REPEATS_U = 0.002
"""What repeats of a program on one board differ by, relative, beyond what windows of one show: ten
loads of an H100, whose seconds in 60 spells scattered by 0.3 % at least, of which single seconds
explain 0.2 (experiments/results/h100_windows)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """Energy and time per unit of work."""

    energy_j: float
    # Its standard uncertainty, of repeats too, where its time is known: windows that took longer
    # used more static energy, which is no scatter of what kernels take.
    energy_u_j: float
    time_s: float
    note: str = ""  # what is not as it should be, in a sentence; empty if all is

    @classmethod
    def of(cls, read: Measurement, static_w: float) -> "Metered":
        """Return what was read of a phase.

        Raises MeasurementError if a finding voids it; says which.
        """
        require_metered(read)
        work = sum(window.work for window in read.windows)
        dynamic_j = [(w.energy_j - static_w * w.duration_s) / w.work for w in read.windows]
        energy_j = sum(window.energy_j for window in read.windows) / work
        seen_u_j = max(mean_u_j(read.windows, dynamic_j))
        return cls(
            energy_j=energy_j,
            energy_u_j=float(np.hypot(seen_u_j, REPEATS_U * energy_j)),
            time_s=sum(window.duration_s for window in read.windows) / work,
            note=" ".join(f"{read.phase}: {finding.detail}" for finding in read.findings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What the meter read of all phases on one board."""

    measured: Mapping[str, Measurement]
    metered: Mapping[str, Metered]
    static_w: float  # power at rest
    static_u_w: float

    @classmethod
    def of(cls, measured: Mapping[str, Measurement], static_u: float) -> "Readings":
        """Return what was read; ``static_u`` and errors are those of :func:`static_power`."""
        static_w, static_u_w = static_power(measured, static_u)
        return cls(
            measured=measured,
            metered={phase: Metered.of(read, static_w) for phase, read in measured.items()},
            static_w=static_w,
            static_u_w=static_u_w,
        )

    @property
    def notes(self) -> list[str]:
        """What is not as it should be, in sentences."""
        return [each.note for each in self.metered.values() if each.note]


def by_board(measured: Mapping[str, Measurement], num_boards: int) -> list[dict[str, Measurement]]:
    """Return what was measured on each board; where boards were not metered apart, the whole."""
    return [
        {name: _on_board(one, board) for name, one in measured.items()}
        for board in range(num_boards)
    ]


def _on_board(measured: Measurement, number: int) -> Measurement:
    if not measured.boards:
        return measured
    board = measured.boards[number]
    return replace(
        measured,
        device=board.device,
        windows=board.windows,
        idle=board.idle,
        observed=board.observed,
        findings=board.findings,
        boards=(),
    )


def require_metered(read: Measurement) -> None:
    """Raise :class:`MeasurementError`, which says why, if a finding voids what was read."""
    found = voiding(read.findings)
    if found or not read.windows:
        reasons = "; ".join(map(str, found))
        raise MeasurementError(f"{read.phase} could not be metered: {reasons}")


def static_power(measured: Mapping[str, Measurement], u: float) -> tuple[float, float]:
    """Return the power at rest, in watts, and its standard uncertainty.

    ``u`` is how far power at rest is from static power under load, relative. Raises
    MeasurementError if a phase could not be metered, or power at rest was not measured.
    """
    for read in measured.values():
        require_metered(read)
    idle = next((each.idle for each in measured.values() if each.idle is not None), None)
    if idle is None:
        raise MeasurementError("Attribution needs idle power; measure with idle_s above 0.")
    return idle.power_w, float(np.hypot(idle.power_u_w, u * idle.power_w))
