"""Trials that have ended and that Ray Tune has yet to take over, oldest first."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.search.outcomes import result_of


class TrialBook(Protocol):
    """Whoever is told of trials as they end."""

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Take note of what came of a trial."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """How far Tune has come.

    Attributes:
        num_done: Trials that it has taken over and is done with.
        num_left: Trials that it has yet to be done with.
    """

    num_done: int
    num_left: int


class Backlog:
    """What the pool and Tune share; it keeps the pool never waiting, Tune only for a trial.

    Nothing stays here once Tune has let go of it.
    """

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._waiting: deque[tuple[Trial, dict[str, Any]]] = deque()
        self._taken: dict[str, dict[str, Any]] = {}
        self._num_done = 0
        self._closed = False

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Note what came of a trial."""
        with self._news:
            self._waiting.append((trial, result_of(outcome)))
            self._news.notify_all()

    def take(self, tune_id: str, *, timeout_s: float) -> Trial | None:
        """Give Tune the oldest trial that it does not know of.

        Args:
            tune_id: What Tune is to call it.
            timeout_s: How long to wait for one that ends, if there is none.

        Returns:
            The trial; ``None`` if there is none by then, or will be none ever.
        """
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._closed, timeout_s)
            if not self._waiting:
                return None
            trial, self._taken[tune_id] = self._waiting.popleft()
            return trial

    def wait(self) -> bool:
        """Wait for a trial that ends; return whether there is one, or none will be ever."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._closed)
            return bool(self._waiting)

    def result(self, tune_id: str) -> dict[str, Any]:
        """Return what came of a trial that Tune has taken, however often it asks."""
        with self._news:
            return dict(self._taken[tune_id])

    def let_go(self, tune_id: str) -> None:
        """Note that a trial of Tune's has ended, however it did."""
        with self._news:
            if self._taken.pop(tune_id, None) is not None:
                self._num_done += 1

    def close(self) -> None:
        """Note that no further trial will end."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether Tune has taken all that there will ever be."""
        with self._news:
            return self._closed and not self._waiting

    @property
    def advance(self) -> Advance:
        """How far Tune has come."""
        with self._news:
            return Advance(num_done=self._num_done, num_left=len(self._waiting) + len(self._taken))
