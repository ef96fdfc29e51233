"""The closed form of the launch stream against simulations kernel by kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.estimator.pricing.run import elapsed_s, is_queued, mode_on
from joulelab.hardware.processors import PROCESSORS

SECONDS = st.floats(1e-7, 1e-3)
KERNELS = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=50)


def simulated(kernels, executions, backlog_s):
    """Return when each of so many executions ends of what is launched behind a backlog."""
    host, end = 0.0, backlog_s
    ends = []
    for _ in range(executions):
        for device, launch in kernels:
            host += launch
            end = max(host, end) + device
        ends.append(end)
    return ends


@given(KERNELS)
def test_executions_in_a_row_take_what_a_simulated_stream_of_them_does(kernels):
    device, launch = np.array(kernels).T

    elapsed = elapsed_s(device, launch, queued=True)

    backlog_s = launch.sum() if device.sum() >= launch.sum() else 0.0  # as after many executions
    ends = simulated(kernels, 20, backlog_s)
    assert elapsed.sum() == pytest.approx((ends[-1] - ends[9]) / 10, rel=1e-9)
    assert (elapsed >= device).all()


def test_a_host_launches_the_next_execution_while_the_device_ends_this_one():
    launched_one_by_one, one_large = (1e-6, 8e-6), (2e-3, 8e-6)

    device, launch = np.array([launched_one_by_one] * 1000 + [one_large]).T
    elapsed = elapsed_s(device, launch, queued=True)

    assert elapsed.sum() == pytest.approx(1001 * 8e-6)  # 2 ms more, where it is run once
    assert elapsed[-1] == pytest.approx(2e-3, rel=0.01)  # the device waits for the small ones


def test_without_a_queue_every_kernel_waits_for_its_launch():
    elapsed = elapsed_s(np.array([[1.0, 2.0]]), np.array([0.5, 0.25]), queued=False)

    assert elapsed.tolist() == [[1.5, 2.25]]


def test_slow_launches_set_the_time_and_fast_ones_hide():
    slow = elapsed_s(np.full(100, 1.0), np.full(100, 3.0), queued=True)
    fast = elapsed_s(np.full(100, 3.0), np.full(100, 1.0), queued=True)

    assert slow.sum() == pytest.approx(100 * 3.0)
    assert fast.sum() == 100 * 3.0


def test_only_eager_programs_on_gpus_are_queued():
    assert is_queued(PROCESSORS["a100"], "eager")
    assert not is_queued(PROCESSORS["a100"], "graph")
    assert mode_on(PROCESSORS["a100"], "eager") == "eager"
