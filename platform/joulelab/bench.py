"""The measuring procedure: the only code that may call a number a measurement.

Prepare the workload, put the operating point in force, let it settle, take the idle power in
the same process at the same clock, and then for every phase: warm up until steady, take windows
until they are precise enough, and judge them by the validity contract.
"""

import logging
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Self

from joulelab.core.configuration import Configuration
from joulelab.core.energy import EnergyWindow, more_windows
from joulelab.core.host_pace import HostPace
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record, Session, Verdict, record_of, voiding
from joulelab.core.trial import Trial
from joulelab.core.validity import trend_findings
from joulelab.devices.base import Device
from joulelab.devices.control import Control, OwnControl, applied
from joulelab.provenance import collect_provenance
from joulelab.sampling.ahead import Ahead
from joulelab.sampling.boards import BoardInstruments, Boards, group_identity
from joulelab.sampling.cuda_device import computing_on
from joulelab.sampling.host import FINDINGS, WorkloadHost, finding_of
from joulelab.sampling.readiness import Following, WarmUp, is_final, warm_up, why_again
from joulelab.sampling.spells import LONGEST_S, MeteringCost, metering_cost
from joulelab.sampling.window_loop import TimeSpan, WindowLoop
from joulelab.workloads.base import Workload

logger = logging.getLogger(__name__)

_PAUSE_S = 0.05
_FEWEST_TICKS = 2
"""A quick window of fewer ticks of the energy counter would rest on what is interpolated alone."""


