"""TPUs: systolic arrays that hold weights while activations stream past.

Counts are closed forms of the shapes (N. Jouppi et al., "In-datacenter performance analysis of a
tensor processing unit", ISCA 2017; T. Norrie et al., "Google's training chips revealed: TPUv2 and
TPUv3", Hot Chips 2020):

- An array of dim x dim holds that much of the right matrix, so (m, n, k) takes
  ``ceil(k / dim) ceil(n / dim)`` passes. Each loads one weight tile, whose rows shift down through
  the array, and takes ``m + 2 dim`` cycles, of which the last term fills and drains it.
- Activations enter once per column of tiles. Partial sums are written to the accumulators once
  per row of tiles, and read as often: to be added to, and at last to leave.
- One VLIW bundle of 322 bit per cycle and core, whether the arrays work or wait for memory.
- An element of the array passes its activation on to the right and its partial sum down for every
  useful multiply-add; what padding passes on are zeros.
- Whatever has no matrix format, depthwise convolutions among it, runs on the vector unit, on words
  of four bytes.
"""

from collections.abc import Iterator

from joulelab.estimator.architecture.base import RawEvent
from joulelab.estimator.architecture.common import (
    core_events,
    main_memory_b,
    memory_events,
    near_byte_j,
    sram_byte_j,
    static_events,
    unit_j,
)
from joulelab.estimator.architecture.work import ACCUMULATOR_B, GroupWork, Product
from joulelab.hardware.processor import Processor

BUNDLE_B = 322 / 8
TRANSFER_B = 512
"""Bytes of one access of the DMA engines (TPUv4i: 512 B native access size)."""

_BANK_B = 128 * 1024
_ACCUMULATOR_BANK_B = 32 * 1024
_BUNDLE_MEMORY_B = 32 * 1024


def raw_events(work: GroupWork, processor: Processor) -> list[RawEvent]:
    """Return the events of ``work`` on a TPU."""
    return [
        *_array(work, processor),
        *_weights(work, processor),
        *_streams(work, processor),
        *_vector_unit(work, processor),
        *_control(work, processor),
        *core_events(work, processor),
        *memory_events(work, processor),
        *_transfers(work, processor),
        *static_events(work, processor),
    ]


def array_size(processor: Processor) -> int:
    """Return the rows of one systolic array."""
    return max(rows for rows, _, _ in processor.engine.tiles)


def passes(product: Product, size: int) -> float:
    """Return how many weight tiles ``product`` loads into arrays of ``size``."""
    return product.blocks(2**62, size, size)


def on_arrays(work: GroupWork) -> list[Product]:
    """Return the products that run on systolic arrays, not on the vector unit."""
    return [product for product in work.products if product.on_matrix_units]


def buffer_byte_j(processor: Processor) -> float:
    """Return the energy of a byte between the unified buffer and the units."""
    return near_byte_j(processor, "unified buffer", _BANK_B)


def _array(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    size, node_nm = array_size(processor), processor.node_nm
    latch_j = unit_j("array.latch_byte", node_nm)
    for product in on_arrays(work):
        mac_j = unit_j(f"multiply_add.{product.pipe}", node_nm)
        name = product.pipe.removeprefix("tensor_")
        yield RawEvent(f"compute/array/{name}", product.macs, "multiply-adds", mac_j)
        passed_b = product.macs * (product.operand_b + ACCUMULATOR_B)
        yield RawEvent("compute/array/forwarding", passed_b, "bytes", latch_j)
    # While it fills and drains, half of the array holds operands on average.
    filled = sum(passes(product, size) * 2 * size for product in on_arrays(work))
    idle_j = size * size / 2 * ACCUMULATOR_B * latch_j
    yield RawEvent("compute/array/fill and drain", filled, "cycles", idle_j)


def _weights(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    size, node_nm = array_size(processor), processor.node_nm
    latch_j = unit_j("array.latch_byte", node_nm)
    tiles = sum(passes(product, size) for product in on_arrays(work))
    loaded_b = sum(
        passes(product, size) * size**2 * product.operand_b for product in on_arrays(work)
    )
    yield RawEvent("compute/weights/tiles", tiles, "tiles", unit_j("array.descriptor", node_nm))
    yield RawEvent("compute/weights/load", loaded_b, "bytes", buffer_byte_j(processor))
    # Row i of a tile moves i + 1 rows down, (size + 1) / 2 on average.
    yield RawEvent("compute/weights/shift-in", loaded_b, "bytes", (size + 1) / 2 * latch_j)


def _streams(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    size, node_nm = array_size(processor), processor.node_nm
    # Once per column of tiles, and once per row of them.
    entered_b = sum(
        one.blocks(2**62, size, 2**62) * one.shape.m * one.shape.k * one.operand_b
        for one in on_arrays(work)
    )
    summed_b = sum(
        one.blocks(2**62, 2**62, size) * one.shape.m * one.shape.n * ACCUMULATOR_B
        for one in on_arrays(work)
    )
    accumulator_j = sram_byte_j(_ACCUMULATOR_BANK_B, node_nm)
    yield RawEvent("compute/activations/stream", entered_b, "bytes", buffer_byte_j(processor))
    yield RawEvent("compute/accumulators/write", summed_b, "bytes", accumulator_j)
    yield RawEvent("compute/accumulators/read", summed_b, "bytes", accumulator_j)


def _vector_unit(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    vector_flop = dict(work.vector_flop)
    for product in work.products:
        if product not in on_arrays(work):
            vector_flop[product.pipe] = vector_flop.get(product.pipe, 0.0) + product.flop
    for pipe, flop in vector_flop.items():
        operation_j = unit_j(f"multiply_add.{pipe}", node_nm) / 2.0
        yield RawEvent(f"compute/vector unit/{pipe}", flop, "operations", operation_j)
    register_b = 3.0 * ACCUMULATOR_B * sum(vector_flop.values())
    register_j = unit_j("array.register_byte", node_nm)
    yield RawEvent("compute/vector unit/registers", register_b, "bytes", register_j)
    buffer_j = buffer_byte_j(processor)
    yield RawEvent("compute/vector unit/load and store", work.stream_b, "bytes", buffer_j)


def _control(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    bundles = work.cycles * processor.num_cores
    fetch_j = BUNDLE_B * sram_byte_j(_BUNDLE_MEMORY_B, node_nm)
    decode_j, integer_j = (unit_j(f"instruction.{name}", node_nm) for name in ("decode", "integer"))
    yield RawEvent("compute/control/bundle fetch", bundles, "bundles", fetch_j)
    yield RawEvent("compute/control/bundle decode", bundles, "bundles", decode_j)
    yield RawEvent("compute/scalar unit/operations", bundles, "operations", integer_j)


def _transfers(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm, moved_b = processor.node_nm, main_memory_b(work, processor)
    yield RawEvent("memory/DMA/transfer", moved_b, "bytes", unit_j("array.dma_byte", node_nm))
    access_j = unit_j("instruction.integer", node_nm)
    yield RawEvent("memory/DMA/addresses", moved_b / TRANSFER_B, "accesses", access_j)
