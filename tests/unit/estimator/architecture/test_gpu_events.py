"""Counts on GPUs against closed forms."""

import pytest
from group_works import MIB, gemm, gpu, group, streaming

from joulelab.estimator.architecture.common import unit_j
from joulelab.estimator.architecture.gpu import (
    DIVERGENT_SHARE,
    matrix_instruction,
    raw_events,
    tensor_instructions,
    warp_instructions,
)
from joulelab.tracing.program import MatrixShape, Operator

BIG = 8192


def product(m, n, k, **changes):
    (made,) = group(gemm(m, n, k, **changes)).products
    return made


def event(work, path, processor=None):
    (found,) = [one for one in raw_events(work, processor or gpu()) if one.path == path]
    return found


@pytest.mark.parametrize(
    ("architecture", "pipe", "shape"),
    [
        ("Volta", "tensor_fp16", (16, 16, 4)),
        ("Turing", "tensor_fp16", (16, 8, 8)),
        ("Turing", "tensor_int8", (8, 8, 16)),
        ("Ampere", "tensor_bf16", (16, 8, 16)),
        ("Ampere", "tensor_tf32", (16, 8, 8)),
        ("Ada", "tensor_fp8", (16, 8, 32)),
        ("Hopper", "tensor_bf16", (64, 256, 16)),
        ("Hopper", "tensor_fp8", (64, 256, 32)),
        ("Hopper", "tensor_fp64", (8, 8, 4)),
        ("Blackwell", "tensor_fp16", (128, 256, 16)),
    ],
)
def test_a_large_product_takes_its_operations_over_those_of_the_generations_instruction(
    architecture, pipe, shape
):
    m, n, k = shape

    instructions = tensor_instructions(architecture, product(BIG, BIG, BIG, pipe=pipe))

    assert instructions == 2 * BIG**3 / (2 * m * n * k)


@pytest.mark.parametrize(
    ("sides", "instructions"),
    [((17, 9, 17), 2 * 2 * 2), ((1, 4096, 64), 256 * 1 * 4), ((4096, 1, 64), 256 * 1 * 4)],
)
def test_ragged_products_are_covered_with_the_longer_side_along_the_rows(sides, instructions):
    assert tensor_instructions("Ampere", product(*sides)) == instructions


def test_a_narrow_product_on_hopper_takes_no_more_columns_than_eights():
    narrow = product(4096, 12, 64)

    assert matrix_instruction("Hopper", narrow).n == 16
    assert tensor_instructions("Hopper", narrow) == 64 * 1 * 4


def test_energy_of_a_tensor_instruction_is_that_of_its_useful_multiply_adds():
    found = event(group(gemm(1, 4096, 64)), "compute/tensor cores/bf16")

    assert found.raw_j == pytest.approx(4096 * 64 * unit_j("multiply_add.tensor_bf16", 7.0))


def test_a_product_on_vector_units_takes_a_warp_instruction_per_64_operations():
    work = group(gemm(BIG, BIG, BIG, pipe="fp32", operand_b=4))

    assert warp_instructions(work, gpu())["vector"] == 2 * BIG**3 / 64
    assert warp_instructions(work, gpu())["tensor"] == 0


def test_other_operations_take_a_warp_instruction_per_32():
    work = group(streaming(4.0 * MIB, 4.0 * MIB, flop=1.0 * MIB))

    assert warp_instructions(work, gpu())["vector"] == MIB / 32


def test_shared_memory_is_filled_once_per_tile_of_the_other_side():
    work = group(gemm(256, 384, 512))

    # Blocks of 128x128: 3 columns of them read the left matrix, 2 rows of them the right one.
    filled_b = 2 * (256 * 512 * 3 + 384 * 512 * 2)
    assert event(work, "compute/shared memory/fill").count == filled_b


