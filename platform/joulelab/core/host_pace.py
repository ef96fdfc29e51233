"""Whether other work slows the core that a program runs on, by how long a call in Python takes.

Other work, as on the second hardware thread of a core, slows it for milliseconds to seconds. Behind
H200s a call in Python took 1.9 times as long then, a launch 1.4 and ResNet-18 at batch 1 1.6 times
(experiments/results/h200_hosts).
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

from joulelab.core.clock import Clock, MonotonicClock

DISTURBED = 1.25
"""Pace over that of an undisturbed core from which one is disturbed: others' work makes it 1.9."""
_FASTEST = 0.05
"""Share of the looks whose pace is taken as that of an undisturbed core: a single one is luck."""
_PERIOD_S = 0.04
_LEAST_LOOKS = 10
"""Over windows, for a share to be known: units of more than 0.1 s leave fewer in a second."""
_MOST_LOOKS = 20_000
"""Kept, 13 minutes of them: a study of days must not take ever more memory and time."""
_NUM_CALLS = 300


def python_call_s(num_calls: int = 2000) -> float:
    """Return what a call of a Python function takes now; 2000 take a tenth of a millisecond."""
    begin_s = time.perf_counter()
    for _ in range(num_calls):
        _nothing()
    return (time.perf_counter() - begin_s) / num_calls


def _nothing() -> None:
    pass


def undisturbed_s(paces_s: Sequence[float]) -> float:
    """Return up to which pace a core counts as undisturbed, where that of ``paces_s`` was seen."""
    return DISTURBED * sorted(paces_s)[int(_FASTEST * len(paces_s))]


def slowed_share(look_s: float, look: Callable[[], float] | None = None) -> float:
    """Return the share of the coming ``look_s`` in which others slow this thread's core."""
    look = look or _look
    until_s, paces_s = time.perf_counter() + look_s, [look()]
    while time.perf_counter() < until_s:
        paces_s.append(look())
    return _share_slowed(paces_s, paces_s)


def _share_slowed(paces_s: Sequence[float], seen_s: Sequence[float]) -> float:
    """Return the share of ``paces_s`` that others slowed, by the fastest of all that were seen."""
    limit_s = undisturbed_s(seen_s)
    return sum(pace_s > limit_s for pace_s in paces_s) / len(paces_s)


class HostPace:
    """Looks at the pace of this thread's core between units of work, every 40 ms at most.

    A look takes 20 us, 0.05 % of the time. There are none in virtual time, in which units take this
    core nothing.

    Args:
        clock: What times looks.
        is_ours: Whether units run on this thread, not in processes of their own.
        look: Returns the pace, in seconds.
    """

    def __init__(
        self, clock: Clock, *, is_ours: bool = True, look: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self._looks = is_ours and isinstance(clock, MonotonicClock)
        self._look = look or _look
        self._seen: deque[tuple[float, float]] = deque(maxlen=_MOST_LOOKS)  # when, and the pace

    def between(self, run_unit: Callable[[], float]) -> Callable[[], float]:
        """Return ``run_unit`` with a look before it where one is due."""
        if not self._looks:
            return run_unit

        def run() -> float:
            now_s = self._clock.now_s()
            if not self._seen or now_s >= self._seen[-1][0] + _PERIOD_S:
                self._seen.append((now_s, self._look()))
            return run_unit()

        return run

    def disturbed_share(self, start_s: float, stop_s: float) -> float | None:
        """Return the share of the looks between two instants at which others slowed the core.

        An undisturbed core's pace is that of the fastest looks lately. ``None`` of few looks.
        """
        inside_s = [pace_s for at_s, pace_s in self._seen if start_s <= at_s <= stop_s]
        if len(inside_s) < _LEAST_LOOKS:
            return None
        return _share_slowed(inside_s, [pace_s for _, pace_s in self._seen])


def _look() -> float:
    """Return the better of two: an interrupt lengthens one."""
    return min(python_call_s(_NUM_CALLS), python_call_s(_NUM_CALLS))
