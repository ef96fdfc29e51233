"""What governing saved: governed blocks of time against blocks that were left to the driver.

Blocks differ in what ran in them. So each is compared with what its own work takes by default: per
phase, the mean of all blocks that were left to the driver, or where the program reports progress,
per unit of it. Of those blocks each is compared with the others of its kind, so that how they
scatter shows how well that is known. Differences of logarithms have Welch's interval (Biometrika
34, 1947).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, floor, hypot, inf, log
from random import Random
from statistics import fmean, median

from joulelab.core.statistics import mean_u, student_quantile
from joulelab.errors import MeasurementError
from joulelab.governor.observing import Observation
from joulelab.governor.phase import Phase
from joulelab.objectives import Objective

SETTLE_S = 0.3
"""What a block begins with and does not count: the point of the one before is still in force."""


@dataclass(slots=True, kw_only=True)
class Sums:
    """Of one phase in one block."""

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
    """A block."""

    is_on: bool
    start_s: float
    # What was done in it, by the number of the phase.
    by_phase: dict[int, Sums] = field(default_factory=lambda: defaultdict(Sums))
    progress: float = 0.0  # units of work that the program reported in it
    num_reports: int = 0  # windows in which it reported any
    duration_s: float = 0.0  # time that was looked at
    energy_j: float = 0.0
    spoilt: str = ""  # why it does not count; empty if it does

    def holds(self, seen: Observation) -> bool:
        """Whether a window counts: its begin is when the point changes, and left out."""
        return seen.start_s >= self.start_s + SETTLE_S

    def report(self, seen: Observation, progress: float) -> None:
        """Take in what the program reported in a window."""
        if progress and self.holds(seen):
            self.progress += progress
            self.num_reports += 1

    def add(self, seen: Observation, phase: Phase, speed: float | None) -> None:
        """Take in a window of a phase, with its speed over the driver's point if known."""
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
    """Deals blocks from ``start_s`` on: in each round one, at random, is left to the driver.

    ``off_share`` is the share of these; 0 for none.
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
        return next(each for each in reversed(self.blocks) if each.start_s <= now_s)

    def _deal(self) -> bool:
        if not self._num_in_round:
            return True
        if not self._left:
            self._left = [False] + [True] * (self._num_in_round - 1)
            self._random.shuffle(self._left)
        return self._left.pop()


FEWEST_BLOCKS = 3
COUNTERS_U = 0.001
"""Standard uncertainty of work that is inferred from counters, relative: what windows in which a
phase changed leave open (simulated loads: 0.01 to 0.2 %)."""
BRIEF_U = 0.007
"""The same where looks were brief: a phase that takes as much power as the one before is seen late
(simulated chats, 0.8 to 1.4 % of time; root mean square of eleven runs of five loads 0.65 %)."""
FEWEST_REPORTS = 2
"""With fewer reports of progress in most blocks, others have none and are left out, and one with a
single one is as quick as any: no slowdown would show."""
_WHOLE = 0.5
"""A block counts if so much of it was looked at and is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A relative change by governing, with its 95 % interval; -0.2 is a saving of 20 %."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What governing changed."""

    energy: Estimate
    time: Estimate  # time per work: the slowdown
    cost: Estimate
    num_on: int
    num_off: int
    by_progress: bool  # whether work is what the program reported, and not what counters show
    unknown_share: float  # share of the time that is in neither, since its work is not known


