"""The trials of a study, and those who measure them; here, this process, on one GPU after another.

How a study goes on from what is stored, and where more trials come from.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from typing_extensions import override

from joulelab.core.measurement import Measurement
from joulelab.core.plan import again
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError, JouleLabError, TrackingError
from joulelab.study.events import DeviceQuarantined, DeviceReady, PoolEvent, TrialStarted
from joulelab.study.gpu import StudyGpu
from joulelab.study.resume import rest_of
from joulelab.study.schedule import (
    NothingMore,
    Schedule,
    TrialSource,
    after_failing,
    after_measuring,
)
from joulelab.study.worker import GpuWorker, WorkerSettings
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint


class WorkerPool(ABC):
    """Measures trials on the GPUs of a study; each result is stored before anybody hears of it.

    Raises ConfigError if there are no GPUs.
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
        asked between trials at the latest, on a cluster at least once a second. Raises
        TrackingError if results cannot be stored.
        """
        gpus = self._gpus.items()
        self._schedule = Schedule(
            trials,
            self._uuids,
            untied=untied,
            products={uuid: gpu.identity.name for uuid, gpu in gpus},
            clocks_mhz={uuid: frozenset(gpu.capabilities.sm_clocks_mhz) for uuid, gpu in gpus},
        )
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
                    self._workers[uuid].expect(self._schedule.foresee(uuid))
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


class StudyTrials(TrialSource):
    """What a study measures.

    ``num_trials`` are all as far as they are known, ``num_skipped`` those that earlier runs
    measured; ``stopped_by`` says what ended the asking for more.
    """

    study: str
    num_skipped = 0
    num_trials = 0
    stopped_by: str | None = None

    @property
    @abstractmethod
    def num_planned(self) -> int | None:
        """Trials that there will be at most; ``None`` if that is open."""

    @abstractmethod
    def has_rest(self, store: ResultStore) -> bool:
        """Whether there is anything to measure, by what the results folder holds."""

    @abstractmethod
    def resume(
        self,
        known: Sequence[Measurement],
        uuids: Sequence[str],
        plot: Callable[[ChartPoint], None],
    ) -> tuple[Sequence[Trial], frozenset[str]]:
        """Go on from what is known; ``plot`` takes points of the study's curves.

        Returns the trials to begin with, and the GPUs that are to begin with a sentinel.
        """

    @abstractmethod
    def note(self, event: PoolEvent) -> None:
        """Take note of an event of the pool's."""

    def running(self) -> AbstractContextManager[object]:
        """Return what must hold while the pool measures; entered once :meth:`resume` is over."""
        return nullcontext()


class FixedTrials(NothingMore, StudyTrials):
    """Trials that are all known beforehand, in their order; all of one study, with unique names.

    ``products`` are those of the GPUs, by UUID.
    """

    def __init__(self, trials: Sequence[Trial], products: Mapping[str, str]) -> None:
        self._trials, self._products = trials, products
        self.study = trials[0].study

    @property
    @override
    def num_planned(self) -> int:
        return self.num_trials

    @override
    def has_rest(self, store: ResultStore) -> bool:
        return bool(rest_of(self._trials, store.read()))

    @override
    def resume(
        self,
        known: Sequence[Measurement],
        uuids: Sequence[str],
        plot: Callable[[ChartPoint], None],
    ) -> tuple[Sequence[Trial], frozenset[str]]:
        rest = rest_of(self._trials, known)
        added, untied = ties(self._trials, rest, known, self._products)
        self.num_skipped = len(self._trials) - len(rest)
        self.num_trials = len(self._trials) + len(added)
        return [*added, *rest], untied

    @override
    def note(self, event: PoolEvent) -> None:
        """Nothing depends on what comes of a trial."""


def ties(
    trials: Sequence[Trial],
    rest: Sequence[Trial],
    known: Sequence[Measurement],
    products: Mapping[str, str],
) -> tuple[list[Trial], frozenset[str]]:
    """Return sentinels to be measured besides, so that every GPU measures one, and who has none.

    GPUs are compared by what all of them measured, and what only one of them measured has no
    figure. The plan of a study does not know how many GPUs will carry it out, nor whether it will
    go on on others. Of ``trials``, without a sentinel among which none is added, ``rest`` are left
    to do; ``known`` is what the results folder holds. ``products`` are those of the GPUs by UUID.
    """
    added: list[Trial] = []
    untied: set[str] = set()
    for name in dict.fromkeys(trial.device_name for trial in trials):
        uuids = [uuid for uuid, product in products.items() if name in (None, product)]
        planned = [trial for trial in trials if trial.sentinel and trial.device_name == name]
        left = [trial for trial in rest if trial.device_name == name]
        if planned and left:
            tied = {m.device.uuid for m in known if m.sentinel and m.settled}
            lacking = set(uuids) - tied
            added += _missing(planned, left, known, len(lacking))
            untied |= lacking
    return added, frozenset(untied)


def _missing(
    planned: Sequence[Trial], rest: Sequence[Trial], known: Sequence[Measurement], num_untied: int
) -> list[Trial]:
    """Return further repeats of a sentinel, so that there is one for each GPU without."""
    num = min(num_untied, len(rest)) - sum(trial.sentinel for trial in rest)
    measured = [m.repeat for m in known if m.sentinel]
    first = 1 + max([*(trial.repeat for trial in planned), *measured])
    return [again(planned[0], repeat) for repeat in range(first, first + max(num, 0))]
