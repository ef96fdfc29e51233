"""The trials of a study: how it goes on from what is stored, and where more come from."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from typing_extensions import override

from joulelab.core.measurement import Measurement
from joulelab.core.plan import again
from joulelab.core.trial import Trial
from joulelab.study.events import PoolEvent
from joulelab.study.resume import rest_of
from joulelab.study.schedule import NothingMore, TrialSource
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


def ties(
    trials: Sequence[Trial],
    rest: Sequence[Trial],
    known: Sequence[Measurement],
    products: Mapping[str, str],
) -> tuple[list[Trial], frozenset[str]]:
    """Return sentinels to be measured besides, so that every GPU measures one, and who has none.

    GPUs are compared by what all of them measured, and what only one of them measured has no
    figure. The plan of a study does not know how many GPUs will carry it out, nor whether it
    will go on on others.

    Args:
        trials: All trials of the study; without a sentinel among them none is added.
        rest: Those that are left to do.
        known: What its results folder holds.
        products: GPUs that carry it out now, and their products, by UUID.
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
