"""GPUs: threads in warps, tensor cores, operands through shared memory and registers.

Counts are closed forms of the shapes:

- Tensor instructions cover (m, n, k) in blocks of the generation's matrix instruction; padding
  issues instructions, but its multiplies by zero draw hardly anything, so the energy is that of
  the useful multiply-adds.
- Products on vector pipes take ``flop / 64`` warp instructions (32 fused multiply-adds), any other
  operation one of 32 lanes per instruction.
- A thread block makes one result tile in steps of 64 bytes of k (CUTLASS, 128x128x32 at two bytes):
  it fetches each operand once per tile of the other side and has one barrier per step.
- Streams move 16 bytes per thread where they are contiguous, one element where they are not;
  then each element takes a 32-byte sector.
- Divergence is nothing for dense kernels, whose warps agree on every branch. Warps of gathers and
  masked kernels are taken to issue 5 % of their instructions for both sides.
- There is no coherence traffic: L1 caches are written through and not kept coherent.

Source of the matrix instructions: PTX ISA, ``mma.sync`` (Volta to Ada), ``wgmma`` (Hopper) and
``tcgen05.mma`` (Blackwell).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from joulelab.core.cost import Pipe
from joulelab.estimator.architecture.base import RawEvent
from joulelab.estimator.architecture.common import (
    core_events,
    irregular,
    largest_tile,
    memory_events,
    near_byte_j,
    static_events,
    unit_j,
)
from joulelab.estimator.architecture.work import ACCUMULATOR_B, GroupWork, Product
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import MATRIX_KINDS


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """One matrix instruction of (m, n, k), issued by ``warps`` warps together."""

    m: int
    n: int
    k: int
    warps: int = 1
    from_registers: bool = True

    @property
    def macs(self) -> int:
        """Multiply-adds of one instruction."""
        return self.m * self.n * self.k


_WARP_MMA: dict[Pipe, MatrixInstruction] = {
    "tensor_fp64": MatrixInstruction(8, 8, 4),
    "tensor_tf32": MatrixInstruction(16, 8, 8),
    "tensor_fp16": MatrixInstruction(16, 8, 16),
    "tensor_bf16": MatrixInstruction(16, 8, 16),
    "tensor_fp8": MatrixInstruction(16, 8, 32),
    "tensor_int8": MatrixInstruction(16, 8, 32),
}
_OLDER: dict[str, dict[Pipe, MatrixInstruction]] = {
    # Four products m8n8k4 of the quadrants of a warp.
    "Volta": {"tensor_fp16": MatrixInstruction(16, 16, 4)},
    "Turing": {
        "tensor_fp16": MatrixInstruction(16, 8, 8),
        "tensor_int8": MatrixInstruction(8, 8, 16),
    },
}
# Issued by four warps on Hopper, by one thread on Blackwell; k as in the instruction of a warp.
_SHARED_MMA = {"Hopper": (64, 256, 4), "Blackwell": (128, 256, 1)}


def matrix_instruction(architecture: str, product: Product) -> MatrixInstruction:
    """Return the instruction for ``product``; fed by shared memory, as wide as its shorter side."""
    pipe = product.pipe
    if architecture not in _SHARED_MMA or pipe == "tensor_fp64":
        return _OLDER.get(architecture, {}).get(pipe, _WARP_MMA[pipe])
    m, widest, warps = _SHARED_MMA[architecture]
    n = min(widest, 8 * ceil(product.upright.shape.n / 8))
    return MatrixInstruction(m, n, _WARP_MMA[pipe].k, warps=warps, from_registers=False)


def tensor_instructions(architecture: str, product: Product) -> float:
    """Return how many matrix instructions ``product`` takes; none on a vector pipe.

    Its longer side lies along the rows: libraries compute the transposed product if need be.
    """
    if not product.on_matrix_units:
        return 0.0
    mma = matrix_instruction(architecture, product)
    return product.upright.blocks(mma.m, mma.n, mma.k)


WARP = 32
SECTOR_B = 32
K_STEP_B = 64
DIVERGENT_SHARE = 0.05
_VECTOR_ACCESS_B = 16
_WARPS_PER_BLOCK = 8
_WARP_TILE = (64, 64)
_BLOCK_ELEMENTS = 4096
_REGISTER_BANK_B = 16 * 1024
_SHARED_BANK_B = 32 * 1024


def raw_events(work: GroupWork, processor: Processor) -> list[RawEvent]:
    """Return the events of ``work`` on a GPU."""
    return [
        *_units(work, processor),
        *_instructions(work, processor),
        *_operands(work, processor),
        *_control(work, processor),
        *core_events(work, processor),
        *memory_events(work, processor),
        *_uncoalesced(work, processor),
        *static_events(work, processor),
    ]


def _units(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    for product in work.products:
        mac_j = unit_j(f"multiply_add.{product.pipe}", processor.node_nm)
        name = product.pipe.removeprefix("tensor_")
        if product.on_matrix_units:
            count = tensor_instructions(processor.architecture, product)
            energy_j = product.macs / count * mac_j
            yield RawEvent(f"compute/tensor cores/{name}", count, "instructions", energy_j)
        else:
            yield RawEvent(f"compute/vector units/{name}", product.flop, "operations", mac_j / 2)
    for pipe, flop in work.vector_flop.items():
        mac_j = unit_j(f"multiply_add.{pipe}", processor.node_nm)
        yield RawEvent(f"compute/vector units/{pipe}", flop, "operations", mac_j / 2)


def warp_instructions(work: GroupWork, processor: Processor) -> dict[str, float]:
    """Return how many warp instructions of each class ``work`` issues.

    ``"shared"`` brings operands to registers, ``"copy"`` into shared memory, ``"integer"`` is one
    address or loop instruction for each of these and of ``"stream"``, loads and stores of memory.
    """
    counts = {
        "tensor": 0.0,
        "vector": sum(work.vector_flop.values()) / WARP,
        "shared": 0.0,
        "copy": 0.0,
        "stream": _stream_instructions(work),
    }
    for product in work.products:
        for name, count in _product_instructions(product, processor).items():
            counts[name] += count
    counts["integer"] = counts["shared"] + counts["copy"] + counts["stream"]
    return counts


def _product_instructions(product: Product, processor: Processor) -> dict[str, float]:
    access_b = WARP * _VECTOR_ACCESS_B
    operands = {
        "shared": _operand_b(product, *_WARP_TILE) / access_b,
        "copy": _operand_b(product, *largest_tile(processor)) / access_b,
    }
    if not product.on_matrix_units:
        return {"vector": product.macs / WARP, **operands}
    mma = matrix_instruction(processor.architecture, product)
    issued = {"tensor": tensor_instructions(processor.architecture, product) * mma.warps}
    if not mma.from_registers:
        # The copy engine takes one instruction per operand tile and step.
        return {**issued, "copy": 2.0 * block_steps(product, processor)}
    return {**issued, **operands}


def _stream_instructions(work: GroupWork) -> float:
    wide = work.contiguous * work.stream_b / (WARP * _VECTOR_ACCESS_B)
    narrow = (1.0 - work.contiguous) * work.stream_b / (WARP * work.element_b)
    return wide + narrow


def block_steps(product: Product, processor: Processor) -> float:
    """Return the steps along k that all thread blocks of ``product`` take together."""
    return product.blocks(*largest_tile(processor), K_STEP_B // product.operand_b)


def _operand_b(product: Product, m: int, n: int) -> float:
    return product.fetched_elements(m, n) * product.operand_b


def _instructions(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    counts = warp_instructions(work, processor)
    issued = sum(counts.values())
    for name in ("fetch", "decode", "schedule"):
        energy_j = unit_j(f"warp.{name}", processor.node_nm)
        yield RawEvent(f"compute/instructions/{name}", issued, "instructions", energy_j)
    integer_j = WARP * unit_j("instruction.integer", processor.node_nm)
    yield RawEvent("compute/vector units/integer", counts["integer"], "instructions", integer_j)
    replayed = (counts["vector"] + counts["stream"]) * DIVERGENT_SHARE * irregular(work)
    yield RawEvent("compute/divergence/replays", replayed, "instructions", _warp_j(processor))


def _warp_j(processor: Processor) -> float:
    names = ("fetch", "decode", "schedule")
    return sum(unit_j(f"warp.{name}", processor.node_nm) for name in names)


def _operands(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    register_j = near_byte_j(processor, "register file", _REGISTER_BANK_B)
    shared_j = near_byte_j(processor, "shared memory", _SHARED_BANK_B)
    read_b, written_b = register_b(work, processor)
    yield RawEvent("compute/register file/read", read_b, "bytes", register_j)
    yield RawEvent("compute/register file/write", written_b, "bytes", register_j)
    filled_b = sum(_operand_b(product, *largest_tile(processor)) for product in work.products)
    fed_b = sum(_shared_b(product, processor) for product in work.products)
    yield RawEvent("compute/shared memory/fill", filled_b, "bytes", shared_j)
    yield RawEvent("compute/shared memory/operands", fed_b, "bytes", shared_j)
    read_share = 1.0 - work.written_share
    yield RawEvent("compute/L1/load", work.stream_b * read_share, "bytes", shared_j)
    yield RawEvent("compute/L1/store", work.stream_b * work.written_share, "bytes", shared_j)


def _shared_b(product: Product, processor: Processor) -> float:
    if product.on_matrix_units:
        mma = matrix_instruction(processor.architecture, product)
        if not mma.from_registers:
            return _operand_b(product.upright, mma.m, mma.n)
    return _operand_b(product, *_WARP_TILE)


def register_b(work: GroupWork, processor: Processor) -> tuple[float, float]:
    """Return the bytes that registers give and take.

    A lane of a vector instruction reads three words and writes one. A matrix instruction reads
    its operands, unless shared memory feeds them, and reads and writes its accumulators.
    """
    counts = warp_instructions(work, processor)
    read_b, written_b = 3.0 * 4 * WARP * counts["vector"], 1.0 * 4 * WARP * counts["vector"]
    for product in work.products:
        if not product.on_matrix_units:
            continue
        mma = matrix_instruction(processor.architecture, product)
        count = tensor_instructions(processor.architecture, product)
        operands = (mma.m + mma.n) * mma.k * product.operand_b * mma.from_registers
        read_b += count * (operands + mma.m * mma.n * ACCUMULATOR_B)
        written_b += count * mma.m * mma.n * ACCUMULATOR_B
    # What is loaded is written to registers, what is stored is read from them.
    loaded_b = counts["shared"] * WARP * _VECTOR_ACCESS_B
    stored_b = work.stream_b * work.written_share
    return read_b + stored_b, written_b + loaded_b + work.stream_b - stored_b


def _control(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    warp_j = _WARPS_PER_BLOCK * _warp_j(processor)
    tiles = sum(product.blocks(*largest_tile(processor), 2**62) for product in work.products)
    streams = _stream_blocks(work)
    barriers = sum(block_steps(product, processor) for product in work.products)
    reduces = work.kind in ("norm", "softmax", "reduction")
    yield RawEvent(
        "compute/synchronisation/barriers", barriers + 2.0 * streams * reduces, "barriers", warp_j
    )
    yield RawEvent("compute/launch/thread blocks", tiles + streams, "blocks", warp_j)


def _stream_blocks(work: GroupWork) -> float:
    """Return the thread blocks of a streaming kernel; none where a product's blocks do it."""
    if work.kind in MATRIX_KINDS:
        return 0.0
    return max(float(work.count), work.stream_b / work.element_b / _BLOCK_ELEMENTS)


def _uncoalesced(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    """Yield the bytes of sectors that strided or scattered accesses fetch in vain."""
    excess = SECTOR_B / work.element_b - 1.0
    wasted_b = (1.0 - work.contiguous) * work.stream_b * excess
    shared_j = near_byte_j(processor, "shared memory", _SHARED_BANK_B)
    yield RawEvent("compute/L1/uncoalesced", wasted_b, "bytes", shared_j)
