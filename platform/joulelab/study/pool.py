"""Those who measure the trials of a study; here, this process, on one GPU after another."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from joulelab.core.trial import Trial
from joulelab.errors import ConfigError, JouleLabError, TrackingError
from joulelab.study.events import (
    DeviceQuarantined,
    DeviceReady,
    PoolEvent,
    TrialStarted,
)
from joulelab.study.gpu import StudyGpu
from joulelab.study.schedule import (
    NothingMore,
    Schedule,
    TrialSource,
    after_failing,
    after_measuring,
)
from joulelab.study.worker import GpuWorker, WorkerSettings


class WorkerPool(Protocol):
    """Measures trials on the GPUs of a study; each result is stored before anybody is told."""

    def run(
        self,
        trials: Sequence[Trial],
        source: TrialSource | None = None,
        *,
        untied: Collection[str] = (),
        must_stop: Callable[[], bool] = ...,
    ) -> Iterator[PoolEvent]:
        """Measure ``trials``, then those of ``source``; what happens is yielded as it happens.

        Args:
            trials: In the order in which to measure them.
            source: Where more come from; asked again after every event.
            untied: GPUs that are to begin with a sentinel.
            must_stop: Asked between trials at the latest.

        Raises:
            TrackingError: If results cannot be stored.
        """
        ...

    @property
    def unfinished(self) -> tuple[Trial, ...]:
        """Trials of the last run that no GPU was left for."""
        ...

    def close(self) -> None:
        """Give the GPUs back at their former settings. Safe to call twice."""
        ...


class LocalPool:
    """Measures in this process: a trial at a time, the GPUs by turns.

    Args:
        gpus: The GPUs.
        settings: How to measure, and where to write.
        max_tries: How often a trial is tried in all.
        max_strikes: Failures in a row that put a GPU out of service.

    Raises:
        ConfigError: If there are no GPUs.
    """

    def __init__(
        self,
        gpus: Sequence[StudyGpu],
        settings: WorkerSettings,
        *,
        max_tries: int = 3,
        max_strikes: int = 3,
    ) -> None:
        if not gpus:
            raise ConfigError("A study needs at least one GPU, got none.")
        self._gpus: Mapping[str, StudyGpu] = {gpu.uuid: gpu for gpu in gpus}
        self._workers = {gpu.uuid: GpuWorker(gpu.address, settings) for gpu in gpus}
        self._limits = {"max_tries": max_tries, "max_strikes": max_strikes}
        self._schedule = Schedule([], [])

    def run(
        self,
        trials: Sequence[Trial],
        source: TrialSource | None = None,
        *,
        untied: Collection[str] = (),
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[PoolEvent]:
        """Measure ``trials``, then those of ``source``; what happens is yielded as it happens.

        Args:
            trials: In the order in which to measure them.
            source: Where more come from.
            untied: GPUs that are to begin with a sentinel.
            must_stop: Asked before each trial.

        Raises:
            TrackingError: If what was measured cannot be stored.
        """
        self._schedule = Schedule(trials, self._workers, untied=untied, **self._limits)
        source = source or NothingMore()
        for uuid in self._workers:
            yield self._opened(uuid)
        was_idle = False
        while not was_idle and (self._schedule.unfinished or not source.is_done):
            was_idle = True
            for uuid in [each for each in self._workers if each in self._schedule.in_service]:
                if must_stop():
                    return
                if (trial := self._schedule.take_next(uuid, source)) is not None:
                    was_idle = False
                    yield TrialStarted(trial=trial, uuid=uuid)
                    yield from self._attempt(trial, uuid)

    @property
    def unfinished(self) -> tuple[Trial, ...]:
        """Trials of the last run that no GPU was left for."""
        return self._schedule.unfinished

    def close(self) -> None:
        """Give the GPUs back at their former settings. Safe to call twice."""
        for worker in self._workers.values():
            worker.close()

    def _opened(self, uuid: str) -> PoolEvent:
        try:
            self._workers[uuid].open()
        except JouleLabError as error:
            self._schedule.retire(uuid)
            return DeviceQuarantined(uuid=uuid, detail=f"cannot be used: {error}")
        return DeviceReady(uuid=uuid, hostname=self._gpus[uuid].hostname)

    def _attempt(self, trial: Trial, uuid: str) -> Iterator[PoolEvent]:
        event: PoolEvent
        try:
            report = self._workers[uuid].measure(trial)
        except TrackingError:
            raise
        except JouleLabError as error:
            event, out = after_failing(self._schedule, trial, uuid, error, str(error))
        else:
            event, out = after_measuring(self._schedule, trial, uuid, report)
        yield event
        if out is not None:
            self._schedule.retire(uuid)
            yield DeviceQuarantined(uuid=uuid, detail=out)
