"""The driver's end of Ray Tune's process."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.events import TuneBehind
from joulelab_actors.search.backlog import Advance
from joulelab_actors.search.tune_process import TRIALS_PER_EXPERIMENT, TuneActor

STALL_S = 120.0
"""Time without any advance after which Tune is given up; a new experiment takes some seconds."""
QUIET_S = 5.0
"""Time for which nobody is told that Tune is behind."""
ABORT_STALL_S = 10.0
"""The same once a search was aborted; Tune needs 5 to 8 s for the process of its first trial."""
ABORT_LIMIT_S = 30.0
"""Longest wait once a search was aborted; 0.3 s are enough unless Tune is behind."""
_LOOK_S = 1.0

_log = logging.getLogger(__name__)


class Lag:
    """How far Tune is behind once a search has ended, and whether it still advances.

    Args:
        stall_s: Time without any advance after which there is no more to be expected.
        now_s: The clock of the wall.
    """

    def __init__(self, stall_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self.num_left: int | None = None
        self._stall_s, self._now_s = stall_s, now_s
        self._num_done = -1
        self._start_s = self._moved_s = now_s()

    def note(self, advance: Advance) -> None:
        """Take note of how far Tune has come."""
        if advance.num_done > self._num_done:
            self._num_done, self._moved_s = advance.num_done, self._now_s()
        self.num_left = advance.num_left

    @property
    def is_worth_telling(self) -> bool:
        """Whether it lasts so long that the user should know what is waited for."""
        return bool(self.num_left) and self.waited_s > QUIET_S

    @property
    def waited_s(self) -> float:
        """Time since the search has ended."""
        return self._now_s() - self._start_s

    @property
    def trouble(self) -> str | None:
        """What is wrong if Tune does not advance any more; ``None`` if it does."""
        if self._now_s() - self._moved_s <= self._stall_s:
            return None
        behind = "" if self.num_left is None else f", {self.num_left} trials behind"
        return (
            f"Ray Tune stood still for {self._stall_s:g} s and was ended{behind}: its tables lack "
            "trials, the results folder has them all."
        )


class TuneLink:
    """Tells Tune's process of trials, without ever waiting for it before the search has ended.

    It is no part of what a search needs to go on: whatever goes wrong there is kept in
    :attr:`trouble`, and the results store has everything.

    Args:
        folder: Where Tune keeps its own tables.
        on_event: Told that Tune is behind, once a second, when the search waits for it.
    """

    def __init__(
        self, folder: Path, on_event: Callable[[TuneBehind], None] = lambda event: None
    ) -> None:
        self.trouble: str | None = None
        self._actor = _start_actor(folder)
        self._on_event = on_event
        self._running: Any = None

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Note what came of a trial."""
        self._actor.settle.remote(trial, outcome)

    def __enter__(self) -> Self:
        self._running = self._actor.run.remote()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let Tune take over what has ended but is unknown to it, and end."""
        try:
            self._actor.close.remote()
            if kind is None:
                self._see_to_end()
            else:
                self._see_out()
        except RayError as failure:
            _log.warning("Ray Tune failed: %s", failure)
            cause = getattr(failure, "cause", failure)
            self.trouble = f"Ray Tune failed: {cause}".partition("\n")[0]
        finally:
            ray.kill(self._actor)

    def _see_to_end(self) -> None:
        """Wait for as long as Tune advances."""
        lag = Lag(STALL_S)
        for _ in self._until_over(lag):
            if (trouble := lag.trouble) is not None:
                self.trouble = trouble
                return
            if lag.is_worth_telling:
                self._on_event(TuneBehind(num_left=lag.num_left or 0))
        ray.get(self._running)

    def _see_out(self) -> None:
        """Wait as whoever aborted the search may be asked to."""
        lag = Lag(ABORT_STALL_S)
        for _ in self._until_over(lag):
            if lag.trouble is not None or lag.waited_s > ABORT_LIMIT_S:
                return

    def _until_over(self, lag: Lag) -> Iterator[None]:
        """Tell ``lag`` how far Tune is, look after look, until it has ended."""
        asked = self._actor.advance.remote()
        while not ray.wait([self._running], timeout=_LOOK_S)[0]:
            if ray.wait([asked], timeout=0)[0]:
                lag.note(ray.get(asked))
                asked = self._actor.advance.remote()
            yield


def _start_actor(folder: Path) -> Any:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    make_remote: Any = ray.remote
    remote = make_remote(concurrency_groups={"tune": 1})(TuneActor)
    options = {"num_cpus": 0, "scheduling_strategy": here}
    return remote.options(**options).remote(str(folder), TRIALS_PER_EXPERIMENT)
