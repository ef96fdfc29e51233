import time

import pytest

from joulelab.workloads.base import LONGEST_RUN_S
from joulelab.workloads.launch_loop import Gemm, GemmSettings, Stream, StreamSettings

ITEM_B = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@pytest.mark.parametrize("precision", ITEM_B)
@pytest.mark.parametrize(("n", "batch"), [(8192, 1), (1024, 1), (512, 16)])
def test_gemm_costs_2_n_cubed_operations_and_3_n_squared_numbers_each(precision, n, batch):
    settings = GemmSettings(n=n, precision=precision, batch=batch)

    cost = Gemm(settings).cost()

    (kernel,) = cost.phase("gemm").kernels
    assert kernel.flop == 2 * n**3 * batch
    assert kernel.dram_b == 3 * n**2 * batch * ITEM_B[precision]
    assert cost.resident_b == kernel.dram_b
    assert cost.phase("gemm").work == pytest.approx(kernel.flop * kernel.count / 1e12)


def test_an_fp8_product_reads_one_byte_a_number_and_writes_two():
    cost = Gemm(GemmSettings(n=4096, precision="fp8")).cost()

    (kernel,) = cost.phase("gemm").kernels
    assert kernel.pipe == "tensor_fp8"
    assert kernel.flop == 2 * 4096**3
    assert kernel.dram_b == pytest.approx(4 * 4096**2, abs=8)  # and two scales
    assert cost.resident_b == 4 * 4096**2


@pytest.mark.parametrize(
    ("precision", "pipe"),
    [
        ("fp64", "fp64"),
        ("fp32", "fp32"),
        ("tf32", "tensor_tf32"),
        ("fp16", "tensor_fp16"),
        ("bf16", "tensor_bf16"),
    ],
)
def test_gemm_runs_on_the_pipe_of_its_precision(precision, pipe):
    cost = Gemm(GemmSettings(precision=precision)).cost()

    assert {kernel.pipe for kernel in cost.phase("gemm").kernels} == {pipe}


def test_gemm_says_what_its_matrices_hold():
    assert Gemm(GemmSettings(data="zeros")).cost().data == "zeros"
    assert Gemm(GemmSettings()).cost().data == "random"


# Rates of one H200 at the driver's clocks: TFLOP/s of 8192^3 products.
@pytest.mark.parametrize(
    ("precision", "tflop_per_s"),
    [
        ("bf16", 655),
        ("fp16", 632),
        ("tf32", 344),
        ("fp32", 50),
    ],
)
def test_a_repeat_takes_50_to_100_ms_on_a_fast_gpu(precision, tflop_per_s):
    settings = GemmSettings(precision=precision)

    repeat_s = settings.work_per_launch * settings.num_launches / tflop_per_s

    assert 0.05 <= repeat_s <= 0.1


@pytest.mark.parametrize(("kernel", "num_buffers"), [("copy", 2), ("triad", 3)])
@pytest.mark.parametrize("precision", ["fp64", "fp32", "fp16", "bf16"])
def test_stream_reads_or_writes_every_buffer_once_per_launch(kernel, num_buffers, precision):
    settings = StreamSettings(kernel=kernel, size_gb=2.0, precision=precision)

    cost = Stream(settings).cost()

    (launch,) = cost.phase(kernel).kernels
    assert launch.dram_b == num_buffers * 2e9
    assert cost.phase(kernel).work == pytest.approx(launch.dram_b * launch.count / 1e9)
    assert cost.resident_b == num_buffers * 2e9


def test_a_triad_adds_a_multiple_and_a_copy_only_moves():
    triad = Stream(StreamSettings(kernel="triad")).cost().phase("triad")
    copy = Stream(StreamSettings(kernel="copy")).cost().phase("copy")

    assert triad.flop > 0
    assert copy.flop == 0


class SlowGemm(Gemm):
    """A product on a device that takes 2 ms for each."""

    def execute(self, phase, times):
        time.sleep(0.002 * times)
        return times * self.settings.work_per_launch


def test_no_repeat_takes_longer_than_it_may_once_it_is_known_how_slow_a_device_is():
    """An A100 at its lowest clock took 1.5 s: seven such units made a point of 9 s."""
    gemm = SlowGemm(GemmSettings())
    most = gemm.settings.num_launches
    assert 0.002 * most > LONGEST_RUN_S

    launches = [gemm.run("gemm") / gemm.settings.work_per_launch for _ in range(3)]

    assert launches[0] == pytest.approx(most)
    assert all(5 <= each <= LONGEST_RUN_S / 0.002 for each in launches[1:])
    assert all(each == pytest.approx(round(each)) for each in launches)
