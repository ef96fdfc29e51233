"""Communication and waiting of ranks, from kernels whose times are known."""

import pytest

from joulelab.attribution.collectives import RankTimes, apart, rank_times
from joulelab.attribution.components import component_of
from joulelab.attribution.profile import KernelCall, PhaseProfile
from joulelab.errors import MeasurementError
from joulelab.tracing.program import ALL_REDUCE, Operator

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


def profile(*calls):
    """A profile of one rank: names of operators, and their times in each execution."""
    return PhaseProfile(
        phase="decode",
        executions=1,
        unit="token",
        work=1.0,
        calls=tuple(
            KernelCall(
                operator=Operator(
                    name=name, kind="copy", flop=0.0, read_b=1.0, weight_b=0.0, written_b=1.0
                ),
                kernel=f"{name} kernel",
                device_s=sum(each_s) / len(each_s),
                each_s=each_s,
            )
            for name, each_s in calls
        ),
    )


def test_a_sum_is_the_least_of_each_execution_and_waiting_is_that_of_the_run():
    one = profile(("mm", (1.0, 1.0)), (ALL_REDUCE, (2.0, 5.0)), (ALL_REDUCE, (3.0, 3.0)))
    other = profile(("mm", (1.0, 1.0)), (ALL_REDUCE, (4.0, 3.0)), (ALL_REDUCE, (3.0, 3.0)))

    waits, comes_last = apart([one, other], [0.8, 0.0], 12.0)

    times_s = [(component_of(call.operator), call.device_s) for call in waits.calls[1:-1]]
    assert times_s == [
        ("communication", 2.5),
        ("waiting", 0.4),
        ("communication", 3.0),
        ("waiting", 0.4),
    ]
    assert [call.device_s for call in comes_last.calls[:-1]] == [1.0, 2.5, 3.0]
    assert waits.calls[2].waits_in == waits.calls[1].kernel


def test_profiles_of_unequal_sums_are_refused():
    with pytest.raises(MeasurementError, match="launched 1, 0"):
        apart([profile((ALL_REDUCE, (1.0,))), profile(("mm", (1.0,)))], [0.0, 0.0], 9.0)


def test_links_are_awake_all_the_time_where_anything_is_summed():
    (summed,) = apart([profile(("mm", (1.0,)), (ALL_REDUCE, (2.0,)))], [0.0], 12.0)
    (alone,) = apart([profile(("mm", (1.0,)))], [0.0], 12.0)

    links = summed.calls[-1]
    assert (component_of(links.operator), links.beside_s) == ("links awake", 12.0)
    assert summed.busy_s == 3.0
    assert [call.beside_s for call in alone.calls] == [0.0]
