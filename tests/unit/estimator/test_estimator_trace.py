"""The tracer against closed forms."""

import gc
import resource

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from joulelab.core.cost import KernelCost
from joulelab.errors import ConfigError
from joulelab.tracing.trace import fake_tensors, trace


def of_kind(kernels, name):
    return [kernel for kernel in kernels if kernel.name == name]


def only(kernels):
    assert len(kernels) == 1, kernels
    return kernels[0]


def test_a_product_of_square_matrices_is_2_n_cubed_operations_and_3_n_squared_numbers():
    n = 8192
    with fake_tensors():
        a, b = torch.empty(2, n, n, dtype=torch.bfloat16)

        kernel = only(trace(lambda: a @ b))

    assert kernel == KernelCost(
        name="gemm",
        pipe="tensor_bf16",
        flop=2.0 * n**3,
        dram_b=3.0 * n**2 * 2,
        written_b=n**2 * 2.0,
        dtype="bfloat16",
        shape=(1, n, n, n),
    )


def test_a_network_that_no_memory_could_hold_is_traced_without_any():
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with fake_tensors():
        weights = torch.empty(1_000_000, 1_000_000)  # 4 TB
        kernel = only(trace(lambda: weights @ weights))

    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert kernel.flop == 2e18
    assert grown_mib < 64


@pytest.mark.parametrize(
    ("dtype", "tf32", "pipe"),
    [
        (torch.float64, True, "fp64"),
        (torch.float32, False, "fp32"),
        (torch.float32, True, "tensor_tf32"),
        (torch.float16, False, "tensor_fp16"),
        (torch.bfloat16, True, "tensor_bf16"),
    ],
)
def test_a_product_runs_on_the_pipe_of_its_operands(dtype, tf32, pipe):
    with fake_tensors():
        a = torch.empty(32, 32, dtype=dtype)

        kernel = only(trace(lambda: a @ a, tf32_matmul=tf32))

    assert kernel.pipe == pipe


def test_attention_in_single_precision_has_no_use_for_tf32():
    def program():
        a = torch.zeros(1, 4, 64, 32)
        return torch.nn.functional.scaled_dot_product_attention(a, a, a)

    with fake_tensors():
        kernels = trace(program, tf32_matmul=True)

    assert {each.pipe for each in kernels if each.name == "attention"} == {"fp32"}


def test_a_thread_of_a_bicubic_interpolation_reads_all_images_and_channels():
    with fake_tensors():
        images = torch.zeros(3, 5, 8, 8)
        kernel = only(
            trace(lambda: torch.nn.functional.interpolate(images, size=(16, 9), mode="bicubic"))
        )

    assert kernel.steps == 16 * 3 * 5


def test_convolutions_use_tf32_by_default_and_matrix_products_do_not():
    with fake_tensors():
        image, filters = torch.empty(1, 3, 8, 8), torch.empty(4, 3, 3, 3)
        program = lambda: torch.nn.functional.conv2d(image, filters)  # noqa: E731

        default, strict = only(trace(program)), only(trace(program, tf32_conv=False))

    assert default.flop == strict.flop == 2 * 4 * 3 * 3 * 3 * 6 * 6
    assert (default.pipe, strict.pipe) == ("tensor_tf32", "fp32")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_pointwise_work_of_narrow_numbers_runs_in_single_precision(dtype):
    with fake_tensors():
        x = torch.empty(1000, dtype=dtype)

        kernel = only(trace(lambda: x + x))

    assert (kernel.name, kernel.pipe, kernel.flop) == ("elementwise", "fp32", 1000.0)


def test_an_operand_passed_twice_is_read_once():
    with fake_tensors():
        x, y = torch.empty(2, 1000)

        same, different = only(trace(lambda: x * x)), only(trace(lambda: x * y))

    assert same.dram_b == 2 * 4000
    assert different.dram_b == 3 * 4000


def test_elements_that_a_broadcast_repeats_are_read_once():
    with fake_tensors():
        x, row = torch.empty(100, 50), torch.empty(50)

        kernel = only(trace(lambda: x + row.expand(100, 50)))

    assert kernel.dram_b == 4 * (2 * 100 * 50 + 50)


