import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.cost import KernelCost
from joulelab.errors import ConfigError
from joulelab.tracing.kernels import averaged, merged, repeated

KERNELS = st.lists(
    st.builds(
        KernelCost,
        name=st.sampled_from(["gemm", "copy"]),
        pipe=st.sampled_from(["fp32", "tensor_bf16"]),
        flop=st.integers(0, 3).map(float),
        dram_b=st.integers(0, 3).map(float),
        count=st.integers(1, 4),
    )
)


def totals(kernels):
    return (
        sum(kernel.flop * kernel.count for kernel in kernels),
        sum(kernel.dram_b * kernel.count for kernel in kernels),
        sum(kernel.count for kernel in kernels),
    )


@given(KERNELS)
def test_merging_changes_no_total_and_leaves_no_two_equal_kernels(kernels):
    result = merged(kernels)

    assert totals(result) == totals(kernels)
    assert len({(k.name, k.pipe, k.flop, k.dram_b) for k in result}) == len(result)


@given(KERNELS, st.integers(1, 100))
def test_repeating_multiplies_every_total(kernels, times):
    assert totals(repeated(kernels, times)) == tuple(times * total for total in totals(kernels))


@given(KERNELS)
def test_the_average_of_a_trace_with_itself_is_itself(kernels):
    assert averaged(kernels, kernels) == tuple(kernels)


@given(st.integers(1, 50), st.integers(0, 100))
def test_the_average_of_the_ends_of_a_linear_series_is_its_mean(num_steps, start):
    series = [
        [KernelCost(name="copy", pipe="fp32", flop=0.0, dram_b=float(start + step))]
        for step in range(num_steps)
    ]

    (mean,) = averaged(series[0], series[-1])

    assert mean.dram_b == pytest.approx(sum(k.dram_b for (k,) in series) / num_steps)


def test_traces_that_launch_different_kernels_are_not_averaged():
    one = KernelCost(name="copy", pipe="fp32", flop=0.0, dram_b=1.0)
    other = KernelCost(name="gemm", pipe="fp32", flop=1.0, dram_b=1.0)

    with pytest.raises(ConfigError, match="same kernels"):
        averaged([one], [other])
