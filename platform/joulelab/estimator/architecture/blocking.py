"""How a matrix product is blocked for the registers and caches of a CPU.

After K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34 (2008): half of each cache holds the block that is used again, the other half what streams by.
"""

from dataclasses import dataclass
from math import ceil, log2

from joulelab.estimator.architecture.common import core_share_b, level_named
from joulelab.estimator.architecture.work import ACCUMULATOR_B, Product
from joulelab.hardware.processor import Processor

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

    Attributes:
        rows: Results that registers hold along the side that is broadcast.
        columns: Results along the side of the vectors.
        k: Length of a panel in L1.
        m: Rows of the left matrix's block in L2.
        n: Columns of the right matrix's panel in L3.
    """

    rows: int
    columns: int
    k: int
    m: int
    n: int

    def l2_elements(self, product: Product) -> float:
        """Return the operand elements that L2 gives to L1."""
        return self._fetched(product, self.columns)

    def l3_elements(self, product: Product) -> float:
        """Return the operand elements that L3 gives to L2."""
        return self._fetched(product, self.n)

    def result_passes(self, product: Product) -> float:
        """Return how many result elements are written: once per panel of k."""
        return product.result_elements * ceil(product.shape.k / self.k)

    def _fetched(self, product: Product, columns: int) -> float:
        return product.upright.fetched_elements(self.m, columns)


def vector_lanes(processor: Processor) -> int:
    """Return the 32-bit lanes of a vector instruction, a power of two.

    Two units do two operations per lane and clock; on hybrids that is the mean of the cores. Units
    of Zen 4 take two clocks for an instruction of twice their width.
    """
    per_unit = processor.flop_per_clock["fp32"] / processor.num_cores / 4.0
    passes = 2 if processor.architecture.startswith(_HALF_WIDTH) else 1
    return int(2 ** round(log2(max(1.0, per_unit)))) * passes


def blocking(product: Product, processor: Processor) -> Blocking:
    """Return how ``product`` is blocked on ``processor``."""
    lanes = vector_lanes(processor)
    most = _ROWS_OF_16_REGISTERS if lanes == _AVX2_LANES else _ROWS
    columns = max(1, VECTORS * lanes * ACCUMULATOR_B // max(ACCUMULATOR_B, product.operand_b))
    operand_b = product.operand_b
    k = _at_least_one(core_share_b(processor, "L1", _L1_B) / 2 / (columns * operand_b))
    m = _at_least_one(core_share_b(processor, "L2", _L2_B) / 2 / (k * operand_b))
    shared = level_named(processor, "L3") or processor.last_cache
    return Blocking(
        rows=min(most, product.upright.shape.n),
        columns=columns,
        k=k,
        m=m,
        n=_at_least_one(shared.size_b / 2 / (k * operand_b)),
    )


def _at_least_one(elements: float) -> int:
    return max(1, int(elements))