def compare(
    blocks: Sequence[Block], objective: Objective, counters_u: float = COUNTERS_U
) -> Comparison:
    """Compare governed blocks with the others.

    ``counters_u`` is the standard uncertainty of work that is inferred from counters, relative.
    Raises MeasurementError if there are too few of either; says how to have more.
    """
    whole = [block for block in blocks if not block.spoilt and _is_whole(block, blocks)]
    by_progress = any(block.progress for block in whole)
    if by_progress:
        whole = _reporting(whole)
    on, off = ([block for block in whole if block.is_on is which] for which in (True, False))
    if min(len(on), len(off)) < FEWEST_BLOCKS:
        raise MeasurementError(
            f"A saving needs at least {FEWEST_BLOCKS} whole blocks that were governed and as many "
            f"that were left to the driver, got {len(on)} and {len(off)}; run longer, or take "
            "shorter blocks (--block-s) or a larger share of them (--off-share)."
        )
    ratios = _by_progress if by_progress else _by_phase
    on_ratios = [ratios(block, off) for block in on]
    off_ratios = [ratios(block, [other for other in off if other is not block]) for block in off]

    def estimate(a: float, b: float) -> Estimate:
        on, off = ([a * e + b * t for e, t in each] for each in (on_ratios, off_ratios))
        return _welch(on, off, 0.0 if by_progress else counters_u)

    seen_s = sum(block.duration_s for block in whole)
    return Comparison(
        energy=estimate(1.0, 0.0),
        time=estimate(0.0, 1.0),
        cost=estimate(objective.energy_exponent, objective.time_exponent),
        num_on=len(on),
        num_off=len(off),
        by_progress=by_progress,
        unknown_share=0.0 if by_progress else 1.0 - _known_s(whole, off) / seen_s,
    )


def _is_whole(block: Block, blocks: Sequence[Block]) -> bool:
    longest_s = max(other.duration_s for other in blocks)
    known_s = sum(sums.duration_s for sums in block.by_phase.values())
    return min(block.duration_s, known_s) >= _WHOLE * longest_s


def _reporting(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with progress; MeasurementError if that comes too rarely to compare."""
    found = [block for block in blocks if block.progress]
    usual = median(block.num_reports for block in found)
    if usual < FEWEST_REPORTS:
        raise MeasurementError(
            f"Progress must be reported {FEWEST_REPORTS} times or more in a block, got "
            f"{usual:g} in most of those with any; report smaller units of work, or take longer "
            "blocks (--block-s)."
        )
    return found


def _by_progress(block: Block, _: Sequence[Block]) -> tuple[float, float]:
    """Return logarithms of energy and time of a unit of progress."""
    return log(block.energy_j / block.progress), log(block.duration_s / block.progress)


def _by_phase(block: Block, off: Sequence[Block]) -> tuple[float, float]:
    """Compare a block with what its work takes in ``off``; phases not seen there are left out."""
    usual = _pooled(off)
    energy_j = time_s = usual_j = usual_s = 0.0
    for number, sums in block.by_phase.items():
        there = usual.get(number)
        if there is None or not there.work > 0:
            continue
        energy_j, time_s = energy_j + sums.energy_j, time_s + sums.duration_s
        usual_j += sums.work * there.energy_j / there.work
        usual_s += sums.work * there.duration_s / there.work
    if not min(usual_j, usual_s) > 0:
        raise MeasurementError(
            "No phase of a governed block was seen in the others, so there is nothing to compare "
            "with; run longer."
        )
    return log(energy_j / usual_j), log(time_s / usual_s)


def _pooled(blocks: Sequence[Block]) -> dict[int, Sums]:
    pooled: dict[int, Sums] = defaultdict(Sums)
    for block in blocks:
        for number, sums in block.by_phase.items():
            pooled[number].add(sums.duration_s, sums.work, sums.energy_j)
    return pooled


def _known_s(blocks: Sequence[Block], off: Sequence[Block]) -> float:
    usual = _pooled(off)
    return sum(
        sums.duration_s
        for block in blocks
        for number, sums in block.by_phase.items()
        if number in usual
    )


def _welch(on: Sequence[float], off: Sequence[float], systematic_u: float) -> Estimate:
    on_u, off_u = mean_u(on), mean_u(off)
    u, center = hypot(on_u, off_u), fmean(on) - fmean(off)
    half = 0.0
    if u:
        dof = u**4 / (on_u**4 / (len(on) - 1) + off_u**4 / (len(off) - 1))
        half = student_quantile(0.975, max(1, floor(dof))) * u
    half = hypot(half, student_quantile(0.975, inf) * systematic_u)
    return Estimate(
        value=exp(center) - 1, lower=exp(center - half) - 1, upper=exp(center + half) - 1
    )