class Bench:
    """Measures trials on one device, or on several together; keeps a workload ready for the next.

    Args:
        device: The device to measure.
        partners: Others of the same machine that the same program runs on; what they use is added.
        control: Who may turn its knobs; ``None`` means this process itself.
        procedure: How to measure.
        report: Called with what is being done next, in a few words, never within a window.
    """

    def __init__(
        self,
        device: Device,
        *,
        partners: Sequence[Device] = (),
        control: Control | None = None,
        procedure: Procedure | None = None,
        report: Callable[[str], object] = logger.debug,
    ) -> None:
        self._boards = Boards((device, *partners))
        self._clock = device.clock
        self._identity = group_identity(self._boards.devices)
        self._control: Control = OwnControl(device) if control is None else control
        self._procedure = procedure or Procedure()
        self._report = report
        self._host = WorkloadHost(device, partners)
        self._ahead = Ahead(self._host.hosted_on)
        self._following = Following(device.clock)
        self._pace = HostPace(device.clock, is_ours=not partners)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the workload that is kept ready. Safe to call twice."""
        self._ahead.close()
        with self._computing():
            self._host.close()

    def expect(self, configuration: Configuration | None) -> None:
        """Note what is measured after the present trial, to read ahead for it; any thread may."""
        self._ahead.expect(configuration)

    def prepared(self, configuration: Configuration) -> Workload[Any]:
        """Return the workload of ``configuration``, prepared; the one kept ready if it is that.

        Raises:
            ConfigError: If the device cannot run it as asked for.
            MeasurementError: If its preparation failed.
        """
        with self._computing():
            workload = self._host.make(configuration)
            self._host.prepare()
        return workload

    def hosted(self, configuration: Configuration) -> Workload[Any]:
        """Return what :meth:`prepared` does as it runs here: itself, or what stands for it."""
        self.prepared(configuration)
        return self._host.hosted

    def measure(self, trial: Trial, *, procedure: Procedure | None = None) -> tuple[Record, ...]:
        """Measure every phase of a trial's workload at its operating point.

        A phase that could not be measured, or whose numbers must not be believed, comes back
        as an invalid measurement with the reasons; nothing is raised for it. Invalid phases
        have no windows if the device was lost, the lease ended, permission was refused, the guard's
        policy forbids the point, something else was set that may not be undone, or the workload
        failed.

        Args:
            trial: What to measure.
            procedure: How to measure this one; by default as all.

        Returns:
            One record per phase, in the workload's order.

        Raises:
            ConfigError: If the trial asks for what cannot be: a wrong knob, a clock that is
                not on the device's grid, a point under observe-only.
            DeviceNotFoundError: If PyTorch sees GPUs, and this is none of them.
            DeviceUnsupportedError: If the device has no such knob.
        """
        usual, asked = self._procedure, trial.configuration
        found: dict[str, Record] = {}
        try:
            with self._computing():
                phases = self._host.make(asked).phases
                for how, tried in self._following.procedures(asked, phases, procedure or usual):
                    final = {phase for phase, record in found.items() if is_final(record)}
                    if final >= set(phases) and found:
                        break
                    self._procedure = how
                    records = self._measure(trial, final | (set(phases) - set(tried)))
                    self._following.ended(asked, records)
                    found |= {record.measurement.phase: record for record in records}
                    _log_again(trial, records)
                known = (phase for phase in phases if phase in found)
                return tuple(found[phase] for phase in dict.fromkeys((*known, *found)))
        finally:
            self._procedure = usual

    def metering_cost(
        self, configuration: Configuration, phase: str, longest_s: float = LONGEST_S
    ) -> MeteringCost:
        """Return what metering costs the pace of a phase, in ``longest_s`` and a pair at most.

        Raises:
            JouleLabError: If the program fails, or the point cannot be put in force.
        """
        with self._computing(), applied(self._control, self._in_force(configuration.point)):
            self.prepared(configuration)
            metered = partial(self._boards.looked_at, self._procedure)
            return metering_cost(self._clock, partial(self._host.run, phase), metered, longest_s)

    def _measure(self, trial: Trial, done: Set[str]) -> tuple[Record, ...]:
        """Measure the phases of a trial but ``done``; some are known once it is prepared."""
        workload = self._host.make(trial.configuration)
        session = Session(
            trial=trial,
            unit=workload.unit,
            device=self._identity,
            provenance=collect_provenance(
                weights=_weights(trial.configuration), licence=workload.licence
            ),
        )
        records: list[Record] = []
        phases = [each for each in workload.phases if each not in done]
        try:
            self._report(f"Preparing {trial.configuration.workload}")
            if not self._host.is_prepared:
                self._ahead.close()
                self._host.prepare()
            phases = [each for each in self._host.phases if each not in done]
            self._cool_down()
            self._procedure = self._following.prepared(self._procedure)
            session.pace = self._procedure.pace or session.pace
            with applied(self._control, self._in_force(trial.configuration.point)) as receipt:
                session.receipt = receipt
                self._measure_phases(session, phases, records)
        except FINDINGS as error:
            finding = finding_of(error)
            logger.warning("%s: %s: %s", trial.name, finding.reason, finding.detail)
            records += [
                record_of(session, phase, Verdict(findings=(finding,)))
                for phase in phases[len(records) :]
            ]
        return tuple(records)

    def _measure_phases(
        self, session: Session, phases: Sequence[str], records: list[Record]
    ) -> None:
        point = session.trial.configuration.point
        self._report(f"Settling at {point.label}")
        with self._boards.watched(self._procedure, point, self._in_force(point)) as instruments:
            self._ahead.ready(session.trial.configuration)
            session.idle = self._idle(instruments)
            for phase in phases:
                self._ahead.ready(session.trial.configuration)  # it may be known by now
                try:
                    verdict = self._measure_phase(phase, instruments)
                    known = () if voiding(verdict.findings) else verdict.windows
                    figures = self._host.figures(known) if known else ()
                    recording = self._host.recording
                    records.append(record_of(session, phase, verdict, figures, recording))
                finally:
                    self._host.rest()
                self._procedure = self._following.next_phase(self._procedure)

    def _computing(self) -> AbstractContextManager[None]:
        """Have PyTorch of this process compute on the device; on several, others do it."""
        if len(self._boards.devices) > 1:
            return nullcontext()
        return computing_on(self._identity.uuid)

    def _in_force(self, point: OperatingPoint) -> OperatingPoint:
        """Return what is to be in force for ``point``, with the limit that the procedure has."""
        limit_w = point.power_limit_w or self._procedure.power_limit_w
        return replace(point, power_limit_w=limit_w)

    def _cool_down(self) -> None:
        below_c = self._procedure.start_below_c
        if below_c is not None:
            self._report(f"Cooling down below {below_c:g} C")
            self._boards.cool_down(below_c=below_c, limit_s=self._procedure.cool_max_s)

    def _idle(self, instruments: BoardInstruments) -> EnergyWindow | None:
        if self._procedure.idle_s == 0:
            return None
        self._report(f"Idle for {self._procedure.idle_s:g} s")
        loop = WindowLoop(self._clock, self._pause, instruments, instruments.check)
        return instruments.idle(loop.windows(1, self._procedure.idle_s)[0])

    def _pause(self) -> float:
        self._clock.sleep_s(_PAUSE_S)
        return 0.0

    def _measure_phase(self, phase: str, instruments: BoardInstruments) -> Verdict:
        run_unit = self._pace.between(partial(self._host.run, phase))
        loop = WindowLoop(self._clock, run_unit, instruments, instruments.check)
        self._report(f"{phase}: warming up")
        start_s, is_quick = self._clock.now_s(), self._procedure.pace == "quick"
        warmup = warm_up(loop, instruments.lead, self._clock, self._procedure)
        instruments.count_activity()
        with self._ahead.halted():
            intervals = self._take_windows(phase, loop, instruments, warmup)
            if is_quick and warmup.steady and trend_findings(instruments.windows(intervals)[0]):
                # As where a power limit lowered the clock meanwhile: these have warmed it up.
                warmup = replace(warmup, duration_s=self._clock.now_s() - start_s)
                instruments.count_activity()
                intervals = self._take_windows(phase, loop, instruments, warmup)
        warmup = warmup.confirmed(loop.within(intervals))
        self._following.warmed_up(phase, warmup)
        self._host.pids()
        verdict = instruments.judge(
            intervals, own_pids=self._host.own_pids, pids_on=self._host.pids_on, warmup=warmup
        )
        disturbed = self._pace.disturbed_share(intervals[0].start_s, intervals[-1].stop_s)
        return verdict.without_memory(self._host.kept_b).observing(host_disturbed_share=disturbed)

    def _take_windows(
        self, phase: str, loop: WindowLoop, instruments: BoardInstruments, warmup: WarmUp
    ) -> list[TimeSpan]:
        procedure, start_s = self._procedure, self._clock.now_s()
        window_s = procedure.window_s
        watched_s: float | None = None
        if procedure.pace == "quick":  # ticks were timed at the end of the warm-up
            window_s = max(window_s - loop.unit_s / 2, _FEWEST_TICKS * instruments.lead.tick_s)
            watched_s = start_s - warmup.duration_s
        intervals: list[TimeSpan] = []
        num_windows = procedure.min_windows
        while num_windows > 0:
            self._report(f"{phase}: {num_windows} windows of {window_s:g} s")
            intervals += loop.windows(num_windows, window_s, watched_s=watched_s)
            self._control.require_held()
            windows, findings = instruments.windows(intervals)
            if findings:
                break
            took_s = self._clock.now_s() - start_s
            affordable = int((procedure.limit_s - took_s) * len(intervals) / took_s)
            num_windows = min(more_windows(windows, procedure.relative_ci), affordable)
        return intervals


def _log_again(trial: Trial, records: Sequence[Record]) -> None:
    for record in records:
        if why := why_again(record):
            phase = record.measurement.phase
            logger.info("%s, %s: from rest again: %s", trial.name, phase, why)


def _weights(configuration: Configuration) -> str | None:
    knobs = dict(configuration.knobs)
    return str(knobs["weights"] or "random") if "weights" in knobs else None
