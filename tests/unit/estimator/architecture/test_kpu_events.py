"""Counts of domain flow against closed forms."""

import pytest
from group_works import gemm, group, kpu, streaming

from joulelab.estimator.architecture.kpu import raw_events, tile_type


def count(work, path):
    (found,) = [one for one in raw_events(work, kpu()) if one.path == path]
    return found.count


def test_operands_enter_once_per_block_of_the_other_side():
    work = group(gemm(32, 48, 100))

    assert count(work, "compute/tokens/injection") == 32 * 100 * 3 + 48 * 100 * 2


def test_each_operand_is_forwarded_through_its_block():
    work = group(gemm(16, 16, 100))

    # 16 left and 16 right operands per step, each past 15 neighbours.
    assert count(work, "compute/tokens/forwarding") == 100 * (16 * 15 + 16 * 15)


def test_a_single_element_forwards_nothing():
    assert count(group(gemm(1, 1, 100)), "compute/tokens/forwarding") == 0


def test_results_leave_once_and_partial_sums_stay():
    work = group(gemm(32, 48, 100))

    assert count(work, "compute/tokens/extraction") == 32 * 48
    assert count(work, "compute/elements/partial sums") == 2 * 4 * 32 * 48 * 100


def test_a_block_fills_and_drains_along_its_two_edges():
    assert count(group(gemm(32, 48, 100)), "compute/elements/fill and drain") == 6 * (16 + 16 - 2)


def test_a_program_is_loaded_per_operator_and_run_and_sent_to_every_tile():
    work = group(gemm(32, 48, 100), streaming(100.0, 100.0), count=3)

    assert count(work, "compute/programs/load") == 6
    assert count(work, "compute/programs/tile configuration") == 6 * 16


def test_streamers_carry_tokens_in_and_results_out():
    work = group(gemm(32, 48, 100))

    assert count(work, "compute/streamers/in") == 2 * (32 * 100 * 3 + 48 * 100 * 2)
    assert count(work, "compute/streamers/out") == 2 * 32 * 48
    assert count(work, "compute/L2/read") == count(work, "compute/streamers/in")


def test_bytes_of_the_shared_memory_travel_two_thirds_of_the_grid():
    work = group(gemm(32, 48, 100), moved_b={"L3": 3000.0, "DRAM": 1000.0})

    assert count(work, "memory/NoC/hops") == pytest.approx(3000 * 2 / 3 * 4)
    assert count(work, "memory/block movers/transfer") == 3000
    assert count(work, "memory/DMA/transfer") == 1000


@pytest.mark.parametrize(
    ("pipe", "tiles"),
    [("tensor_int8", "INT8 tiles"), ("tensor_bf16", "BF16 tiles"), ("fp32", "matrix tiles")],
)
def test_operations_run_on_tiles_of_their_type(pipe, tiles):
    assert tile_type(pipe) == tiles
    path = f"compute/{tiles}/{pipe.removeprefix('tensor_')}"
    assert count(group(gemm(32, 48, 100, pipe=pipe)), path) == 32 * 48 * 100


def test_nothing_is_fetched_per_operation():
    few, many = (
        {one.path: one.count for one in raw_events(group(gemm(16, 16, k)), kpu())}
        for k in (1, 1000)
    )

    assert many["compute/programs/load"] == few["compute/programs/load"]
    assert not [path for path in many if "instruction" in path]