def test_views_cost_nothing():
    with fake_tensors():
        x = torch.empty(4, 6)
        chain = lambda: x.view(2, 12).t()[1:, :1].unsqueeze(0).expand(3, 11, 1).split(1)  # noqa: E731

        assert trace(chain) == ()


def test_an_empty_result_launches_nothing():
    with fake_tensors():
        assert trace(lambda: torch.zeros(0) + 1) == ()


def test_a_write_in_place_moves_what_is_read_and_what_is_written():
    with fake_tensors():
        x, y = torch.empty(2, 1000)

        added, copied, filled = (
            only(trace(lambda: x.add_(y))),
            only(trace(lambda: x.copy_(y))),
            only(trace(lambda: x.zero_())),
        )

    assert added.dram_b == 3 * 4000
    assert copied.dram_b == 2 * 4000
    assert filled.dram_b == 4000


def test_an_out_argument_is_written_but_not_read():
    with fake_tensors():
        a, b, c = torch.empty(3, 64, 64)

        kernel = only(trace(lambda: torch.mm(a, b, out=c)))

    assert kernel.dram_b == 3 * 64 * 64 * 4


def test_a_write_to_picked_rows_moves_those_rows_and_not_the_table():
    with fake_tensors():
        table, rows = torch.empty(32000, 64), torch.empty(10, dtype=torch.long)
        source = torch.empty(10, 64)

        kernel = only(trace(lambda: table.index_copy_(0, rows, source)))

    assert kernel.dram_b == 10 * 8 + 2 * 10 * 64 * 4


def test_growing_a_cache_by_concatenation_moves_all_of_it_twice():
    with fake_tensors():
        cache, new = torch.empty(1, 8, 100, 64), torch.empty(1, 8, 1, 64)

        kernel = only(trace(lambda: torch.cat([cache, new], dim=-2)))

    assert kernel.dram_b == 2 * 101 * 8 * 64 * 4


@pytest.mark.parametrize("batch", [1, 5])
def test_a_thread_of_a_group_norm_sums_what_its_block_of_512_shares_whatever_the_batch(batch):
    with fake_tensors():
        norm, images = torch.nn.GroupNorm(8, 64), torch.zeros(batch, 64, 32, 32)
        (kernel,) = of_kind(trace(lambda: norm(images)), "norm")

    assert kernel.steps == 64 / 8 * 32 * 32 / 512


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_attention_is_one_kernel_that_reads_and_writes_its_tensors_once(dtype):
    batch, heads, queries, keys, width = 2, 8, 64, 96, 32
    with fake_tensors():
        query = torch.empty(batch, heads, queries, width, dtype=dtype)
        key, value = torch.empty(2, batch, heads, keys, width, dtype=dtype)

        kernel = only(trace(lambda: scaled_dot_product_attention(query, key, value)))

    assert kernel.name == "attention"
    assert kernel.flop == 4 * batch * heads * queries * keys * width
    tensors_b = batch * heads * width * (2 * queries + 2 * keys) * dtype.itemsize
    assert tensors_b <= kernel.dram_b <= 1.05 * tensors_b  # and a sum per query


def test_causal_attention_counts_the_scores_up_to_the_diagonal():
    n, width = 128, 32
    with fake_tensors():
        query, key, value = torch.empty(3, 1, 1, n, width)

        kernel = only(
            trace(lambda: scaled_dot_product_attention(query, key, value, is_causal=True))
        )

    assert kernel.flop == 4 * width * n * (n + 1) / 2


def test_shared_keys_are_read_once_and_multiplied_by_every_query_head():
    with fake_tensors():
        query = torch.empty(1, 8, 16, 32, dtype=torch.bfloat16)
        key, value = torch.empty(2, 1, 2, 16, 32, dtype=torch.bfloat16)

        kernel = only(
            trace(lambda: scaled_dot_product_attention(query, key, value, enable_gqa=True))
        )

    assert kernel.flop == 4 * 8 * 16 * 16 * 32
    assert kernel.dram_b == pytest.approx((2 * 8 + 2 * 2) * 16 * 32 * 2, rel=0.06)


