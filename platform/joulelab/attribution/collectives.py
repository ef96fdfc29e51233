"""What the ranks of a shared program spend on each other: communication, and waiting for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from joulelab.errors import MeasurementError

COLLECTIVE = "ncclDevKernel"
"""How names of NCCL's kernels begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimes:
    """Where the time of one rank's GPU goes in an execution, in seconds."""

    compute_s: float  # kernels of its own
    communication_s: float  # collectives, had all ranks come to them at once
    waiting_s: float  # collectives that began before the last rank had come
    gaps_s: float  # nothing ran


def rank_times(ranks: Sequence[Sequence[tuple[str, float, float]]]) -> tuple[RankTimes, ...]:
    """Divide the time of each rank among work, communication, waiting and gaps.

    All ranks launch the same collectives in the same order. The rank that comes last waits for
    nobody, so the shortest of the k-th kernels is communication, and what others take longer is
    waiting: NCCL's kernels spin until the data come.

    Args:
        ranks: Of each rank the kernels of one execution: name, start and duration in seconds.

    Raises:
        MeasurementError: If there are no kernels, or ranks launched unequal collectives.
    """
    durations = [[d for name, _, d in one if name.startswith(COLLECTIVE)] for one in ranks]
    if len(set(map(len, durations))) != 1 or not all(ranks):
        raise MeasurementError(
            "Every rank must have launched the same collectives, but they launched "
            f"{', '.join(str(len(each)) for each in durations)} of {len(ranks)} ranks; profile the "
            "same execution on all of them."
        )
    communication_s = sum(map(min, zip(*durations, strict=True)))
    return tuple(
        _times(one, sum(own), communication_s) for one, own in zip(ranks, durations, strict=True)
    )


def _times(
    kernels: Sequence[tuple[str, float, float]], collectives_s: float, communication_s: float
) -> RankTimes:
    start_s = min(start for _, start, _ in kernels)
    stop_s = max(start + duration for _, start, duration in kernels)
    return RankTimes(
        compute_s=sum(duration for _, _, duration in kernels) - collectives_s,
        communication_s=communication_s,
        waiting_s=collectives_s - communication_s,
        gaps_s=stop_s - start_s - _covered_s(kernels),
    )


def _covered_s(kernels: Sequence[tuple[str, float, float]]) -> float:
    """Return for how long any kernel ran; those of two streams may overlap."""
    covered_s, reached_s = 0.0, -float("inf")
    for _, start_s, duration_s in sorted(kernels, key=lambda kernel: kernel[1]):
        stop_s = start_s + duration_s
        covered_s += max(0.0, stop_s - max(start_s, reached_s))
        reached_s = max(reached_s, stop_s)
    return covered_s
