"""The queue of a search: trials that a strategy asks for, and learns of as they end."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError
from joulelab.objectives import EDP, Objective
from joulelab.searching.base import Outcome, Strategy
from joulelab.searching.evidence import Qualities
from joulelab.study.budget import Account, Budget
from joulelab.study.events import AttemptFailed, PoolEvent, TrialMeasured, outcome_of, spent_j
from joulelab.study.pool import StudyTrials
from joulelab.study.resume import History, history_of, trial_name
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint

Scorer = Callable[[Configuration], tuple[float, float | None] | None]
"""Returns the share of the quality that is kept and its uncertainty; ``None`` if not known."""

CheckTrial = Callable[[Trial], None]
"""Raises a ``ConfigError`` if a trial cannot be carried out."""

Observer = Callable[[Outcome, float], ChartPoint | None]
"""Told of an outcome and of the joules spent by then; returns a point of curves, or nothing."""

FEW = 5
"""Trials of each GPU below which a search has few of them. Then not every GPU begins with a
sentinel, which ties it to the others: the difference of boards costs less than measuring it. And
none is given a trial ahead, which would be chosen without what the others are about to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """A configuration that every GPU measures first and again and again: drift and boards show.

    The strategy knows it, and learns of it as of any other. ``every`` are the trials of a GPU
    between two of them. Where the budget leaves each GPU only a few trials, or is not one of
    trials, one of so many is a GPU's first sentinel.
    """

    configuration: Configuration
    every: int = 10

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"every must be at least 1, got {self.every}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A study whose trials are asked for as it goes; its strategy must know of nothing yet."""

    study: str
    strategy: Strategy
    budget: Budget = field(default_factory=Budget)
    sentinel: Sentinel | None = None
    objective: Objective = EDP  # what Ray Tune compares trials by
    # What outputs of a configuration are worth; it must only look up, since the pool waits for it.
    score: Scorer = lambda configuration: None
    # Told what came of each trial and the joules spent by then, those of earlier runs first, in the
    # pool's thread; returns a point of the tracking store's curves, or nothing.
    follow: Observer = lambda outcome, spent_j: None


