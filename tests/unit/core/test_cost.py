"""What an execution costs is the sum over its kernels, each as often as it runs."""

from joulelab.core.cost import KernelCost, PhaseCost


def test_a_phase_costs_what_its_kernels_cost_as_often_as_they_run():
    product = KernelCost(name="gemm", pipe="tensor_bf16", flop=5.0, dram_b=7.0, count=3)
    copy = KernelCost(name="copy", pipe="fp32", flop=0.0, dram_b=11.0, count=2)

    phase = PhaseCost(phase="run", work=1, kernels=(product, copy))

    assert phase.flop == 3 * 5
    assert phase.dram_b == 3 * 7 + 2 * 11
    assert phase.num_launches == 3 + 2
