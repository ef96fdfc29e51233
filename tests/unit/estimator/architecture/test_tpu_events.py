"""Counts on systolic arrays against closed forms."""

import pytest
from group_works import gemm, group, streaming, tpu

from joulelab.estimator.architecture.tpu import passes, raw_events


def product(m, n, k, **changes):
    (made,) = group(gemm(m, n, k, **changes)).products
    return made


def count(work, path, processor=None):
    (found,) = [one for one in raw_events(work, processor or tpu()) if one.path == path]
    return found.count


@pytest.mark.parametrize("size", [64, 128, 256])
def test_passes_are_the_weight_tiles_that_cover_k_and_n(size):
    assert passes(product(1000, 8192, 4096), size) == (8192 // size) * (4096 // size)
    assert passes(product(1000, 8193, 1), size) == 8192 // size + 1
    assert passes(product(7, 1, 1, batch=5), size) == 5


def test_the_array_multiplies_and_passes_on_what_is_asked_whatever_its_padding():
    work = group(gemm(1000, 200, 100))

    assert count(work, "compute/array/bf16") == 1000 * 200 * 100
    assert count(work, "compute/array/forwarding") == 1000 * 200 * 100 * (2 + 4)
    assert count(work, "compute/array/fill and drain") == 2 * 256


def test_whole_weight_tiles_are_loaded_and_shifted_in():
    work = group(gemm(1000, 200, 100))

    assert count(work, "compute/weights/tiles") == 2
    assert count(work, "compute/weights/load") == 2 * 128 * 128 * 2
    assert count(work, "compute/weights/shift-in") == 2 * 128 * 128 * 2


def test_activations_enter_once_per_column_of_tiles():
    assert count(group(gemm(1000, 300, 100)), "compute/activations/stream") == 3 * 1000 * 100 * 2


def test_partial_sums_go_to_the_accumulators_once_per_row_of_tiles():
    work = group(gemm(1000, 300, 200))

    assert count(work, "compute/accumulators/write") == 2 * 1000 * 300 * 4
    assert count(work, "compute/accumulators/read") == 2 * 1000 * 300 * 4


def test_a_bundle_is_fetched_in_every_cycle_of_every_core():
    work = group(gemm(128, 128, 128), device_s=2e-3, clock_mhz=1500.0)

    assert count(work, "compute/control/bundle fetch") == pytest.approx(2e-3 * 1.5e9 * 2)


def test_what_is_no_product_runs_on_the_vector_unit():
    work = group(streaming(4000.0, 4000.0, flop=1000.0))

    assert count(work, "compute/vector unit/fp32") == 1000
    assert count(work, "compute/vector unit/registers") == 3 * 4 * 1000
    assert count(work, "compute/vector unit/load and store") == 8000


def test_a_depthwise_convolution_runs_on_the_vector_unit():
    work = group(gemm(1000, 1, 9, batch=32, pipe="fp32"))

    assert count(work, "compute/vector unit/fp32") == 2 * 32 * 1000 * 9
    assert count(work, "compute/weights/tiles") == 0


def test_transfers_have_addresses_of_512_bytes():
    work = group(gemm(128, 128, 128), moved_b={"unified buffer": 2e6, "DRAM": 512e3})

    assert count(work, "memory/DMA/transfer") == 512e3
    assert count(work, "memory/DMA/addresses") == 1000
