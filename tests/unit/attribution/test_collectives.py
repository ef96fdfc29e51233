"""Communication and waiting of ranks, from kernels whose times are known."""

import pytest

from joulelab.attribution.collectives import RankTimes, rank_times
from joulelab.errors import MeasurementError

SUM = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def test_the_rank_that_comes_last_only_communicates_and_the_other_waits():
    early = [("gemm", 0.0, 1.0), (SUM, 1.0, 3.0), ("gemm", 5.0, 1.0)]
    late = [("gemm", 0.0, 3.0), (SUM, 3.0, 1.0), ("gemm", 5.0, 1.0)]

    assert rank_times([early, late]) == (
        RankTimes(compute_s=2.0, communication_s=1.0, waiting_s=2.0, gaps_s=1.0),
        RankTimes(compute_s=4.0, communication_s=1.0, waiting_s=0.0, gaps_s=1.0),
    )


def test_ranks_take_turns_in_waiting():
    one = [(SUM, 0.0, 5.0), (SUM, 5.0, 2.0)]
    other = [(SUM, 3.0, 2.0), (SUM, 5.0, 3.0)]

    times = rank_times([one, other])

    assert [each.communication_s for each in times] == [4.0, 4.0]
    assert [each.waiting_s for each in times] == [3.0, 1.0]


def test_kernels_of_two_streams_leave_no_gap_while_either_runs():
    kernels = [("gemm", 0.0, 4.0), (SUM, 1.0, 1.0), ("gemm", 6.0, 1.0)]

    (times,) = rank_times([kernels])

    assert times.gaps_s == 2.0


@pytest.mark.parametrize("other", [[("gemm", 0.0, 1.0)], []])
def test_ranks_of_different_programs_are_refused(other):
    with pytest.raises(MeasurementError, match="same collectives"):
        rank_times([[(SUM, 0.0, 1.0)], other])
