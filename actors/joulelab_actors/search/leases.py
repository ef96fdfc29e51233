"""Trials under way, as Ray Tune sees them: taken over one by one, each with its result."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.search.outcomes import result_of

_ENDED = "The search ended before the trial did."

Results = Mapping[str, Mapping[str, Any]]
"""What came of trials, by name."""


class TrialBook(Protocol):
    """Whoever is told of trials as the pool begins and settles them."""

    def begin(self, trial: Trial) -> None:
        """Take note of a trial that has been given out."""
        ...

    def settle(self, name: str, outcome: Outcome) -> None:
        """Take note of what came of a trial."""
        ...


class Leases:
    """What the pool and Tune share; it never keeps either waiting.

    The pool begins and settles trials. Tune takes each over as one of its own when it comes to
    that, waits for its result unless it is there, and lets go of it.

    Args:
        publish: Given the results of all trials that Tune has taken over and not let go of,
            whenever there is one more, with a number that grows.
    """

    def __init__(self, publish: Callable[[int, Results], Any] = lambda number, due: None) -> None:
        self._publish = publish
        self._num_posts = 0
        self._lock = threading.Lock()
        self._free: deque[Trial] = deque()
        self._results: dict[str, dict[str, Any]] = {}
        self._taken: dict[str, str] = {}
        self._open: set[str] = set()
        self._closed = False

    def begin(self, trial: Trial) -> None:
        """Offer a trial that has been given out."""
        with self._lock:
            self._free.append(trial)
            self._open.add(trial.name)

    def settle(self, name: str, outcome: Outcome) -> None:
        """Note what came of a trial."""
        with self._lock:
            if name not in self._open:
                return
            self._results[name] = result_of(outcome)
            if name in self._taken.values():
                self._post()

    def take_over(self, tune_id: str) -> Trial | None:
        """Give Tune the oldest trial that it does not know of; ``None`` if there is none."""
        with self._lock:
            if not self._free:
                return None
            trial = self._free.popleft()
            self._taken[tune_id] = trial.name
            if trial.name in self._results:
                self._post()
            return trial

    def let_go(self, tune_id: str) -> None:
        """Note that a trial of Tune's has ended, however it did."""
        with self._lock:
            name = self._taken.pop(tune_id, None)
            if name is not None:
                self._results.pop(name, None)
                self._open.discard(name)

    def close(self) -> None:
        """Note that no further trial will begin, and none that is out will end."""
        with self._lock:
            self._closed = True
            self._free = deque(trial for trial in self._free if trial.name in self._results)
            for name in self._taken.values():
                self._results.setdefault(name, {"reason": _ENDED, "capped": False})
            self._post()

    @property
    def is_over(self) -> bool:
        """Whether Tune has taken over all that there will ever be."""
        with self._lock:
            return self._closed and not self._free

    def _post(self) -> None:
        taken = self._taken.values()
        due = {name: self._results[name] for name in taken if name in self._results}
        self._num_posts += 1
        self._publish(self._num_posts, due)
