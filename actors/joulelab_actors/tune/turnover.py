"""When trials of Ray Tune's end: each as another one can follow it in its process.

Tune runs every trial in a process. One that comes free it gives to a trial that waits, whose own
process it kills, be it ready or about to start; of several that come free while none waits it keeps
one. A start takes some seconds of a core, so with short trials most of the machine's time would go
to processes that are killed before they do anything. Here a trial that was measured ends once Tune
has another to start, and none ends while processes start.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf

from joulelab.core.configuration import Configuration
from joulelab.core.trial import Trial
from joulelab.errors import DeviceError
from joulelab_actors.tune.exchange import Result

Key = tuple[Configuration, int]
"""A configuration and the number of its repeat: what a study measures once."""
TRIALS_PER_GPU = 2
"""Trials that are under way for each GPU: one that is measured, one that is measured next."""
MOST_PROCESSES = 8
"""Of Tune's, of some 100 MB each. They pass on a few hundred results a minute at least."""
MOST_BEHIND = 500
"""Results that Tune may lack: it is through with them within a minute, the last of a search."""
MOST_IDLE_S = 600.0
"""Longest that Tune may do nothing while nothing is measured: a process starts within a minute."""


def num_processes(num_gpus: int, most_repeats: int) -> int:
    """Return how many trials Tune has at once, each with a process.

    A scheduler decides after every repeat whether the next is measured: then all that are under
    way are Tune's. Otherwise Tune may learn of them one after the other.
    """
    return TRIALS_PER_GPU * num_gpus if most_repeats > 1 else min(num_gpus, MOST_PROCESSES)


def key_of(trial: Trial) -> Key:
    """Return what a trial measures."""
    return trial.configuration, trial.repeat


def name_of(key: Key) -> str:
    """Return the name under which Tune's snapshot knows what was suggested."""
    configuration, repeat = key
    return f"{configuration.config_hash}-r{repeat}"


class Pulse:
    """Whether Tune still does something, as far as the study waits for it.

    It may do nothing for ``most_idle_s``, a user's own Tuner for ever; the ``clock``, in seconds,
    is never set.
    """

    def __init__(
        self, most_idle_s: float = inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_idle_s, self._clock, self._beat_s = most_idle_s, clock, clock()

    def beat(self) -> None:
        """Note that Tune did something, or has something new to do."""
        self._beat_s = self._clock()

    def check(self, study: str) -> None:
        """Return if Tune did something of late, where nothing of the study is measured.

        Raises DeviceError if it did not.
        """
        if self._clock() - self._beat_s > self._most_idle_s:
            raise DeviceError(
                "Ray Tune was to start or end a trial while no GPU had anything to measure, and "
                f"did neither within {self._most_idle_s:g} s: it hangs. `ray status` and the logs "
                "of Ray's workers show what it waits for. What was measured is kept; say "
                f"--study {study} to go on."
            )


class Turnover:
    """Trials that Tune is to start, and answers that end those that it has.

    ``unknown`` is what Tune does not know of yet, in its order, ``pulse`` whether it goes on.
    """

    def __init__(self) -> None:
        self.unknown: deque[Key] = deque()
        self.pulse = Pulse()
        self._most_behind = MOST_BEHIND
        self._ready: deque[Key] = deque()
        self._keys: dict[str, Key] = {}  # of what Tune has started and not ended, by its ids
        self._restored: set[Key] = set()  # those of an earlier run that have not yet begun again
        self._live: set[Key] = set()
        self._starting: set[Key] = set()
        self._held: deque[tuple[Key, str, Result]] = deque()
        self._num_free = 0  # processes that came free for trials that Tune has yet to start

    @property
    def num_live(self) -> int:
        """How many trials Tune has, or is given to start, besides those that are to end."""
        return len(self._live | self._restored)

    @property
    def num_going_on(self) -> int:
        """How many of them have more to be measured: no answer that ends them is held."""
        return self.num_live - len(self._held)

    @property
    def has_more(self) -> bool:
        """Whether there is something for Tune to start."""
        return bool(self._ready)

    @property
    def can_release(self) -> bool:
        """Whether an answer is held that may be given once another trial is added."""
        return bool(self._held) and not self._starting

    def add(self, key: Key) -> None:
        """Have Tune start a trial."""
        self._ready.append(key)
        self._live.add(key)

    def take(self, trial_id: str, most: int) -> Key | None:
        """Return what Tune starts now under its id; ``None`` if there is nothing.

        Neither is there while Tune has ``most`` trials: one more would have a process started,
        although that of one which is to end is about to come free.
        """
        if not self._ready or len(self._keys) >= most:
            return None
        self.pulse.beat()
        key = self._keys[trial_id] = self._ready.popleft()
        if self._num_free:
            self._num_free -= 1
        else:
            self._starting.add(key)
        return key

    def go_on_from(self, ended: Iterable[Key], unfinished: Iterable[Key]) -> None:
        """Have Tune learn what an earlier run has ended and begun; GPUs do not wait for that."""
        self.unknown.extend(ended)
        self._most_behind += len(self.unknown)
        self.unknown.extend(unfinished)

    def restore(self, begun: Mapping[str, Key], ended: Iterable[Key]) -> None:
        """Note what Tune goes on with by itself, by its ids, and what it knows the end of."""
        self._keys = dict(begun)
        self._restored = set(begun.values())
        known = self._restored.union(ended)
        self.unknown = deque(key for key in self.unknown if key not in known)

    def num_too_late(self, num_open: int) -> int:
        """Return how many results too many Tune does not know, with so many to come."""
        return max(0, len(self.unknown) - num_open - self._most_behind)

    def has(self, key: Key) -> bool:
        """Whether a trial of an earlier run is yet to ask for this."""
        return key in self._restored

    def note_begun(self, key: Key) -> None:
        """Note that the process of a trial is there; Tune itself may have restored the trial."""
        self.pulse.beat()
        self._starting.discard(key)
        self._restored.discard(key)
        self._live.add(key)

    def note_ended(self, trial_id: str) -> Key | None:
        """Note that a trial is over, be it by an answer, a scheduler, or a failure.

        Returns what it was started for; ``None`` if Tune had ended it before.
        """
        self.pulse.beat()
        key = self._keys.pop(trial_id, None)
        if key is not None:
            for those in (self._starting, self._restored, self._live):
                those.discard(key)
        return key

    def hold(self, key: Key, name: str, result: Result) -> None:
        """Keep the answer to a trial, which ends with it."""
        self._held.append((key, name, result))

    def release(self) -> tuple[str, Result]:
        """Return the oldest answer; what Tune is to start next follows in its process."""
        self._num_free = min(self._num_free + 1, len(self._ready))
        key, name, result = self._held.popleft()
        self._live.discard(key)
        return name, result

    def followed(self, most: int) -> Iterator[tuple[str, Result]]:
        """Have Tune start what it does not know, as far as it may have ``most`` trials.

        Yields answers of trials that another follows, and of those that are too many.
        """
        while self.unknown and self.num_live < most:
            self.add(self.unknown.popleft())
        while self.can_release and (self.unknown or self.num_live > most):
            if self.num_live <= most:
                self.add(self.unknown.popleft())
            yield self.release()

    def release_all(self) -> list[tuple[str, Result]]:
        """Return all answers: nothing follows."""
        return [self.release() for _ in range(len(self._held))]
