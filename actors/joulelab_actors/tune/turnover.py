"""When trials of Ray Tune's end: each as another one can follow it in its process.

Tune runs every trial in a process. One that comes free it gives to a trial that waits, whose own
process it kills, be it ready or about to start; of several that come free while none waits it keeps
one. A start takes some seconds of a core, so with short trials most of the machine's time would go
to processes that are killed before they do anything. Here a trial that was measured ends once Tune
has another to start, and none ends while processes start.
"""

from collections import deque
from collections.abc import Mapping

from joulelab.core.configuration import Configuration
from joulelab.core.trial import Trial
from joulelab_actors.tune.exchange import Result

Key = tuple[Configuration, int]
"""A configuration and the number of its repeat: what a study measures once."""


def key_of(trial: Trial) -> Key:
    """Return what a trial measures."""
    return trial.configuration, trial.repeat


def name_of(key: Key) -> str:
    """Return the name under which Tune's snapshot knows what was suggested."""
    configuration, repeat = key
    return f"{configuration.config_hash}-r{repeat}"


class Turnover:
    """Trials that Tune is to start, and answers that end those that it has."""

    def __init__(self) -> None:
        self._ready: deque[Key] = deque()
        self._keys: dict[str, Key] = {}  # of what Tune has started and not ended, by its ids
        self._restored: set[Key] = set()  # those of an earlier run that have not yet begun again
        self._live: set[Key] = set()
        self._starting: set[Key] = set()
        self._held: deque[tuple[Key, str, Result]] = deque()
        self._num_free = 0  # processes that came free for trials that Tune has yet to start

    @property
    def num_live(self) -> int:
        """How many trials Tune has, or is given to start, besides those that were told to end."""
        return len(self._live)

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

    def take(self, trial_id: str) -> Key | None:
        """Return what Tune starts now under its id; ``None`` if there is nothing."""
        if not self._ready:
            return None
        key = self._keys[trial_id] = self._ready.popleft()
        if self._num_free:
            self._num_free -= 1
        else:
            self._starting.add(key)
        return key

    def restore(self, begun: Mapping[str, Key]) -> None:
        """Note what Tune goes on with by itself, by its ids."""
        self._keys = dict(begun)
        self._restored = set(begun.values())

    def has(self, key: Key) -> bool:
        """Whether a trial of an earlier run is yet to ask for this."""
        return key in self._restored

    def note_begun(self, key: Key) -> None:
        """Note that the process of a trial is there; Tune itself may have restored the trial."""
        self._starting.discard(key)
        self._restored.discard(key)
        self._live.add(key)

    def note_ended(self, trial_id: str) -> Key | None:
        """Note that a trial is over, be it by an answer, a scheduler, or a failure.

        Returns:
            What it was started for; ``None`` if Tune had ended it before.
        """
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

    def release_all(self) -> list[tuple[str, Result]]:
        """Return all answers: nothing follows."""
        return [self.release() for _ in range(len(self._held))]
