"""The closed form of the launch stream against a simulation kernel by kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.estimator.pricing.run import elapsed_s, is_queued, mode_on
from joulelab.hardware.processors import PROCESSORS

SECONDS = st.floats(1e-7, 1e-3)
KERNELS = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=50)


def simulated(kernels):
    host = end = 0.0
    ends = []
    for device, launch in kernels:
        host += launch
        end = max(host, end) + device
        ends.append(end)
    return np.diff([0.0, *ends])


@given(KERNELS)
def test_the_closed_form_is_the_simulated_stream(kernels):
    device, launch = np.array(kernels).T

    elapsed = elapsed_s(device, launch, queued=True)

    assert elapsed == pytest.approx(simulated(kernels), rel=1e-9, abs=1e-15)


def test_without_a_queue_every_kernel_waits_for_its_launch():
    elapsed = elapsed_s(np.array([[1.0, 2.0]]), np.array([0.5, 0.25]), queued=False)

    assert elapsed.tolist() == [[1.5, 2.25]]


def test_slow_launches_set_the_time_and_fast_ones_hide():
    slow = elapsed_s(np.full(100, 1.0), np.full(100, 3.0), queued=True)
    fast = elapsed_s(np.full(100, 3.0), np.full(100, 1.0), queued=True)

    assert slow.sum() == 100 * 3.0 + 1.0
    assert fast.sum() == 1.0 + 100 * 3.0


def test_only_eager_programs_on_gpus_are_queued():
    assert is_queued(PROCESSORS["a100"], "eager")
    assert not is_queued(PROCESSORS["a100"], "graph")
    assert mode_on(PROCESSORS["a100"], "eager") == "eager"
