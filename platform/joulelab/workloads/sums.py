"""How long each process waits for the others in the sums of a program that several share.

The process that comes to a sum last waits for nobody: what the others take longer, they wait. One
sum in some is timed, by events of the GPU that the host does not wait for.
"""

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from joulelab.core.energy import EnergyWindow

EVERY = 13
"""One sum in so many is timed. A prime that divides the sums of no usual number of layers, so that
each of them has its turn; of a decode with 3000 sums a second, 230."""
_MOST = 4096
"""Times that are kept where nobody reads them, as in a profile."""
_KEPT_RUNS = 10_000


class Sums:
    """The sums of this process."""

    def __init__(self) -> None:
        self._count = 0
        self._timed: deque[tuple[Any, Any]] = deque(maxlen=_MOST)

    @contextmanager
    def timed(self) -> Generator[None]:
        """Time the sum in a ``with`` block, if it is its turn."""
        self._count += 1
        if self._count % EVERY:
            yield
            return
        start = _instant()
        yield
        self._timed.append((start, _instant()))

    def read_s(self) -> list[float]:
        """Return the times since the last reading, in seconds; the GPU must have ended them."""
        times_s = [_between_s(*pair) for pair in self._timed]
        self._timed.clear()
        return times_s


def _instant() -> Any:
    import torch

    if not torch.cuda.is_available():
        return perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _between_s(start: Any, stop: Any) -> float:
    if isinstance(start, float):
        return float(stop - start)
    return 1e-3 * float(start.elapsed_time(stop))


def waited_s(ranks: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return how long each rank waited, in seconds, from times of the same sums of each.

    Nothing where other sums were timed on one rank than on another.
    """
    if len(set(map(len, ranks))) != 1:
        return ()
    shortest_s = list(map(min, zip(*ranks, strict=True)))
    return tuple(EVERY * (sum(own) - sum(shortest_s)) for own in ranks)


@dataclass(frozen=True, slots=True)
class _Run:
    start_s: float
    stop_s: float
    work: float
    waited_s: tuple[float, ...]


class WaitLog:
    """What each rank waited in the latest runs."""

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque(maxlen=_KEPT_RUNS)

    def add(self, start_s: float, stop_s: float, work: float, waited_s: Sequence[float]) -> None:
        """Add a run, by the clock of the windows that will be asked about."""
        self._runs.append(_Run(start_s, stop_s, work, tuple(waited_s)))

    def figures(self, windows: Sequence[EnergyWindow]) -> dict[str, float]:
        """Return what each rank waited in ``windows``, per unit of work; empty if not known."""
        inside = [run for run in self._runs if any(_holds(window, run) for window in windows)]
        work = sum(run.work for run in inside)
        if not work or not all(run.waited_s for run in inside):
            return {}
        ranks = zip(*(run.waited_s for run in inside), strict=True)
        return {waiting_figure(rank): sum(own) / work for rank, own in enumerate(ranks)}


def waiting_figure(rank: int) -> str:
    """Return what the waiting of a rank is called among the figures of a measurement."""
    return f"gpu{rank}.waiting_per_unit_s"


def _holds(window: EnergyWindow, run: _Run) -> bool:
    middle_s = (run.start_s + run.stop_s) / 2
    return window.start_s <= middle_s <= window.start_s + window.duration_s
