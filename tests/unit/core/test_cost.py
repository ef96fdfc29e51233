"""What an execution costs is the sum over its kernels, each as often as it runs."""

import pytest

from joulelab.core.cost import KernelCost, PhaseCost, Request
from joulelab.errors import ConfigError


def test_a_phase_costs_what_its_kernels_cost_as_often_as_they_run():
    product = KernelCost(name="gemm", pipe="tensor_bf16", flop=5.0, dram_b=7.0, count=3)
    copy = KernelCost(name="copy", pipe="fp32", flop=0.0, dram_b=11.0, count=2)

    phase = PhaseCost(phase="run", work=1, kernels=(product, copy))

    assert phase.flop == 3 * 5
    assert phase.dram_b == 3 * 7 + 2 * 11
    assert phase.num_launches == 3 + 2


def test_a_kernel_may_move_nothing_and_runs_once_unless_more_is_asked():
    kernel = KernelCost(name="spin", pipe="fp32", flop=9.0, dram_b=0.0)

    assert PhaseCost(phase="run", work=1, kernels=(kernel,)).num_launches == 1


@pytest.mark.parametrize("wrong", [{"flop": -1.0}, {"dram_b": -1.0}, {"count": 0}])
def test_a_kernel_that_does_less_than_nothing_is_refused(wrong):
    with pytest.raises(ConfigError, match="must not be negative and count at least 1"):
        KernelCost(**{"name": "spin", "pipe": "fp32", "flop": 9.0, "dram_b": 7.0, **wrong})


@pytest.mark.parametrize(("devices", "sums"), [({}, False), ({"num_devices": 2}, True)])
def test_a_phase_is_one_devices_own_unless_more_are_asked_for(devices, sums):
    kernel = KernelCost(name="all_reduce", pipe="fp32", flop=0.0, dram_b=7.0)

    assert PhaseCost(phase="run", work=1, kernels=(kernel,), **devices).sums_over_devices is sums


def test_a_request_of_512_tokens_in_and_64_out_holds_eight_of_the_prefill_per_token_out():
    request = Request(units={"prefill": 512.0, "decode": 64.0}, size=64.0)

    assert request.per_unit("prefill") == 8
    assert request.per_unit("decode") == 1


@pytest.mark.parametrize(("units", "size"), [({}, 1.0), ({"decode": 0.0}, 1.0), ({"a": 1.0}, 0.0)])
def test_a_request_without_work_is_refused(units, size):
    with pytest.raises(ConfigError, match="needs work"):
        Request(units=units, size=size)
