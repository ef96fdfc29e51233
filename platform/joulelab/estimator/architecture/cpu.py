"""CPUs: a stored program, fetched, decoded, renamed, issued and retired instruction by instruction.

Counts are closed forms of the shapes:

- A vector fused multiply-add does two operations per lane; other vector instructions one.
- A tile unit multiplies 16x16 results by 64 bytes of k per instruction, in 16 cycles (Intel, AMX);
  other matrix pipes are dot products that a vector instruction does within its lanes.
- Products run in the loops of Goto and van de Geijn, "Anatomy of high-performance matrix
  multiplication" (ACM TOMS 34, 2008): registers hold two vectors times 12 rows (6 where there are
  but 16 registers; BLIS), L1 a panel of k, L2 a block of the left matrix, L3 a panel of the right.
  Half of each cache holds the block that is used again, the other half what streams by.
- Loops are unrolled by four. Mispredicted are 0.1 % of branches, 1 % of gathers and masked kernels.
- Every line that reaches a core from outside takes one look into the coherence directory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import ceil, log2

from joulelab.core.cost import Pipe
from joulelab.estimator.architecture.base import RawEvent
from joulelab.estimator.architecture.common import (
    core_events,
    core_share_b,
    irregular,
    last_cache_b,
    level_named,
    memory_events,
    near_byte_j,
    sram_byte_j,
    static_events,
    unit_j,
)
from joulelab.estimator.architecture.work import ACCUMULATOR_B, GroupWork, Product
from joulelab.hardware.processor import Processor

LINE_B = 64
TILE = 16
TILE_K_B = 64
UNROLL = 4
MISPREDICTED = 0.001
MISPREDICTED_IRREGULAR = 0.01
TILE_B = 1024
TAG_B = 8
VECTORS = 2
"""Vectors of a row of results that registers hold (BLIS: 2x12 on AVX-512 and NEON, 2x6 on AVX2)."""

_ROWS = 12
_ROWS_OF_16_REGISTERS = 6
_AVX2_LANES = 8
_HALF_WIDTH = "Zen 4"
_L1_B = 32 * 1024
_L2_B = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """Block sizes of one product, in elements.

    Registers hold ``rows`` of results along the side that is broadcast and ``columns`` along that
    of the vectors; L1 a panel of ``k``, L2 ``m`` rows of the left matrix, L3 ``n`` columns of the
    right.
    """

    rows: int
    columns: int
    k: int
    m: int
    n: int

    def result_b(self, product: Product) -> float:
        """Return the bytes of results that are written: once per panel of k."""
        passes = product.result_elements * ceil(product.shape.k / self.k)
        return passes * max(ACCUMULATOR_B, product.operand_b)


def vector_lanes(processor: Processor) -> int:
    """Return the 32-bit lanes of a vector instruction, a power of two.

    Every core has two units, of two operations per lane and clock; hybrids the mean of their cores.
    Units of Zen 4 take two clocks for an instruction of twice their width.
    """
    per_unit = processor.flop_per_clock["fp32"] / processor.num_cores / 4.0
    passes = 2 if processor.architecture.startswith(_HALF_WIDTH) else 1
    return int(2 ** round(log2(max(1.0, per_unit)))) * passes


def blocking(product: Product, processor: Processor) -> Blocking:
    """Return how ``product`` is blocked on ``processor``."""
    lanes = vector_lanes(processor)
    most = _ROWS_OF_16_REGISTERS if lanes == _AVX2_LANES else _ROWS
    columns = max(1, VECTORS * lanes * ACCUMULATOR_B // max(ACCUMULATOR_B, product.operand_b))
    k = max(1, int(core_share_b(processor, "L1", _L1_B) / 2 / (columns * product.operand_b)))
    m = max(1, int(core_share_b(processor, "L2", _L2_B) / 2 / (k * product.operand_b)))
    shared = level_named(processor, "L3") or processor.last_cache
    return Blocking(
        rows=min(most, product.upright.shape.n),
        columns=columns,
        k=k,
        m=m,
        n=max(1, int(shared.size_b / 2 / (k * product.operand_b))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Dynamic instructions of a group, of each kind; bytes that loads bring and stores take."""

    vector: float = 0.0
    tile: float = 0.0
    load: float = 0.0
    store: float = 0.0
    scalar: float = 0.0
    branch: float = 0.0
    loaded_b: float = 0.0
    stored_b: float = 0.0

    @property
    def total(self) -> float:
        """All instructions."""
        return self.vector + self.tile + self.load + self.store + self.scalar + self.branch