@pytest.mark.parametrize(
    ("dtype", "num_key_heads"), [(torch.float32, 2), (torch.float64, 2), (torch.float64, 8)]
)
def test_attention_that_no_gpu_kernel_fuses_is_two_products_and_a_softmax(dtype, num_key_heads):
    with fake_tensors():
        query = torch.empty(1, 8, 16, 32, dtype=dtype)
        key, value = torch.empty(2, 1, num_key_heads, 16, 32, dtype=dtype)

        kernels = trace(lambda: scaled_dot_product_attention(query, key, value, enable_gqa=True))

    products = of_kind(kernels, "gemm")
    assert [kernel.flop for kernel in products] == [2 * 8 * 16 * 16 * 32] * 2
    assert len(of_kind(kernels, "softmax")) == 1
    assert not of_kind(kernels, "attention")


def test_the_groups_of_a_grouped_product_share_out_its_rows():
    with fake_tensors():
        tokens = torch.empty(64, 32, dtype=torch.bfloat16)
        experts = torch.empty(4, 32, 16, dtype=torch.bfloat16)
        ends = torch.empty(4, dtype=torch.int32)

        kernel = only(trace(lambda: torch._grouped_mm(tokens, experts, offs=ends)))

    assert kernel.flop == 2 * 64 * 32 * 16


@pytest.mark.parametrize(
    ("program", "flop"),
    [
        (lambda m, v: torch.addmv(v, m, v), 2 * 8 * 8),
        (lambda m, v: torch.addbmm(m, m[None], m[None]), 2 * 8**3),
        (lambda m, v: torch.einsum("ij,jk->ik", m, m), 2 * 8**3),
    ],
)
def test_every_way_to_write_a_product_counts_its_multiplications_and_additions(program, flop):
    with fake_tensors():
        matrix, vector = torch.empty(8, 8), torch.empty(8)

        kernels = of_kind(trace(lambda: program(matrix, vector)), "gemm")

    assert sum(kernel.flop for kernel in kernels) == flop


@pytest.mark.parametrize(
    ("program", "operator"),
    [
        (lambda m: torch.fft.rfft(m), r"aten\._fft_r2c"),
        (lambda m: torch.linalg.inv(m), r"aten\.linalg_inv_ex"),
        (lambda m: torch.nn.functional.bilinear(m, m, m[None]), r"aten\._trilinear"),
    ],
)
def test_matrix_work_without_a_formula_is_named_rather_than_counted_as_little(program, operator):
    with fake_tensors():
        matrix = torch.empty(8, 8)

        with pytest.raises(ConfigError, match=rf"{operator}.*no FLOP formula"):
            trace(lambda: program(matrix))


def test_a_product_of_a_type_that_no_pipe_multiplies_is_refused():
    with fake_tensors():
        a = torch.empty(8, 8, dtype=torch.complex64)

        with pytest.raises(ConfigError, match=r"multiplies torch\.complex64"):
            trace(lambda: a @ a)


def test_real_tensors_launch_the_same_kernels_as_fake_ones():
    def block():
        network = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
        x = torch.zeros(2, 5, 32)
        fastpath = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            return trace(lambda: network(x))
        finally:
            torch.backends.mha.set_fastpath_enabled(fastpath)

    real = block()
    with fake_tensors():
        fake = block()

    assert fake == real
    assert {"gemm", "attention", "norm"} <= {kernel.name for kernel in fake}


def test_inference_mode_launches_the_same_kernels_as_no_grad():
    network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))

    def run(*, inference):
        with torch.inference_mode(mode=inference):
            network(torch.zeros(4, 32))

    assert trace(lambda: run(inference=True)) == trace(lambda: run(inference=False))


def test_tracing_leaves_pytorch_as_it_found_it():
    before = torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled()

    with fake_tensors():
        trace(lambda: torch.zeros(3) + 1)

    gc.collect()
    assert (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled()) == before
    assert torch.zeros(3).tolist() == [0.0, 0.0, 0.0]