def test_warps_read_operands_in_tiles_of_64_and_registers_hold_them():
    work = group(gemm(128, 128, 64))

    fed_b = 2 * (128 * 64 * 2 + 128 * 64 * 2)
    instructions = 128 * 128 * 64 / (16 * 8 * 16)
    read_b = instructions * ((16 * 16 + 8 * 16) * 2 + 16 * 8 * 4)
    assert event(work, "compute/shared memory/operands").count == fed_b
    assert event(work, "compute/register file/read").count == read_b
    assert event(work, "compute/register file/write").count == instructions * 16 * 8 * 4 + fed_b


def test_hopper_feeds_operands_from_shared_memory_without_registers():
    work = group(gemm(64, 256, 16))

    (read_b,) = [
        one.count
        for one in raw_events(work, gpu("Hopper"))
        if one.path == "compute/register file/read"
    ]

    # One instruction, whose longer side of 256 lies along the rows: four of 64x64x16.
    assert tensor_instructions("Hopper", product(64, 256, 16)) == 4
    assert read_b == 4 * 64 * 64 * 4


def test_a_product_has_a_barrier_per_thread_block_and_step():
    work = group(gemm(256, 256, 96))

    # 2x2 blocks, steps of 64 bytes or 32 elements.
    assert event(work, "compute/synchronisation/barriers").count == 4 * 3
    assert event(work, "compute/launch/thread blocks").count == 4


def test_contiguous_streams_move_512_bytes_per_warp_instruction():
    work = group(streaming(1.0 * MIB, 1.0 * MIB))

    assert warp_instructions(work, gpu())["stream"] == 2 * MIB / 512
    assert event(work, "compute/L1/uncoalesced").count == 0


def test_scattered_words_take_a_sector_each():
    work = group(streaming(1.0 * MIB, 0.0, contiguous=0.0))

    # Of each sector of 32 bytes one word of 4 is wanted.
    assert event(work, "compute/L1/uncoalesced").count == 7 * MIB
    assert warp_instructions(work, gpu())["stream"] == MIB / 128


@pytest.mark.parametrize(
    ("kind", "name", "share"),
    [
        ("elementwise", "add", 0.0),
        ("elementwise", "masked_fill", DIVERGENT_SHARE),
        ("gather", "embedding", DIVERGENT_SHARE),
    ],
)
def test_only_gathers_and_masked_kernels_diverge(kind, name, share):
    work = group(streaming(512.0 * 32, 0.0, flop=32.0 * 68, kind=kind, name=name))

    assert event(work, "compute/divergence/replays").count == pytest.approx(share * (32 + 68))


def test_dense_products_do_not_diverge():
    assert event(group(gemm(512, 512, 512)), "compute/divergence/replays").count == 0


def test_nothing_grows_with_warps_times_memory_requests():
    """Coherence used to be counted per warp and request, and drew 701 W on a stream."""
    once, twice = (
        raw_events(group(streaming(times * 1e9, 0.0, flop=times * 1e9)), gpu()) for times in (1, 2)
    )

    for few, many in zip(once, twice, strict=True):
        assert many.raw_j <= 2 * few.raw_j * (1 + 1e-9), few.path
        assert "coherence" not in few.path


def test_predicted_bytes_are_those_of_the_memory_events():
    work = group(gemm(512, 512, 512), moved_b={"L2": 3e6, "DRAM": 1e6})

    moved = {
        name: sum(event(work, f"memory/{name}/{way}").count for way in ("read", "write"))
        for name in ("L2", "DRAM")
    }
    assert moved == {"L2": pytest.approx(3e6), "DRAM": pytest.approx(1e6)}
    assert event(work, "memory/DRAM/write").count == pytest.approx(1e6 / 3)


def test_attention_is_scores_and_weighted_values():
    shape = MatrixShape(batch=32, m=1024, n=2048, k=128)
    flop = 2 * 2.0 * 32 * 1024 * 2048 * 128
    attention = Operator(
        name="sdpa",
        kind="attention",
        pipe="tensor_bf16",
        flop=flop,
        read_b=1.0,
        weight_b=0.0,
        written_b=1.0,
        shape=shape,
    )

    scores, values = group(attention).products

    assert (scores.shape.n, scores.shape.k) == (2048, 128)
    assert (values.shape.n, values.shape.k) == (128, 2048)
    assert scores.flop + values.flop == flop
