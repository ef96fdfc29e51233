"""Times of kernels from two passes over a program."""

import numpy as np
import pytest

from joulelab.attribution.kineto import Launches, Signature
from joulelab.attribution.torch_source import MarkedLaunches, paced_by_name


def launches(*kernels):
    """Kernels of a warm run: names and times, one after the other."""
    names = [name for name, _ in kernels]
    durations_s = np.array([duration_s for _, duration_s in kernels])
    count = len(kernels)
    return Launches(
        signatures=tuple(Signature(name, 0, 7, (1,), (1,), 0) for name in names),
        signature=np.arange(count),
        start_s=np.cumsum(durations_s) - durations_s,
        duration_s=durations_s,
        range=np.full(count, -1),
        ranges=(),
        operator=np.full(count, -1),
        operators=(),
    )


def marked(*kernels):
    return MarkedLaunches(
        calls={},
        names=[name for name, _ in kernels],
        owner=np.arange(len(kernels)),
        duration_s=np.array([duration_s for _, duration_s in kernels]),
        lost=0,
    )


def test_kernels_of_one_name_keep_the_times_of_their_shapes_at_the_pace_of_the_warm_run():
    """A diffusion's normalisations all had the mean of their name, small and large ones alike."""
    once = marked(("norm", 10e-6), ("gemm", 50e-6), ("norm", 70e-6))
    warm = launches(("norm", 8e-6), ("norm", 56e-6), ("gemm", 40e-6), ("gemm", 40e-6))

    paced_s = paced_by_name(once, warm)

    assert paced_s == pytest.approx([8e-6, 40e-6, 56e-6])


def test_a_kernel_that_the_warm_run_did_not_launch_keeps_its_own_time():
    paced_s = paced_by_name(marked(("only once", 30e-6)), launches(("gemm", 40e-6)))

    assert paced_s == pytest.approx([30e-6])
