"""What metering costs the pace of a program: metered and bare spells of one run, in turn."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from joulelab.core.additive import Interval
from joulelab.core.clock import Clock
from joulelab.core.statistics import mean_u, student_t

NUM_PAIRS, SPELL_S, LONGEST_S = 6, 0.2, 15.0
"""Pairs of spells at least, their length, and how long they usually go on at most: a scatter of 3 %
from pair to pair is known by then. Where a host scatters by 8 %, two minutes resolve 1.1 %."""
_KNOWN = 0.01
"""Half of the widest interval that tells something: metering is to cost no more than 2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteringCost:
    """Seconds per unit of work in pairs of neighbouring spells, metered and bare."""

    pairs: tuple[tuple[float, float], ...]

    @property
    def slowdown(self) -> Interval:
        """Time that metering adds, relative, with its 95 % interval."""
        return mean_difference(self.pairs)

    @property
    def is_known(self) -> bool:
        """Whether spells are alike enough to tell it."""
        return self.slowdown.half_width <= _KNOWN


def mean_difference(pairs: Sequence[tuple[float, float]]) -> Interval:
    """Return by how much the first of each pair is above the second, relative, with 95 %."""
    logs = [log(one / other) for one, other in pairs]
    mean, half = fmean(logs), student_t(0.95, len(logs)) * mean_u(logs)
    return Interval(value=exp(mean) - 1, low=exp(mean - half) - 1, high=exp(mean + half) - 1)


def metering_cost(
    clock: Clock,
    run: Callable[[], float],
    metered: Callable[[], AbstractContextManager[object]],
    longest_s: float = LONGEST_S,
) -> MeteringCost:
    """Run metered and bare spells one after the other, the other first in every second pair.

    They go on until they tell something.

    Args:
        clock: The clock of the program.
        run: Does some work and returns how much.
        metered: What is entered around a spell that is metered.
        longest_s: For how long they go on where they tell nothing, besides a last pair.
    """
    run()  # the GPU may have rested
    start_s, pairs = clock.now_s(), list[tuple[float, float]]()
    while True:
        found = {}
        is_first = len(pairs) % 2 == 0  # a drift cancels
        for is_metered in (is_first, not is_first):
            with metered() if is_metered else nullcontext():
                found[is_metered] = _unit_s(clock, run)
        pairs.append((found[True], found[False]))
        cost = MeteringCost(pairs=tuple(pairs))
        if len(pairs) >= NUM_PAIRS and (cost.is_known or clock.now_s() - start_s >= longest_s):
            break
    return cost


def _unit_s(clock: Clock, run: Callable[[], float]) -> float:
    run()  # metering begins in it, once in a measurement: 1.7 ms of 12 ms on an H200's host
    start_s, work = clock.now_s(), 0.0
    while clock.now_s() - start_s < SPELL_S:
        work += run()
    return (clock.now_s() - start_s) / work
