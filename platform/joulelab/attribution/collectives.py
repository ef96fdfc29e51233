"""What the ranks of a shared program spend on each other: communication, and waiting for it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from joulelab.attribution.profile import KernelCall, PhaseProfile
from joulelab.errors import MeasurementError
from joulelab.tracing.program import ALL_REDUCE, LINKS_AWAKE, WAITING

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
    _require_same([len(each) if one else -1 for each, one in zip(durations, ranks, strict=True)])
    communication_s = sum(map(min, zip(*durations, strict=True)))
    return tuple(
        _times(one, sum(own), communication_s) for one, own in zip(ranks, durations, strict=True)
    )


def _require_same(counts: Sequence[int]) -> None:
    if len(set(counts)) != 1 or min(counts) < 0:
        raise MeasurementError(
            "Every rank must have launched the same collectives, but the ranks launched "
            f"{', '.join(str(max(count, 0)) for count in counts)}; profile the same execution on "
            "all of them."
        )


def apart(
    ranks: Sequence[PhaseProfile], waiting_s: Sequence[float], whole_s: float
) -> tuple[PhaseProfile, ...]:
    """Return the profiles of ranks with communication, waiting and links in calls of their own.

    In a profile ranks wait as profiled ones do. So a sum keeps what communicates, the least of its
    times on all ranks, and what ranks wait is what they were metered to wait in the run, alike in
    all sums. Links stay awake from the first sum to the last.

    Args:
        ranks: Profiles of one phase.
        waiting_s: What each rank waits in an execution, in seconds.
        whole_s: What an execution takes, in seconds.

    Raises:
        MeasurementError: If ranks launched unequal sums.
    """
    sums = [[call for call in one.calls if _is_sum(call)] for one in ranks]
    _require_same(list(map(len, sums)))
    communication_s = [
        float(np.min([call.each_s or (call.device_s,) for call in calls], axis=0).mean())
        for calls in zip(*sums, strict=True)
    ]
    return tuple(
        replace(one, calls=(*_apart(one.calls, communication_s, waited_s), *_awake(one, whole_s)))
        for one, waited_s in zip(ranks, waiting_s, strict=True)
    )


def _apart(
    calls: Sequence[KernelCall], communication_s: Sequence[float], waited_s: float
) -> Generator[KernelCall]:
    left_s = iter(communication_s)
    for call in calls:
        if not _is_sum(call):
            yield call
            continue
        yield replace(call, device_s=next(left_s))
        if waited_s > 0:
            yield KernelCall(
                operator=replace(call.operator, name=WAITING),
                kernel=f"{WAITING} in {call.kernel}",
                device_s=waited_s / len(communication_s),
                waits_in=call.kernel,
            )


def _awake(profile: PhaseProfile, whole_s: float) -> list[KernelCall]:
    """Return the links as a call beside all others; none where nothing is summed."""
    sums = (call for call in profile.calls if _is_sum(call))
    return [
        KernelCall(
            operator=replace(call.operator, name=LINKS_AWAKE, module=""),
            kernel=LINKS_AWAKE,
            device_s=0.0,
            beside_s=whole_s,
        )
        for call in islice(sums, 1)
    ]


def _is_sum(call: KernelCall) -> bool:
    return call.operator.name == ALL_REDUCE


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
