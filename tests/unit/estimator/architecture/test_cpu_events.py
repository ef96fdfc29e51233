"""Counts on CPUs against closed forms."""

from dataclasses import replace

import pytest
from group_works import KIB, MIB, cpu, gemm, group, streaming

from joulelab.estimator.architecture.cpu import (
    MISPREDICTED,
    MISPREDICTED_IRREGULAR,
    blocking,
    instructions_of,
    product_instructions,
    raw_events,
    vector_lanes,
)

BIG = 4096


def product(m, n, k, **changes):
    (made,) = group(gemm(m, n, k, **changes)).products
    return made


def event(work, path, processor=None):
    (found,) = [one for one in raw_events(work, processor or cpu()) if one.path == path]
    return found


@pytest.mark.parametrize(("rate", "lanes"), [(64, 16), (32, 8), (16, 4)])
def test_vector_instructions_are_operations_over_twice_the_lanes(rate, lanes):
    processor = cpu(rate)

    issued = product_instructions(product(BIG, BIG, BIG, pipe="fp32", operand_b=4), processor)

    assert vector_lanes(processor) == lanes
    assert issued.vector == 2 * BIG**3 / (2 * lanes)
    assert issued.tile == 0


def test_vectors_of_zen_4_are_twice_as_wide_as_its_units():
    assert vector_lanes(replace(cpu(32), architecture="Zen 4 (Genoa)")) == 16


def test_lanes_of_a_hybrid_are_those_of_its_vectors():
    """Eight cores of 32 operations and four of 12 have 25.3 on average, and vectors of eight."""
    assert vector_lanes(cpu(25.3)) == 8


def test_double_precision_has_half_the_lanes():
    issued = product_instructions(product(BIG, BIG, BIG, pipe="fp64", operand_b=8), cpu())

    assert issued.vector == 2 * BIG**3 / (2 * 8)


@pytest.mark.parametrize(
    ("pipe", "operand_b", "flop"), [("tensor_bf16", 2, 16_384), ("tensor_int8", 1, 32_768)]
)
def test_a_tile_instruction_does_16_384_operations_in_bf16_and_twice_in_int8(pipe, operand_b, flop):
    issued = product_instructions(product(BIG, BIG, BIG, pipe=pipe, operand_b=operand_b), cpu())

    assert issued.tile == 2 * BIG**3 / flop
    assert issued.vector == 0
    assert issued.loaded_b == issued.tile * 1024


def test_dot_products_without_tiles_are_vector_instructions():
    processor = cpu(tensor_int8=256.0)

    issued = product_instructions(product(BIG, BIG, BIG, pipe="tensor_int8"), processor)

    # Four products per 32-bit lane: 16 lanes, 64 multiply-adds.
    assert issued.vector == 2 * BIG**3 / 128
    assert issued.tile == 0


@pytest.mark.parametrize(("rate", "rows"), [(64, 12), (32, 6), (16, 12)])
def test_loads_follow_from_two_vectors_and_the_broadcast_rows_of_the_micro_kernel(rate, rows):
    issued = product_instructions(product(BIG, BIG, BIG, pipe="fp32", operand_b=4), cpu(rate))

    assert issued.load == pytest.approx(issued.vector * (2 + rows) / (2 * rows))


def test_a_product_with_a_vector_broadcasts_one_element_per_two_vectors():
    issued = product_instructions(product(BIG, 1, BIG, pipe="fp32", operand_b=4), cpu())

    assert issued.load == pytest.approx(issued.vector * 3 / 2)


def test_blocks_fill_half_of_each_cache():
    blocks = blocking(product(BIG, BIG, BIG, pipe="fp32", operand_b=4), cpu())

    assert blocks.columns == 32
    assert blocks.k == 16 * KIB // (32 * 4)
    assert blocks.m == 512 * KIB // (128 * 4)
    assert blocks.n == 4 * MIB // (128 * 4)


def test_l2_gives_the_left_matrix_once_per_strip_of_columns_and_the_right_one_once_per_block():
    work = group(gemm(4096, 1024, 512, pipe="fp32", operand_b=4))

    left = 4096 * 512 * (1024 // 32)
    right = 1024 * 512 * (4096 // 1024)
    assert event(work, "compute/L2/read").count == 4 * (left + right)
    assert event(work, "compute/L2/write").count == 4 * 4096 * 1024 * (512 // 128)


def test_three_vectors_are_read_and_one_is_written_per_vector_instruction():
    work = group(streaming(0.0, 0.0, flop=16.0 * 1000))

    assert event(work, "compute/registers/read").count == 3 * 64 * 1000
    assert event(work, "compute/registers/write").count == 64 * 1000
    assert event(work, "compute/pipeline/fetch").count == 1000


def test_a_stream_loads_and_stores_whole_vectors_in_loops_of_four():
    work = group(streaming(64.0 * 4000, 64.0 * 2000))

    issued = instructions_of(work, cpu())

    assert issued.load == pytest.approx(4000)
    assert issued.store == pytest.approx(2000)
    assert issued.branch == pytest.approx(1500)


def test_scattered_words_are_loaded_one_by_one():
    work = group(streaming(4.0 * 4000, 0.0, contiguous=0.0))

    assert instructions_of(work, cpu()).load == pytest.approx(4000)


@pytest.mark.parametrize(
    ("kind", "missed"), [("elementwise", MISPREDICTED), ("gather", MISPREDICTED_IRREGULAR)]
)
def test_gathers_mispredict_more_branches(kind, missed):
    work = group(streaming(64.0 * 4000, 0.0, kind=kind))

    branches = event(work, "compute/branches/predictions").count
    assert event(work, "compute/branches/mispredictions").count == pytest.approx(missed * branches)


def test_each_line_of_the_last_cache_is_looked_up_in_the_directory():
    work = group(gemm(512, 512, 512), moved_b={"L3": 6400.0, "DRAM": 640.0})

    assert event(work, "memory/coherence/directory").count == 100
