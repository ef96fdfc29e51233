"""One GPU while a monitor is open: what it drew, and what it drew that in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from joulelab.core.counter import EnergyCounter
from joulelab.core.curve import EnergyCurve
from joulelab.core.device import DeviceState, EventReason, Look
from joulelab.core.energy import EnergySource
from joulelab.core.measurement import Finding
from joulelab.core.point import OperatingPoint
from joulelab.core.settings import setting_findings
from joulelab.core.trace import PowerTrace
from joulelab.core.validity import conduct_findings, conduct_of, process_findings, trace_findings
from joulelab.devices.base import Device
from joulelab.errors import DeviceLostError, MeasurementError
from joulelab.monitor.sensors import OwnProcesses, Sensors
from joulelab.monitor.window import VOIDING, GpuUse
from joulelab.sampling.sampler import SampleLog

SHORTEST_S = 0.05
FEWEST_SAMPLES = 2.5
"""A window must be longer than the time between so many samples."""
PATIENCE_S = 2.0
"""How long samples are waited for that pass the end of a window."""
HELD_DOWN = ("throttled", "power_capped")
"""What counts of a GPU's conduct; its temperature and clock may do in a window as they please."""
_LOOK_S = 0.01


@dataclass(slots=True, kw_only=True, eq=False)
class Span:
    """A window on one GPU, whatever its length.

    What it used up to :attr:`counted_s` is known already, so that samples from before can go.
    """

    start_s: float  # when it began, on the GPU's clock
    stop_s: float = float("inf")
    counted_s: float = 0.0  # up to when it was counted
    counted_j: float = 0.0  # energy up to then
    counted_u_j2: float = 0.0  # square of its standard uncertainty
    source: EnergySource | None = None  # where the last of it came from
    peak_w: float | None = None
    seen: bool = False  # whether this program was seen on the GPU
    early: bool = False  # whether it may begin with the samples, if those begin after it
    findings: dict[Finding, None] = field(default_factory=dict)  # what was found up to then

    def __post_init__(self) -> None:
        self.counted_s = self.start_s


