"""Keep beside a study's measurements how far it is."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from joulelab.errors import TrackingError, one_line
from joulelab.study.events import (
    AttemptFailed,
    DeviceQuarantined,
    StudyEvent,
    StudyStarted,
    TrialMeasured,
    TrialStarted,
)
from joulelab.tracking.study import RunningTrial, StudyState, Trouble, write_state

_log = logging.getLogger(__name__)


class StateKeeper:
    """Writes the state of a study with every event; call it with each.

    Args:
        study: Name of the study.
        folder: Its results folder.
        on_event: Told every event afterwards.
        clock: Returns seconds since 1970.
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

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event, and pass it on."""
        changed = self._after(event)
        if changed is not self.state:
            self.state = replace(changed, updated_unix_s=self._clock())
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
        try:
            write_state(self._folder, self.state)
        except TrackingError as error:  # whoever watches sees less; the results are elsewhere
            self._is_mute = True
            _log.warning("Whoever watches cannot be told how far the study is: %s", error)
