"""Those who measure the trials of a study; here, this process, on one GPU after another."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from typing_extensions import override

from joulelab.core.trial import Trial
from joulelab.errors import ConfigError, JouleLabError, TrackingError
from joulelab.study.events import DeviceQuarantined, DeviceReady, PoolEvent, TrialStarted
from joulelab.study.gpu import StudyGpu
from joulelab.study.schedule import (
    NothingMore,
    Schedule,
    TrialSource,
    after_failing,
    after_measuring,
)
from joulelab.study.worker import GpuWorker, WorkerSettings


class WorkerPool(ABC):
    """Measures trials on the GPUs of a study; each result is stored before anybody is told.

    Raises:
        ConfigError: If there are no GPUs.
    """

    def __init__(self, gpus: Sequence[StudyGpu]) -> None:
        if not gpus:
            raise ConfigError("A study needs at least one GPU, got none.")
        self._gpus: Mapping[str, StudyGpu] = {gpu.uuid: gpu for gpu in gpus}
        self._schedule = Schedule([], [])
        self._source: TrialSource = NothingMore()

    def run(
        self,
        trials: Sequence[Trial],
        source: TrialSource | None = None,
        *,
        untied: Collection[str] = (),
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[PoolEvent]:
        """Measure ``trials``, then those of ``source``; what happens is yielded as it happens.

        The source is asked again after every event, when whoever takes the events has dealt with
        it. Ends when every trial is measured or given up and no more will come, when the source has
        none although none is out, when no GPU is left in service, or when it must stop; what is out
        then stays unfinished. GPUs that are ``untied`` begin with a sentinel. ``must_stop`` is
        asked between trials at the latest, on a cluster at least once a second.

        Raises:
            TrackingError: If results cannot be stored.
        """
        products = {uuid: gpu.identity.name for uuid, gpu in self._gpus.items()}
        self._schedule = Schedule(trials, self._uuids, untied=untied, products=products)
        self._source = source or NothingMore()
        yield from self._measure(must_stop)

    @property
    def unfinished(self) -> tuple[Trial, ...]:
        """Trials of the last run that no GPU was left for."""
        return self._schedule.unfinished

    @abstractmethod
    def close(self) -> None:
        """Give the GPUs back at their former settings. Safe to call twice."""

    @property
    def _uuids(self) -> Collection[str]:
        """GPUs that can be given trials."""
        return self._gpus

    @property
    def _has_more(self) -> bool:
        return self._schedule.has_unfinished or not self._source.is_done

    @abstractmethod
    def _measure(self, must_stop: Callable[[], bool]) -> Iterator[PoolEvent]:
        """Measure what is scheduled, and what the source has."""


class LocalPool(WorkerPool):
    """Measures in this process: a trial at a time, the GPUs by turns."""

    def __init__(self, gpus: Sequence[StudyGpu], settings: WorkerSettings) -> None:
        super().__init__(gpus)
        self._workers = {
            gpu.uuid: GpuWorker(gpu.address, settings, partners=gpu.partners) for gpu in gpus
        }

    @override
    def _measure(self, must_stop: Callable[[], bool]) -> Iterator[PoolEvent]:
        for uuid in self._workers:
            yield self._opened(uuid)
        was_idle = False
        while not was_idle and self._has_more:
            was_idle = True
            for uuid in [each for each in self._workers if each in self._schedule.in_service]:
                if must_stop():
                    return
                if (trial := self._schedule.take_next(uuid, self._source)) is not None:
                    was_idle = False
                    yield TrialStarted(trial=trial, uuid=uuid)
                    yield from self._attempt(trial, uuid)

    @override
    def close(self) -> None:
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
