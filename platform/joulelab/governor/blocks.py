"""Blocks of time that are governed or left to the driver, in random order, to be compared."""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from joulelab.governor.observing import Observation
from joulelab.governor.phase import Phase

SETTLE_S = 0.3
"""What a block begins with and does not count: the point of the one before is still in force."""


@dataclass(slots=True, kw_only=True)
class Sums:
    """Of one phase in one block.

    Attributes:
        duration_s: Its time.
        work: Its work, in units of the phase.
        energy_j: Its energy.
    """

    duration_s: float = 0.0
    work: float = 0.0
    energy_j: float = 0.0

    def add(self, duration_s: float, work: float, energy_j: float) -> None:
        """Take in a window."""
        self.duration_s += duration_s
        self.work += work
        self.energy_j += energy_j


@dataclass(slots=True, kw_only=True)
class Block:
    """A block.

    Attributes:
        is_on: Whether it is governed.
        start_s: When it begins.
        by_phase: What was done in it, by the number of the phase.
        progress: Units of work that the program reported in it.
        duration_s: Time that was looked at.
        energy_j: Energy of that time.
        spoilt: Why it does not count; empty if it does.
    """

    is_on: bool
    start_s: float
    by_phase: dict[int, Sums] = field(default_factory=lambda: defaultdict(Sums))
    progress: float = 0.0
    duration_s: float = 0.0
    energy_j: float = 0.0
    spoilt: str = ""

    def holds(self, seen: Observation) -> bool:
        """Whether a window counts: its begin is when the point changes, and left out."""
        return seen.start_s >= self.start_s + SETTLE_S

    def add(self, seen: Observation, phase: Phase, speed: float | None) -> None:
        """Take in a window of a phase.

        Args:
            seen: The window.
            phase: What ran.
            speed: How fast its work went, over the driver's own point; ``None`` if unknown.
        """
        if not self.holds(seen):
            return
        self.duration_s += seen.duration_s
        self.energy_j += seen.energy_j
        if speed is not None:
            reference = phase.reference
            unit = 1.0 if phase.is_idle or reference is None else reference.speed.mean
            work = speed * unit * seen.duration_s
            self.by_phase[phase.number].add(seen.duration_s, work, seen.energy_j)


class Schedule:
    """Deals blocks: in each round one, at random, is left to the driver.

    Args:
        start_s: When the first begins.
        block_s: How long each is.
        off_share: Share of blocks that are left to the driver; 0 for none.
        seed: Seed of the order.
    """

    def __init__(self, start_s: float, *, block_s: float, off_share: float, seed: int) -> None:
        self._block_s = block_s
        self._num_in_round = round(1 / off_share) if off_share else 0
        self._random = Random(seed)  # noqa: S311 - an order, not a secret
        self._left: list[bool] = []
        self.blocks = [Block(is_on=self._deal(), start_s=start_s)]

    def block(self, now_s: float) -> Block:
        """Return the block that ``now_s`` is in."""
        while now_s >= self.blocks[-1].start_s + self._block_s:
            start_s = self.blocks[-1].start_s + self._block_s
            self.blocks.append(Block(is_on=self._deal(), start_s=start_s))
        return self.blocks[-1]

    def _deal(self) -> bool:
        if not self._num_in_round:
            return True
        if not self._left:
            self._left = [False] + [True] * (self._num_in_round - 1)
            self._random.shuffle(self._left)
        return self._left.pop()
