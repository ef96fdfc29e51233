"""What a study tells those who watch: what each GPU measures, and how far it is.

Of a trial nothing is published while it is measured.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.trial import Trial
from joulelab.errors import JouleLabError, TrackingError, one_line
from joulelab.live.activity import ActivityFile, EndedTrial, Saving, TrialActivity
from joulelab.searching.base import Outcome
from joulelab.study.events import (
    AttemptFailed,
    DeviceQuarantined,
    StudyEvent,
    StudyStarted,
    TrialMeasured,
    TrialStarted,
    outcome_of,
)
from joulelab.tracking.study import RunningTrial, StudyState, Trouble, write_state

_log = logging.getLogger(__name__)
Done = Callable[[Sequence[Measurement]], None]


class Teller:
    """Tells what this process does on a GPU; where it cannot, the log says so once.

    It is published beside the clock guard at ``guard_socket``; ``None`` for the user's own.
    """

    def __init__(
        self, address: DeviceAddress, folder: Path, guard_socket: Path | None = None
    ) -> None:
        self._where = (address, folder, guard_socket)
        self._file: ActivityFile | None = None
        self._is_mute = False
        self._savings = Savings()

    @contextmanager
    def measuring(self, trial: Trial) -> Generator[Done]:
        """Tell of ``trial`` for the ``with`` block, which calls what it gets once it has ended."""
        self._tell(lambda now: replace(now, study=trial.study, trial=trial.name))
        measured: list[Measurement] = []
        try:
            yield measured.extend
        finally:
            self._tell(lambda now: self._ended(now, measured))

    def close(self) -> None:
        """Tell nothing any longer. Safe to call twice."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _ended(self, now: TrialActivity, measured: Sequence[Measurement]) -> TrialActivity:
        if not measured:
            return replace(now, trial=None)
        outcome = outcome_of(measured)
        return replace(
            now,
            trial=None,
            num_measured=now.num_measured + 1,
            last=_ended_trial(measured, outcome),
            saving=self._savings.add(outcome),
        )

    def _tell(self, change: Callable[[TrialActivity], TrialActivity]) -> None:
        if self._is_mute:
            return
        try:
            self._file = self._file or ActivityFile(*self._where)
            self._file.tell(replace(change(self._file.activity), since_unix_s=time.time()))
        except (JouleLabError, OSError) as error:  # nobody's measurement is to fail for that
            self._is_mute = True
            _log.warning("Other processes cannot see what is measured here: %s", error)


class Savings:
    """What the clocks tried on one board save there, of programs that differ in the clock alone."""

    def __init__(self) -> None:
        self._seen: defaultdict[Configuration, list[tuple[float, float]]] = defaultdict(list)

    def add(self, outcome: Outcome) -> Saving | None:
        """Take in what came of a trial; return what is saved with its knobs, if that is known."""
        if outcome.figures is not None:
            pair = (outcome.figures.energy_j, outcome.figures.time_s)
            self._seen[outcome.candidate].append(pair)
        default = replace(outcome.candidate, point=OperatingPoint())
        alike = {
            each.point: tuple(map(fmean, zip(*pairs, strict=True)))
            for each, pairs in self._seen.items()
            if replace(each, point=OperatingPoint()) == default
        }
        if default.point not in alike:
            return None
        best = min(alike, key=lambda point: alike[point])
        (energy_j, time_s), (usual_j, usual_s) = alike[best], alike[default.point]
        return Saving(
            point=best.label, energy_ratio=energy_j / usual_j, time_ratio=time_s / usual_s
        )


def _ended_trial(measured: Sequence[Measurement], outcome: Outcome) -> EndedTrial:
    trial, unit = measured[0].trial, measured[0].unit
    if outcome.figures is None:
        return EndedTrial(trial=trial, unit=unit, reason=outcome.reason)
    return EndedTrial(
        trial=trial,
        unit=unit,
        energy_j=sum(window.energy_j for m in measured for window in m.windows),
        energy_per_unit_j=outcome.figures.energy_j,
    )


MOST_RUNNING = 128
"""Trials at once up to which every event is written, which takes longer the more they are."""
_WRITE_S = 1.0


class StateKeeper:
    """Writes the state of a study with every event, if many run once a second; call it with each.

    ``on_event`` gets every event afterwards; ``clock`` returns seconds since 1970.
    """

    def __init__(
        self,
        study: str,
        folder: Path,
        on_event: Callable[[StudyEvent], None] = lambda event: None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        now = clock()
        self.state = StudyState(
            study=study, num_trials=None, num_done=0, since_unix_s=now, updated_unix_s=now
        )
        self._folder = folder
        self._on_event = on_event
        self._clock = clock
        self._is_mute = False
        self._written_unix_s = 0.0

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event, and pass it on."""
        changed = self._after(event)
        if changed is not self.state:
            self.state = replace(changed, updated_unix_s=self._clock())
            since_s = self.state.updated_unix_s - self._written_unix_s
            if len(self.state.running) <= MOST_RUNNING or since_s >= _WRITE_S:
                self._write()
        self._on_event(event)

    def close(self) -> None:
        """Write that nothing is measured any longer."""
        self.state = replace(self.state, running=(), updated_unix_s=self._clock())
        self._write()

    def _after(self, event: StudyEvent) -> StudyState:
        now = self.state
        match event:
            case StudyStarted():
                return replace(now, num_trials=event.num_trials, num_done=event.num_skipped)
            case TrialStarted():
                begun = RunningTrial(
                    uuid=event.uuid, trial=event.trial.name, since_unix_s=self._clock()
                )
                return replace(now, running=(*self._without(event.uuid), begun))
            case TrialMeasured():
                return self._ended(event)
            case AttemptFailed():
                failed = Trouble(what=event.trial.name, detail=one_line(event.detail))
                return replace(
                    self._ended(event),
                    failed=now.failed if event.retried else (*now.failed, failed),
                )
            case DeviceQuarantined():
                out = Trouble(what=event.uuid, detail=one_line(event.detail))
                return replace(
                    now,
                    running=self._without(event.uuid),
                    out_of_service=(*now.out_of_service, out),
                )
            case _:
                return now

    def _ended(self, event: TrialMeasured | AttemptFailed) -> StudyState:
        now = self.state
        return replace(
            now,
            running=self._without(event.uuid),
            num_done=now.num_done + (not event.retried),
            num_retries=now.num_retries + event.retried,
        )

    def _without(self, uuid: str) -> tuple[RunningTrial, ...]:
        return tuple(each for each in self.state.running if each.uuid != uuid)

    def _write(self) -> None:
        if self._is_mute:
            return
        self._written_unix_s = self.state.updated_unix_s
        try:
            write_state(self._folder, self.state)
        except TrackingError as error:  # whoever watches sees less; the results are elsewhere
            self._is_mute = True
            _log.warning("Whoever watches cannot see how far the study is: %s", error)
