"""Matrix instructions of GPU generations: shapes and who issues them.

Source: PTX ISA, ``mma.sync`` (Volta to Ada), ``wgmma`` (Hopper) and ``tcgen05.mma`` (Blackwell).
"""

from dataclasses import dataclass
from math import ceil

from joulelab.core.cost import Pipe
from joulelab.estimator.architecture.work import Product


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """One matrix instruction.

    Attributes:
        m: Rows of its result.
        n: Columns of its result.
        k: Length of its dot products.
        warps: Warps that issue it together.
        from_registers: Whether its operands come from registers, not from shared memory directly.
    """

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
    """Return the matrix instruction that a GPU of ``architecture`` issues for ``product``.

    Instructions that shared memory feeds have as many columns, in eights, as the product's
    shorter side fills.
    """
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
    if not product.pipe.startswith("tensor_"):
        return 0.0
    mma = matrix_instruction(architecture, product)
    return product.upright.blocks(mma.m, mma.n, mma.k)
