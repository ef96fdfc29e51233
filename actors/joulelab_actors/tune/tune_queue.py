"""The queue of a search whose trials Ray Tune starts."""

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from threading import RLock
from typing import Any

import ray
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.trial import Trial
from joulelab.errors import DeviceError, JouleLabError
from joulelab.searching.base import Outcome
from joulelab.study.events import DeviceQuarantined, PoolEvent, result_of
from joulelab.study.resume import History
from joulelab.study.search_queue import CheckTrial, Search, SearchQueue
from joulelab.tracking.study import ChartPoint
from joulelab_actors.tune.exchange import Ask, Result, start_exchange
from joulelab_actors.tune.trainable import configuration_of
from joulelab_actors.tune.turnover import TRIALS_PER_GPU, Key, Turnover, key_of, num_processes

MOST_FAILED = 20
"""Trials of Tune's that may fail in a search: their processes die with a node, or are killed."""


class TuneQueue(SearchQueue):
    """Tune asks it what to start, its trials ask it to be measured, the pool what to measure.

    A trial is what the strategy asks for, or what a trial of Tune's asks for besides: a further
    iteration, or one of an earlier run. GPUs do not wait for Tune, which gets it in order: what has
    results by then is answered from them. Tune asks in a thread of its own, everybody else in the
    pool's. ``steer`` makes what holds while Tune runs; a trial that nothing stops has
    ``most_repeats`` iterations.
    """

    def __init__(
        self,
        search: Search,
        check: CheckTrial,
        steer: Callable[["TuneQueue"], AbstractContextManager[object]],
        *,
        most_repeats: int = 1,
    ) -> None:
        super().__init__(search, check)
        self._steer, self._most_repeats = steer, most_repeats
        self._lock = RLock()
        self._in_service: set[str] = set()
        self._open: dict[Key, Trial] = {}  # begun, without a result
        self._idle: dict[Key, Trial] = {}  # those of them that no GPU has
        self._besides: dict[Configuration, Trial] = {}  # those that the strategy did not ask for
        self._askers: defaultdict[Key, list[Ask]] = defaultdict(list)
        self._results: dict[Key, Result] = {}
        self.turnover = Turnover()
        self._is_led = False  # whether Tune asks what to start, rather than saying so itself
        self._is_stuck = False  # the strategy asks for nothing although nothing is out
        self._num_failed, self._is_over = 0, False
        self.exchange: Any = None
        self._news: Any = None
        self._rings: list[Any] = []
        self.error: Exception | None = None

    @override
    def resume(
        self,
        known: Sequence[Measurement],
        uuids: Sequence[str],
        plot: Callable[[ChartPoint], None],
    ) -> tuple[Sequence[Trial], frozenset[str]]:
        self._in_service = set(uuids)
        super().resume(known, uuids, plot)
        return (), frozenset()

    @override
    def go_on_from(self, history: History) -> None:
        super().go_on_from(history)
        for trial, outcome in zip(history.trials, history.outcomes, strict=True):
            self._results[key_of(trial)] = result_of(self.scored(outcome), self._search.objective)
        self._open = {key_of(trial): trial for trial in history.unfinished}
        self._idle = dict(self._open)
        self.turnover.go_on_from(map(key_of, history.trials), map(key_of, history.unfinished))

    @override
    @contextmanager
    def running(self) -> Generator[None]:
        self.exchange = start_exchange()
        self._news = self.exchange.asks.remote()
        try:
            with self._steer(self):
                yield
        finally:
            calls = [self._news, *self._rings]  # Ray announces every one that a kill cuts off
            ray.wait(calls, num_returns=len(calls), timeout=5.0)
            ray.kill(self.exchange)
        if self.error is not None:
            raise self.error

    def restore(self, begun: Mapping[str, Key], ended: Collection[Key]) -> None:
        """Note what Tune goes on with by itself, by its ids, and what it knows the end of."""
        with self._lock:
            self.turnover.restore(begun, ended)

    def suggest(self, trial_id: str) -> Key | None:
        """Return what Tune is to start next under this id; ``None`` if that is nothing now.

        Raises ConfigError if the strategy asks for what cannot be carried out.
        """
        with self._lock:
            if not self._is_led:
                self._is_led = True
                self._turn_over()
            return self.turnover.take(trial_id, self._most_in_tune)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left for Tune to start, ever; what is out may be put back."""
        with self._lock:
            is_out = bool(self.turnover.unknown or self._open or self.turnover.has_more)
            return self._is_over or (not is_out and self._has_nothing_to_ask)

    def note_ended(self, trial_id: str, *, has_failed: bool) -> None:
        """Note that Tune is done with a trial; what one that failed was to ask for comes again."""
        with self._lock:
            if (key := self.turnover.note_ended(trial_id)) and has_failed and not self._is_over:
                self._num_failed += 1
                self.turnover.unknown.append(key)
            if self._num_failed > MOST_FAILED:
                self.error = DeviceError(
                    f"Trials of Ray Tune failed {self._num_failed} times before a GPU had measured "
                    "them; see the logs of Ray's workers."
                )
            self._turn_over()

    @property
    @override
    def news(self) -> Any:
        return self._news

    @override
    def hear(self) -> None:
        asks: list[Ask] = ray.get(self._news)
        self._news = self.exchange.asks.remote()
        with self._lock:
            for ask in asks:
                self._take_in(ask)
            self._turn_over()

    @override
    def take(self, uuid: str) -> Trial | None:
        with self._lock:
            waits_for_tune = self._most_repeats > 1 or not self._is_led
            if not self._idle and self.has_none(uuid):
                self._turn_over(is_urgent=True)
            keys = self._askers if waits_for_tune else self._idle
            ready = [trial for key, trial in self._idle.items() if key in keys]
            trial = self.first_for(uuid, ready, self._in_service)
            if trial is not None:
                del self._idle[key_of(trial)]
                self.note_taken(trial, uuid)
            elif not self._taken:
                self.turnover.pulse.check(self.study)
            return trial

    @override
    def note(self, event: PoolEvent) -> None:
        with self._lock:
            if isinstance(event, DeviceQuarantined):
                self._in_service.discard(event.uuid)
            super().note(event)

    @override
    def settle(self, trial: Trial, outcome: Outcome) -> None:
        super().settle(trial, outcome)
        self.turnover.pulse.beat()
        key = key_of(trial)
        self._open.pop(key, None)
        if self._besides.get(key[0]) == trial:
            del self._besides[key[0]]
        self._results[key] = result_of(self.scored(outcome), self._search.objective)
        for ask in self._askers.pop(key, []):
            self._reply(ask, self._results[key])
        self._turn_over()

    @property
    @override
    def is_done(self) -> bool:
        return self._is_over

    def close(self) -> None:
        """Let trials that wait go: nothing more is measured."""
        with self._lock:
            self._is_over = True
            self._turn_over()
            for ask in chain.from_iterable(self._askers.values()):
                self._answer(ask.name, {"reason": "The search was ended before this was measured."})
            self._askers.clear()
        self._rings.append(self.exchange.ring.remote())

    def _take_in(self, ask: Ask) -> None:
        try:
            configuration, repeat = configuration_of(ask.config)
            key = configuration, repeat + ask.iteration
            if ask.iteration == 0:
                self.turnover.note_begun(key)
            if key not in self._results and key not in self._open:
                self._open_besides(key)
        except JouleLabError as error:
            self._answer(ask.name, {"reason": str(error)})
            return
        if key in self._results:
            self._reply(ask, self._results[key])
        elif key in self._open:
            self._askers[key].append(ask)
        else:
            self._reply(ask, {"reason": f"The budget of {self.account.exhausted} is used up."})

    def _reply(self, ask: Ask, result: Result) -> None:
        """Answer; where that ends the trial of a search, once another can follow it."""
        is_last = "reason" in result or ask.iteration + 1 >= self._most_repeats
        if self._is_led and is_last:
            self.turnover.hold(configuration_of(ask.config), ask.name, result)
        else:
            self._answer(ask.name, result)

    def _turn_over(self, *, is_urgent: bool = False) -> None:
        """Give Tune what it can start, and end trials that something follows, or nothing will."""
        if not self._is_led:
            return
        self._plan(is_urgent)
        for name, result in self.turnover.followed(self._most_in_tune):
            self._answer(name, result)
        if self._is_over or self._has_nothing_to_ask:
            for name, result in self.turnover.release_all():
                self._answer(name, result)

    @property
    def _most_in_tune(self) -> int:
        return num_processes(len(self._in_service), self._most_repeats)

    def _plan(self, is_urgent: bool) -> None:
        """Begin what the strategy asks for, until every GPU has enough; Tune hears of it in turn.

        If it is not urgent, a quarter at once: one that learns thinks before the first of several.
        """
        num_gpus = len(self._in_service)
        most = min(self.most_out, TRIALS_PER_GPU * num_gpus)
        if not is_urgent and self._num_under_way > max(num_gpus, most - most // 4):
            return
        while self._num_under_way < most and (trial := self._next_asked()) is not None:
            key = key_of(trial)
            if key not in self._open:  # a trial of Tune's of an earlier run may have asked for it
                self._opened(trial)
                if not self.turnover.has(key):
                    self.turnover.unknown.append(key)

    @property
    def _num_under_way(self) -> int:
        """Trials without a result, and results of which Tune should have known by now."""
        if self._most_repeats > 1:
            return self.turnover.num_going_on + len(self.turnover.unknown)
        return len(self._open) + self.turnover.num_too_late(len(self._open))

    def _next_asked(self) -> Trial | None:
        if self._is_over or self.asks_no_more:
            return None
        num_begun = sum(trial.sentinel for trial in self._idle.values())
        trial = self.next_trial(sentinel=sum(map(self.is_due, self._in_service)) > num_begun)
        self._is_stuck = trial is None and not self._open
        return trial

    @override
    def begin(
        self, candidate: Configuration, *, repeat: int | None = None, sentinel: bool = False
    ) -> Trial:
        if repeat is None and not sentinel and candidate in self._besides:
            return self._besides.pop(candidate)
        return super().begin(candidate, repeat=repeat, sentinel=sentinel)

    @property
    def _has_nothing_to_ask(self) -> bool:
        return not self.turnover.unknown and (self._is_stuck or self.asks_no_more)

    def _open_besides(self, key: Key) -> None:
        """Begin a trial that the strategy did not ask for, while there is a budget."""
        configuration, repeat = key
        if not self._is_over and self.account.exhausted is None:
            trial = self.begin(configuration, repeat=repeat)
            self._opened(trial)
            self._besides[configuration] = trial

    def _opened(self, trial: Trial) -> None:
        self._open[key_of(trial)] = self._idle[key_of(trial)] = trial

    def _answer(self, name: str, result: Result) -> None:
        self.exchange.answer.remote(name, result)
