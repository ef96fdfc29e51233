"""Error correction in line costs bandwidth as it costs capacity; HBM has bits of its own for it."""

import pytest

from joulelab.hardware.processors import PROCESSORS

MIB = 2**20
INSTALLED_MIB = {
    "t4": 16384,
    "a40": 49152,
    "l4": 24576,
    "l40s": 49152,
    "rtx_3090": 24576,
    "rtx_4090": 24576,
    "rtx_6000_ada": 49152,
    "rtx_pro_6000": 98304,
    "rtx_a4000": 16384,
    "quadro_rtx_6000": 24576,
    "quadro_rtx_8000": 49152,
}
TYPICAL = {"Turing": 0.85}
"""Of GDDR6 without error correction; 0.9 on later boards."""


@pytest.mark.parametrize("key", INSTALLED_MIB)
def test_boards_that_lose_a_sixteenth_of_their_memory_lose_it_of_bandwidth(key):
    """Boards with error correction in line were given the bandwidth of boards without it."""
    board = PROCESSORS[key]
    left = board.memory.size_b / MIB / INSTALLED_MIB[key]
    corrected = 15 / 16 if left < 0.95 else 1.0

    typical = TYPICAL.get(board.architecture, 0.9)
    assert board.timing.memory_efficiency == pytest.approx(typical * corrected, rel=1e-3)