class SearchQueue(StudyTrials):
    """Hands out trials that a strategy asks for while the budget lasts, and settles them.

    It lives in one thread, the pool's. ``check`` raises if a trial cannot be carried out.
    """

    def __init__(self, search: Search, check: CheckTrial = lambda trial: None) -> None:
        self.study = search.study
        self.account = Account(search.budget)
        self._search = search
        self._strategy = search.strategy
        self._check = check
        self._plot: Callable[[ChartPoint], None] = lambda point: None
        self._repeats: Counter[Configuration] = Counter()
        self._number = 0
        self._since_sentinel: dict[str, int] = {}
        self._watched: set[str] = set()  # GPUs that were given a sentinel
        self._taken: dict[str, str] = {}  # the GPU of each trial that one has
        self._num_gpus = self._num_sentinels = 0
        self._has_nothing = False

    @property
    @override
    def num_planned(self) -> int | None:
        return self.account.budget.num_trials

    @override
    def has_rest(self, store: ResultStore) -> bool:
        return True  # whether there is, only the strategy knows, once it has the outcome

    @override
    def resume(
        self,
        known: Sequence[Measurement],
        uuids: Sequence[str],
        plot: Callable[[ChartPoint], None],
    ) -> tuple[Sequence[Trial], frozenset[str]]:
        history = history_of(known)
        self._plot, self._num_gpus = plot, len(uuids)
        self.go_on_from(history)
        return history.unfinished, frozenset()

    def go_on_from(self, history: History) -> None:
        """Tell the strategy what earlier runs did."""
        self._repeats = history.repeats.copy()
        self._number = history.next_number
        self._since_sentinel = dict(history.since_sentinel)
        self._watched = set(history.since_sentinel)
        self._num_sentinels = sum(t.sentinel for t in (*history.trials, *history.unfinished))
        self.num_skipped = len(history.trials)
        self.num_trials = self.num_skipped + len(history.unfinished)
        for outcome, energy_j in zip(history.outcomes, history.energies_j, strict=True):
            self.account.begin()
            self.account.spend(energy_j)
            self._tell(self.scored(outcome))
        self.account.spend(history.energy_j - self.account.energy_j)
        self.account.start()
        for _ in history.unfinished:
            self.account.begin()

    @override
    def take(self, uuid: str) -> Trial | None:
        may_ask = not self.asks_no_more and self.account.num_out < self.most_out
        trial = self.next_trial(sentinel=self.is_due(uuid)) if may_ask else None
        if trial is not None:
            self.note_taken(trial, uuid)
        return trial

    def next_trial(self, *, sentinel: bool) -> Trial | None:
        """Begin a sentinel, or what the strategy asks for; ``None`` if that is nothing now."""
        if sentinel and self._search.sentinel is not None:
            return self.begin(self._search.sentinel.configuration, sentinel=True)
        candidate = None if self._has_nothing else self._strategy.ask()
        self._has_nothing = candidate is None  # until an outcome: every idle GPU comes and asks
        return None if candidate is None else self.begin(candidate)

    def is_due(self, uuid: str) -> bool:
        """Whether a GPU's next trial is to be a sentinel, be it begun for that."""
        if self._search.sentinel is None:
            return False
        every = self._search.sentinel.every
        is_first = uuid not in self._watched and self._num_sentinels < self._most_first(every)
        return is_first or self._since_sentinel.get(uuid, 0) >= every

    def welcomes_sentinel(self, uuid: str) -> bool:
        """Whether a sentinel that was begun is better measured by this GPU than by others."""
        return uuid not in self._watched or self.is_due(uuid)

    def first_for(self, uuid: str, ready: Sequence[Trial], uuids: Collection[str]) -> Trial | None:
        """Return what a GPU measures next; sentinels are for GPUs that welcome one, if any does."""
        welcomes = self.welcomes_sentinel(uuid)
        own = [trial for trial in ready if trial.sentinel == welcomes]
        if own or welcomes or not any(map(self.welcomes_sentinel, uuids)):
            return next(iter(own or ready), None)
        return None

    def has_none(self, uuid: str) -> bool:
        """Whether a GPU has no trial without a result."""
        return uuid not in self._taken.values()

    @property
    def most_out(self) -> float:
        """How many trials may be under way at once, besides what the pool gives a GPU ahead."""
        return min(self.account.most_out, self._num_gpus if self._has_few else inf)

    @property
    def _has_few(self) -> bool:
        most = self.account.budget.num_trials
        return most is not None and most < FEW * self._num_gpus

    def _most_first(self, every: int) -> int:
        """Return how many sentinels there may be before a GPU begins with its first."""
        most = self.account.budget.num_trials
        if most is None:
            return 1 + self.account.num_begun // every
        return max(1, most // (every + 1)) if self._has_few else self._num_gpus

    def note_taken(self, trial: Trial, uuid: str) -> None:
        """Note which GPU measures a trial."""
        self._taken[trial.name] = uuid
        since = 0 if trial.sentinel else self._since_sentinel.get(uuid, 0) + 1
        self._since_sentinel[uuid] = since
        if trial.sentinel:
            self._watched.add(uuid)

    @property
    @override
    def is_done(self) -> bool:
        return self.asks_no_more

    @property
    def asks_no_more(self) -> bool:
        """Whether the strategy is done, or a bound of the budget is reached."""
        if self.stopped_by is None:
            if self._strategy.is_done:
                self.stopped_by = "the strategy"
            elif (bound := self.account.exhausted) is not None:
                self.stopped_by = f"the budget of {bound}"
        return self.stopped_by is not None

    @override
    def note(self, event: PoolEvent) -> None:
        match event:
            case TrialMeasured():
                measurements = [record.measurement for record in event.records]
                self.account.spend(sum(map(spent_j, measurements)))
                if not event.retried:
                    self.settle(event.trial, outcome_of(measurements))
            case AttemptFailed(retried=False):
                outcome = Outcome(candidate=event.trial.configuration, reason=event.detail)
                self.settle(event.trial, outcome)

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Note what came of a trial that needs no further try, and tell the strategy."""
        self._taken.pop(trial.name, None)
        self._tell(self.scored(outcome))

    def begin(
        self, candidate: Configuration, *, repeat: int | None = None, sentinel: bool = False
    ) -> Trial:
        """Return a new trial of a configuration, which counts as out from now on.

        It is the next repeat unless one is given. Raises ConfigError if it cannot be carried out.
        """
        repeat = self._repeats[candidate] if repeat is None else repeat
        trial = Trial(
            study=self.study,
            name=trial_name(self._number, candidate, repeat),
            configuration=candidate,
            repeat=repeat,
            sentinel=sentinel,
        )
        self._check(trial)
        self._repeats[candidate] = max(self._repeats[candidate], repeat + 1)
        self._number += 1
        self._num_sentinels += sentinel
        self.num_trials += 1
        self.account.begin()
        return trial

    def _tell(self, outcome: Outcome) -> None:
        self.account.end()
        self._strategy.tell(outcome)
        self._has_nothing = False
        point = self._search.follow(outcome, self.account.energy_j)
        if point is not None:
            self._plot(point)

    def scored(self, outcome: Outcome) -> Outcome:
        """Return an outcome with what is known of the quality of its outputs."""
        return scored(outcome, self._search.score)


def scored(outcome: Outcome, score: Scorer) -> Outcome:
    """Return ``outcome`` with what ``score`` knows of the quality of its outputs."""
    if outcome.figures is None or (found := score(outcome.candidate)) is None:
        return outcome
    retention, retention_u = found
    figures = replace(outcome.figures, retention=retention, retention_u=retention_u)
    return replace(outcome, figures=figures)


def lookup(qualities: Qualities) -> Scorer:
    """Return the scorer that looks up what is known of the quality beforehand."""

    def score(configuration: Configuration) -> tuple[float, float | None] | None:
        kept = qualities.get(configuration.knobs)
        return None if kept is None else (kept.retention, kept.u)

    return score
