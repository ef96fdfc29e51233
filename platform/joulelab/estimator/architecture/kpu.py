"""KPUs: domain flow, in which operands travel through tiles of processing elements as tokens.

Counts are closed forms of the shapes, of an output-stationary schedule: a tile of rows x columns
elements makes that block of results while operands enter at two of its edges.

- Operands enter once per block of the other side, as tokens; each then passes on from element to
  element, so a multiply-add takes two tokens of which those at the edges were not passed on.
- Results leave the tile once. Partial sums stay where they are made, read and written per step.
- A block takes ``k + rows + columns - 2`` cycles, of which all but k fill and drain the tile.
- Streamers carry tokens from L2 through L1 to the edges, block movers from L3 to L2, the DMA
  engines from memory to L3. Between tiles of a square grid the mean way is two thirds of its side.
- A program is loaded once per kernel; there is no instruction per operation.

There is no silicon: unit energies of movers are projections.
"""

from collections.abc import Iterator
from math import sqrt

from joulelab.core.cost import Pipe
from joulelab.estimator.architecture.base import RawEvent
from joulelab.estimator.architecture.common import (
    core_events,
    core_share_b,
    largest_tile,
    last_cache_b,
    main_memory_b,
    memory_events,
    near_byte_j,
    static_events,
    unit_j,
)
from joulelab.estimator.architecture.work import ACCUMULATOR_B, GroupWork, Product
from joulelab.hardware.processor import Processor

_MATRIX_TILE_PIPES: tuple[Pipe, ...] = ("fp32", "fp64", "tensor_tf32", "tensor_fp64")
_L1_BANK_B = 4 * 1024
_L2_BANK_B = 32 * 1024


def raw_events(work: GroupWork, processor: Processor) -> list[RawEvent]:
    """Return the events of ``work`` on a KPU."""
    return [
        *_tiles(work, processor),
        *_tokens(work, processor),
        *_program(work, processor),
        *_streams(work, processor),
        *core_events(work, processor),
        *memory_events(work, processor),
        *_movers(work, processor),
        *static_events(work, processor),
    ]


def tile_type(pipe: Pipe) -> str:
    """Return the type of tile on which operations of ``pipe`` run."""
    if pipe == "tensor_int8":
        return "INT8 tiles"
    return "matrix tiles" if pipe in _MATRIX_TILE_PIPES else "BF16 tiles"


def injected_tokens(product: Product, processor: Processor) -> float:
    """Return the operands that enter tiles at their edges."""
    return product.fetched_elements(*largest_tile(processor))


def _tiles(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    for product in work.products:
        mac_j = unit_j(f"multiply_add.{product.pipe}", node_nm)
        path = f"compute/{tile_type(product.pipe)}/{product.pipe.removeprefix('tensor_')}"
        yield RawEvent(path, product.macs, "multiply-adds", mac_j)
    for pipe, flop in work.vector_flop.items():
        operation_j = unit_j(f"multiply_add.{pipe}", node_nm) / 2.0
        path = f"compute/{tile_type(pipe)}/elementwise {pipe}"
        yield RawEvent(path, flop, "operations", operation_j)
    macs = sum(product.macs for product in work.products)
    summed_b = 2.0 * ACCUMULATOR_B * macs
    latch_j = unit_j("array.latch_byte", node_nm)
    yield RawEvent("compute/elements/partial sums", summed_b, "bytes", latch_j)


def _tokens(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    latch_j = unit_j("array.latch_byte", node_nm)
    hop_j = unit_j("array.hop_byte", node_nm)
    for product in work.products:
        operand_b = product.operand_b
        injected = injected_tokens(product, processor)
        forwarded = 2.0 * product.macs - injected
        extracted = product.result_elements
        yield RawEvent("compute/tokens/injection", injected, "tokens", operand_b * hop_j)
        yield RawEvent("compute/tokens/forwarding", forwarded, "hops", operand_b * latch_j)
        yield RawEvent("compute/tokens/extraction", extracted, "tokens", ACCUMULATOR_B * hop_j)
    rows, columns = largest_tile(processor)
    blocks = (product.blocks(rows, columns, 2**62) for product in work.products)
    cycles = sum(each * (rows + columns - 2) for each in blocks)
    idle_j = rows * columns / 2 * ACCUMULATOR_B * latch_j
    yield RawEvent("compute/elements/fill and drain", cycles, "cycles", idle_j)


def _program(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    """Yield the loads of domain programs: one per operator of each run, to every tile."""
    programs = float(work.count * len(work.operators))
    descriptor_j = unit_j("array.descriptor", processor.node_nm)
    yield RawEvent("compute/programs/load", programs, "programs", descriptor_j)
    sent = programs * processor.engine.num_engines
    tile_j = unit_j("instruction.fetch", processor.node_nm)
    yield RawEvent("compute/programs/tile configuration", sent, "tiles", tile_j)


def fed_b(work: GroupWork, processor: Processor) -> float:
    """Return the bytes that streamers carry into tiles."""
    tokens_b = sum(injected_tokens(p, processor) * p.operand_b for p in work.products)
    return tokens_b + work.stream_b * (1.0 - work.written_share)


def _streams(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    results_b = sum(product.result_elements * product.operand_b for product in work.products)
    read_b, written_b = fed_b(work, processor), results_b + work.stream_b * work.written_share
    streamer_j = unit_j("array.streamer_byte", processor.node_nm)
    yield RawEvent("compute/streamers/in", read_b, "bytes", streamer_j)
    yield RawEvent("compute/streamers/out", written_b, "bytes", streamer_j)
    for name, bank_b in (("L1", _L1_BANK_B), ("L2", _L2_BANK_B)):
        byte_j = near_byte_j(processor, name, core_share_b(processor, name, bank_b))
        yield RawEvent(f"compute/{name}/read", read_b, "bytes", byte_j)
        yield RawEvent(f"compute/{name}/write", written_b, "bytes", byte_j)


def _movers(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    cache_b, memory_b = last_cache_b(work, processor), main_memory_b(work, processor)
    hops = 2.0 / 3.0 * sqrt(processor.engine.num_engines)
    mover_j, dma_j, hop_j = (
        unit_j(f"array.{name}_byte", node_nm) for name in ("mover", "dma", "hop")
    )
    yield RawEvent("memory/block movers/transfer", cache_b, "bytes", mover_j)
    yield RawEvent("memory/NoC/hops", cache_b * hops, "byte hops", hop_j)
    yield RawEvent("memory/DMA/transfer", memory_b, "bytes", dma_j)
