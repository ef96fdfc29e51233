"""The boards of one trial, watched together: their energies apart, and their sum."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import hypot
from typing import Any

import numpy as np
from typing_extensions import override

from joulelab.core.device import Activity, DeviceIdentity
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Board, Finding, Observed
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.record import Verdict
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import ActivityProbe, Device
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.meter import Edges, find_ticks
from joulelab.sampling.readiness import WarmUp, cool_down, settle
from joulelab.sampling.tick_tracker import TickTracker
from joulelab.sampling.verdict import Treatment, energy_windows, judge
from joulelab.sampling.window_loop import TimeSpan


@dataclass(slots=True, kw_only=True)
class _Watched:
    device: Device
    instruments: Instruments
    treatment: Treatment
    idle: EnergyWindow | None = None
    probe: ActivityProbe | None = None


class Boards:
    """The devices of one trial, on one clock; the first leads, and is the whole where it is alone.

    Args:
        devices: All of one machine and one product.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        # Counting two boards in one process crashed in an H100's driver (devices/nvml_state.py);
        # that one at a time does not is yet to be seen on real ones.
        self._counts_activity = len(devices) == 1
        self._ticks = [TickTracker() for _ in devices]

    def cool_down(self, *, below_c: float, limit_s: float) -> None:
        """Wait until each is below ``below_c``; DeviceHotError if one is not after ``limit_s``."""
        for device in self.devices:
            cool_down(device, below_c=below_c, limit_s=limit_s)

    @contextmanager
    def looked_at(self, procedure: Procedure) -> Generator[list[Instruments]]:
        """Have the instruments of all look in a ``with`` block."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    Instruments(
                        device, procedure, tracker=ticks, counts_activity=self._counts_activity
                    )
                )
                for device, ticks in zip(self.devices, self._ticks, strict=True)
            ]

    @contextmanager
    def watched(
        self, procedure: Procedure, point: OperatingPoint, in_force: OperatingPoint
    ) -> Generator["BoardInstruments"]:
        """Watch all of them, settled at ``point``, within a ``with`` block."""
        for device, ticks in zip(self.devices, self._ticks, strict=True):
            find_ticks(device, ticks)
        with self.looked_at(procedure) as instruments:
            # Right after another point a warm-up under load is longer than two ticks.
            is_from_rest = procedure.pace == "reference"
            ticks_s = 2 * max(each.tick_s for each in instruments) if is_from_rest else 0.0
            for device in self.devices:
                is_last = device is self.devices[-1]
                settle(device, point, wait_s=procedure.settle_s + ticks_s if is_last else 0.0)
            since_s = self.devices[0].clock.now_s()
            yield BoardInstruments(
                [
                    _Watched(
                        device=device,
                        instruments=each,
                        treatment=Treatment(
                            point=point,
                            in_force=in_force,
                            capabilities=device.capabilities(),
                            since_s=since_s,
                        ),
                    )
                    for device, each in zip(self.devices, instruments, strict=True)
                ]
            )


class BoardInstruments(Edges):
    """The instruments of all boards; an edge is bracketed when it is on each."""

    def __init__(self, boards: Sequence[_Watched]) -> None:
        self._boards = boards
        self._all = [board.instruments for board in boards]

    @property
    def lead(self) -> Instruments:
        """Instruments of the first board."""
        return self._all[0]

    @property
    @override
    def margin_s(self) -> float:
        return max(each.margin_s for each in self._all)

    @override
    def expect_edge(self, at_s: float) -> None:
        for each in self._all:
            each.expect_edge(at_s)

    @override
    def mark_edge(self, at_s: float) -> None:
        for each in self._all:
            each.mark_edge(at_s)

    @override
    def bracketed(self, since_s: float) -> bool:
        return all(each.bracketed(since_s) for each in self._all)

    def check(self) -> None:
        """Raise what has gone wrong in the background, if anything."""
        for each in self._all:
            each.check()

    def idle(self, interval: TimeSpan) -> EnergyWindow | None:
        """Take an interval as that of idling, and return its energy; ``None`` if it is unknown."""
        for board in self._boards:
            windows, _ = energy_windows(board.instruments.readings(), [interval])
            board.idle = windows[0] if windows else None
        found = [board.idle for board in self._boards if board.idle is not None]
        return summed(found) if len(found) == len(self._boards) else None

    def count_activity(self) -> None:
        """Count activity from now on, of one board alone and where it can be counted."""
        for board in self._boards if len(self._boards) == 1 else ():
            has_activity = board.treatment.capabilities.has_activity
            board.probe = board.device.activity() if has_activity else None

    def windows(
        self, intervals: Sequence[TimeSpan]
    ) -> tuple[tuple[EnergyWindow, ...], tuple[Finding, ...]]:
        """Return what all boards used in every interval; or none, and the findings that say why."""
        found = [energy_windows(each.readings(), intervals) for each in self._all]
        findings = tuple(finding for _, each in found for finding in each)
        return _sums([windows for windows, _ in found]), findings

    def judge(
        self,
        intervals: Sequence[TimeSpan],
        *,
        own_pids: frozenset[int],
        pids_on: Callable[[Device], frozenset[int]],
        warmup: WarmUp,
    ) -> Verdict:
        """Apply the validity contract to each board: the sum is valid only if every one is."""
        verdicts = []
        for board in self._boards:
            readings = board.instruments.readings()
            verdict = judge(
                readings,
                intervals,
                board.treatment,
                own_pids=own_pids,
                last_pids=pids_on(board.device),
                warmup=warmup,
                activity=Activity() if board.probe is None else board.probe.read(),
                sampler_share=board.instruments.cpu_share(readings.log),
            )
            verdicts.append(verdict)
        if len(verdicts) == 1:
            return verdicts[0]
        return self._combined(verdicts)

    def _combined(self, verdicts: Sequence[Verdict]) -> Verdict:
        boards = tuple(
            Board(
                device=watched.device.identity(),
                windows=verdict.windows,
                idle=watched.idle,
                observed=verdict.observed,
                findings=verdict.findings,
            )
            for watched, verdict in zip(self._boards, verdicts, strict=True)
        )
        return Verdict(
            windows=_sums([board.windows for board in boards]),
            observed=_observed([board.observed for board in boards]),
            findings=tuple(
                Finding(reason=each.reason, detail=f"{board.device.uuid}: {each.detail}")
                for board in boards
                for each in board.findings
            ),
            trace=_trace([verdict.trace for verdict in verdicts]),
            course=verdicts[0].course,
            boards=boards,
        )


def group_identity(devices: Sequence[Device]) -> DeviceIdentity:
    """Return what results call the boards of a trial: the first, by how many it stands for."""
    return devices[0].identity().leading(len(devices))


def summed(windows: Sequence[EnergyWindow]) -> EnergyWindow:
    """Return what boards used together in the same interval; their errors are independent."""
    starts_u_j = [each.start_u_j for each in windows if each.start_u_j is not None]
    return replace(
        windows[0],
        energy_j=sum(each.energy_j for each in windows),
        energy_u_j=hypot(*(each.energy_u_j for each in windows)),
        start_u_j=hypot(*starts_u_j) if len(starts_u_j) == len(windows) else None,
    )


def _sums(of_boards: Sequence[Sequence[EnergyWindow]]) -> tuple[EnergyWindow, ...]:
    """Sum windows over boards; none if one board has none."""
    if not all(of_boards):
        return ()
    return tuple(summed(windows) for windows in zip(*of_boards, strict=True))


_ADDED = ("memory_power_w", "samples_energy_j", "memory_used_b", "power_limit_w", "sampler_share")
_WORST = ("temperature_start_c", "temperature_stop_c", "power_cap_share", "thermal_share")


def _observed(boards: Sequence[Observed]) -> Observed:
    """Return what was seen of the first board, with sums and worst values over all."""
    found: dict[str, Any] = {}
    for names, combine in ((_ADDED, sum), (_WORST, max)):
        for name in names:
            values = [getattr(board, name) for board in boards]
            found[name] = None if None in values else combine(values)
    return replace(boards[0], **found)


def _trace(traces: Sequence[PowerTrace | None]) -> PowerTrace | None:
    """Return the power of all boards at the samples of the first, where all have been sampled."""
    known = [trace for trace in traces if trace is not None]
    if len(known) < len(traces):
        return None
    start_s, stop_s = max(t.t_s[0] for t in known), min(t.t_s[-1] for t in known)
    t_s = known[0].t_s[(known[0].t_s >= start_s) & (known[0].t_s <= stop_s)]
    if len(t_s) < 2:
        return None
    power_w = np.sum([np.interp(t_s, trace.t_s, trace.power_w) for trace in known], axis=0)
    return PowerTrace(t_s=t_s, power_w=power_w)