def raw_events(work: GroupWork, processor: Processor) -> list[RawEvent]:
    """Return the events of ``work`` on a CPU."""
    instructions = instructions_of(work, processor)
    return [
        *_pipeline(instructions, work, processor),
        *_units(instructions, work, processor),
        *_operands(instructions, work, processor),
        *core_events(work, processor),
        *memory_events(work, processor),
        *_coherence(work, processor),
        *static_events(work, processor),
    ]


def product_instructions(product: Product, processor: Processor) -> Instructions:
    """Return the instructions that compute ``product``."""
    blocks, rates = blocking(product, processor), processor.flop_per_clock
    # More than eight times the fp32 rate shows a tile unit.
    if product.on_matrix_units and rates[product.pipe] > 8.0 * rates["fp32"]:
        return _tile_instructions(product, blocks)
    return _vector_instructions(product, blocks, processor)


def flop_per_instruction(pipe: Pipe, processor: Processor) -> float:
    """Return the operations of one fused multiply-add on a vector, of fp32 if not known."""
    rates = processor.flop_per_clock
    return 2.0 * vector_lanes(processor) * rates.get(pipe, rates["fp32"]) / rates["fp32"]


def _tile_instructions(product: Product, blocks: Blocking) -> Instructions:
    # Eight tiles: four of results, two of each operand, so one load per product.
    upright = product.upright
    products = upright.blocks(TILE, TILE, TILE_K_B // product.operand_b)
    stores = upright.blocks(TILE, TILE, blocks.k)
    return Instructions(
        tile=products,
        load=products,
        store=stores,
        scalar=2.0 * products / UNROLL,
        branch=products / UNROLL,
        loaded_b=products * TILE_B,
        stored_b=stores * TILE_B,
    )


def _vector_instructions(product: Product, blocks: Blocking, processor: Processor) -> Instructions:
    vector_b = vector_lanes(processor) * ACCUMULATOR_B
    adds = product.flop / flop_per_instruction(product.pipe, processor)
    steps = adds / (VECTORS * blocks.rows)
    stored_b = blocks.result_b(product)
    loaded_b = VECTORS * vector_b + blocks.rows * max(ACCUMULATOR_B, product.operand_b)
    return Instructions(
        vector=adds,
        load=steps * (VECTORS + blocks.rows),
        store=stored_b / vector_b,
        scalar=2.0 * steps / UNROLL,
        branch=steps / UNROLL,
        loaded_b=steps * loaded_b,
        stored_b=stored_b,
    )


def stream_instructions(work: GroupWork, processor: Processor) -> Instructions:
    """Return the instructions of everything that is no matrix product."""
    vector_b = vector_lanes(processor) * ACCUMULATOR_B
    accesses = work.contiguous / vector_b + (1.0 - work.contiguous) / work.element_b
    stored_b = work.stream_b * work.written_share
    loaded_b = work.stream_b - stored_b
    loops = work.stream_b * accesses / UNROLL
    return Instructions(
        vector=sum(
            2.0 * flop / flop_per_instruction(pipe, processor)
            for pipe, flop in work.vector_flop.items()
        ),
        load=loaded_b * accesses,
        store=stored_b * accesses,
        scalar=2.0 * loops,
        branch=loops,
        loaded_b=loaded_b,
        stored_b=stored_b,
    )


def instructions_of(work: GroupWork, processor: Processor) -> Instructions:
    """Return all instructions of ``work``."""
    parts = [stream_instructions(work, processor)]
    parts += [product_instructions(product, processor) for product in work.products]
    names = [field.name for field in fields(Instructions)]
    return Instructions(**{name: sum(getattr(part, name) for part in parts) for name in names})


def _pipeline(issued: Instructions, work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    for stage in ("fetch", "decode", "rename", "issue", "retire"):
        energy_j = unit_j(f"instruction.{stage}", node_nm)
        yield RawEvent(f"compute/pipeline/{stage}", issued.total, "instructions", energy_j)
    missed = MISPREDICTED_IRREGULAR if irregular(work) else MISPREDICTED
    branches = issued.branch
    predict_j, flush_j = (unit_j(f"instruction.{name}", node_nm) for name in ("predict", "flush"))
    yield RawEvent("compute/branches/predictions", branches, "branches", predict_j)
    yield RawEvent("compute/branches/mispredictions", branches * missed, "flushes", flush_j)


def _units(issued: Instructions, work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    node_nm = processor.node_nm
    integer_j = unit_j("instruction.integer", node_nm)
    count = issued.scalar + issued.load + issued.store
    yield RawEvent("compute/scalar units/addresses and counters", count, "operations", integer_j)
    flop = dict(work.vector_flop)
    for product in work.products:
        if product.on_matrix_units:
            yield _matrix_unit(product, processor)
        else:
            flop[product.pipe] = flop.get(product.pipe, 0.0) + product.flop
    for pipe, operations in flop.items():
        energy_j = unit_j(f"multiply_add.{pipe}", node_nm) / 2.0
        yield RawEvent(f"compute/vector units/{pipe}", operations, "operations", energy_j)


def _matrix_unit(product: Product, processor: Processor) -> RawEvent:
    issued = product_instructions(product, processor)
    count = issued.tile + issued.vector
    energy_j = product.macs / count * unit_j(f"multiply_add.{product.pipe}", processor.node_nm)
    unit = "tile unit" if issued.tile else "dot products"
    name = product.pipe.removeprefix("tensor_")
    return RawEvent(f"compute/{unit}/{name}", count, "instructions", energy_j)


def _operands(issued: Instructions, work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    vector_b = vector_lanes(processor) * ACCUMULATOR_B
    computed_b = issued.vector * vector_b + issued.tile * TILE_B
    register_j = unit_j("array.register_byte", processor.node_nm)
    l1_j = near_byte_j(processor, "L1", core_share_b(processor, "L1", 32 * 1024))
    loaded_b, stored_b = issued.loaded_b, issued.stored_b
    yield RawEvent("compute/registers/read", 3.0 * computed_b + stored_b, "bytes", register_j)
    yield RawEvent("compute/registers/write", computed_b + loaded_b, "bytes", register_j)
    yield RawEvent("compute/L1/load", loaded_b, "bytes", l1_j)
    yield RawEvent("compute/L1/store", stored_b, "bytes", l1_j)
    for name, default_b in (("L2", 1024 * 1024), ("L3", 32 * 1024 * 1024)):
        if name != processor.last_cache.name and level_named(processor, name) is not None:
            byte_j = near_byte_j(processor, name, core_share_b(processor, name, default_b))
            written_b = work.stream_b * work.written_share
            read_b = work.stream_b - written_b
            for product in work.products:
                blocks = blocking(product, processor)
                columns = blocks.columns if name == "L2" else blocks.n
                read_b += product.upright.fetched_elements(blocks.m, columns) * product.operand_b
                written_b += blocks.result_b(product)
            yield RawEvent(f"compute/{name}/read", read_b, "bytes", byte_j)
            yield RawEvent(f"compute/{name}/write", written_b, "bytes", byte_j)


def _coherence(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    lookup_j = TAG_B * sram_byte_j(32 * 1024, processor.node_nm)
    lines = last_cache_b(work, processor) / LINE_B
    yield RawEvent("memory/coherence/directory", lines, "lookups", lookup_j)