class GpuWatch:
    """Tells what a GPU used between two instants, from sensors that several may listen to.

    ``own`` says which processes on it are this program's, ``requested`` what was put in force.
    """

    def __init__(
        self, sensors: Sensors, own: OwnProcesses, requested: OperatingPoint | None = None
    ) -> None:
        self.device = device = sensors.device
        self._sensors = sensors
        self.clock = device.clock
        self.identity = device.identity()
        self._own = own
        self._requested = requested or OperatingPoint()
        self._capabilities = device.capabilities()

    def start(self) -> None:
        """Sample until :meth:`stop`."""
        self._sensors.listen(self._note)

    def stop(self) -> None:
        """Sample no more. Safe to call twice."""
        self._sensors.leave(self._note)

    def anchor(self) -> None:
        """Have the counter's next tick timed, so that what ends now is brought to its level."""
        if self._sensors.meter is not None:
            self._sensors.meter.mark_edge(self.clock.now_s())

    def count(self, spans: Sequence[Span]) -> None:
        """Count what open spans have used so far; must be called every few minutes."""
        self._count(spans, self._log_until(-float("inf")))

    def uses(self, spans: Sequence[Span]) -> list[GpuUse]:
        """Return what spans that have ended used; waits until the samples have passed them."""
        try:
            log = self._log_until(max(span.stop_s for span in spans))
            self._count(spans, log)
        except (DeviceLostError, MeasurementError) as error:
            lost = isinstance(error, DeviceLostError)
            finding = Finding(reason="device_lost" if lost else "sample_gap", detail=str(error))
            for span in spans:
                span.findings[finding] = None
            return [self._use(span, ()) for span in spans]
        return [self._use(span, log.looks) for span in spans]

    def _note(self, pids: frozenset[int]) -> None:
        self._own.note(self.identity.uuid, pids)

    def _log_until(self, at_s: float) -> SampleLog:
        give_up_s = self.clock.now_s() + PATIENCE_S
        while True:
            log = self._sensors.sampler.log()
            passed = log.trace is not None and log.trace.t_s[-1] >= at_s
            if passed or self.clock.now_s() > give_up_s:
                return log
            self.clock.sleep_s(_LOOK_S)

    def _count(self, spans: Sequence[Span], log: SampleLog) -> None:
        trace = log.trace
        if trace is None or len(trace) < 2:
            return
        meter = self._sensors.meter
        counter = None if meter is None else EnergyCounter(meter.polls())
        curve = EnergyCurve(trace, None if counter is None else counter.ticks)
        spacing_s = float(np.median(np.diff(trace.t_s)))
        for span in spans:
            if span.early and span.counted_s < trace.t_s[0] < span.stop_s:
                span.start_s = span.counted_s = float(trace.t_s[0])
            span.early = False
            until_s = min(span.stop_s, float(trace.t_s[-1]))
            if until_s <= span.counted_s:
                continue
            found = self._findings(span, until_s, log, counter, spacing_s)
            for finding in (*found, *curve.findings(span.counted_s, until_s)):
                span.findings[finding] = None
            if trace.spans(span.counted_s, until_s):
                window = curve.window(span.counted_s, until_s)
                span.counted_j += window.energy_j
                span.counted_u_j2 += window.energy_u_j**2
                span.peak_w = max(span.peak_w or 0.0, _peak_w(trace, span.counted_s, until_s))
                span.counted_s, span.source = until_s, window.source

    def _findings(
        self,
        span: Span,
        until_s: float,
        log: SampleLog,
        counter: EnergyCounter | None,
        spacing_s: float,
    ) -> list[Finding]:
        from_s, point = span.counted_s, self._requested
        found = list(trace_findings(log.trace, from_s, until_s))
        if span.stop_s - span.start_s <= max(SHORTEST_S, FEWEST_SAMPLES * spacing_s):
            found.append(_too_short(span.stop_s - span.start_s, spacing_s))
        if counter is not None:
            found += counter.findings(from_s, until_s)
        found += setting_findings(log.looks, point, self._capabilities, from_s, until_s)
        conduct = conduct_of(log.looks, point, from_s, until_s)
        if conduct is not None:
            held = conduct_findings(conduct, point)
            found += [finding for finding in held if finding.reason in HELD_DOWN]
        looks = [look.pids for look in log.slow_looks if from_s <= look.at_s <= until_s]
        pids, own = frozenset().union(*looks), self._own.pids(self.device)
        span.seen |= bool(pids & own)
        found += process_findings(pids, own)
        return found

    def _use(self, span: Span, looks: Sequence[Look]) -> GpuUse:
        if span.stop_s <= span.start_s:
            span.findings[_no_time(self.identity.name)] = None
        elif span.counted_s < span.stop_s and not any(f.reason in VOIDING for f in span.findings):
            span.findings[_unseen(span, self.device)] = None
        findings = tuple(span.findings)
        known = not any(finding.reason in VOIDING for finding in findings)
        states = [look.state for look in looks if span.start_s <= look.at_s <= span.stop_s]
        hot_c = [state.temperature_c for state in states if state.temperature_c is not None]
        used_b = [state.memory_used_b for state in states if state.memory_used_b is not None]
        return GpuUse(
            uuid=self.identity.uuid,
            name=self.identity.name,
            duration_s=span.stop_s - span.start_s,
            known_energy_j=span.counted_j if known else None,
            known_energy_u_j=span.counted_u_j2**0.5 if known else None,
            source=span.source if known else None,
            peak_power_w=span.peak_w if known else None,
            seen=span.seen,
            sm_clock_mhz=_working_clock_mhz(states),
            temperature_c=max(hot_c, default=None),
            memory_used_b=max(used_b, default=None),
            findings=findings,
        )


def _working_clock_mhz(states: Sequence[DeviceState]) -> float | None:
    """Return the median clock of the looks while which kernels ran; of all looks if none did.

    A board without a kernel goes down to its lowest clock, which says nothing of the program.
    """
    working = [state for state in states if not state.event_reasons & EventReason.IDLE]
    clocks_mhz = [state.sm_clock_mhz for state in working or states]
    return median(clocks_mhz) if clocks_mhz else None


def _peak_w(trace: PowerTrace, start_s: float, stop_s: float) -> float:
    """Return the highest sample of an interval, or power at its ends where none is within."""
    within = trace.power_w[(trace.t_s >= start_s) & (trace.t_s <= stop_s)]
    ends = np.interp([start_s, stop_s], trace.t_s, trace.power_w)
    return float(np.max(within if within.size else ends))


def _too_short(duration_s: float, spacing_s: float) -> Finding:
    needed_s = max(SHORTEST_S, FEWEST_SAMPLES * spacing_s)
    return Finding(
        reason="too_short",
        detail=f"A window must be longer than {needed_s:.3f} s for power samples that come every "
        f"{spacing_s:.3f} s, but is {duration_s:.4f} s long; put more work into it.",
    )


def _no_time(name: str) -> Finding:
    return Finding(
        reason="too_short",
        detail=f"A window must take time, but none passed on the clock of {name}; what it plays "
        "must be played within the window.",
    )


def _unseen(span: Span, device: Device) -> Finding:
    seen = f"ended {span.stop_s - span.counted_s:.2f} s before it"
    if span.counted_s == span.start_s:
        seen = "there were none in it"
        if not device.is_hardware:
            seen += "; a recording has none where it holds no power at rest"
    return Finding(
        reason="sample_gap", detail=f"Power samples must pass the end of the window, but {seen}."
    )
