"""The trials of a study: how it goes on from what is stored, and where more come from."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from typing_extensions import override

from joulelab.core.measurement import Measurement
from joulelab.core.trial import Trial
from joulelab.study.events import PoolEvent
from joulelab.study.resume import rest_of
from joulelab.study.schedule import NothingMore, TrialSource
from joulelab.study.ties import ties
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint


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

        Returns:
            The trials to begin with, and the GPUs that are to begin with a sentinel.
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
