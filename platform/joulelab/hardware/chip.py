"""What a GPU's chip and its links hold besides the pipes, for pricing kernels."""

from dataclasses import dataclass
from typing import Literal

Tier = Literal["A", "B", "C", "D"]
"""Calibrated on it; on its class; datasheet alone; projected, without silicon."""

BUSY_SM_SHARE = 0.96
"""SM activity of a large GEMM (H200, GPM: 95 to 99 %)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipSpec:
    """What the chip holds besides its pipes: what kernels are priced with, simulated or estimated.

    Attributes:
        node_nm: Process node, as marketed.
        tier: How far the figures of this GPU are calibrated.
        register_file_b: Register file of one SM.
        register_b_per_clock: Operand bytes that one SM reads and writes per clock.
        register_byte_j: Energy of a register byte at minimum voltage.
        shared_b: L1 cache and shared memory of one SM.
        shared_b_per_clock: Its bandwidth.
        shared_byte_j: Energy of a byte of it at minimum voltage.
        l2_b_per_clock: Bandwidth of the whole L2 cache.
        tiles: Result blocks (rows, columns, relative speed) that one SM works on.
        graph_launch_s: Time between kernels of a captured graph.
    """

    node_nm: float
    tier: Tier
    register_file_b: float
    register_b_per_clock: float
    register_byte_j: float
    shared_b: float
    shared_b_per_clock: float
    shared_byte_j: float
    l2_b_per_clock: float
    tiles: tuple[tuple[int, int, float], ...]
    graph_launch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """The link to other GPUs of a node.

    Attributes:
        bandwidth_b_per_s: Per direction; 0 without a link.
        byte_j: Energy of moving one byte over it.
    """

    bandwidth_b_per_s: float
    byte_j: float
