"""Laws that simulated and predicted devices share."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Seconds = TypeVar("_Seconds", float, NDArray[np.float64])

OVERHEAD_SHARE = 0.35
"""Share of the units that is busy while a kernel fills and drains the device (H200 GEMM 1024:
29 % active where 18 % computes)."""

HOST_CALL_SHARE = 0.03
"""Time of a call in Python over that of launching a kernel from Python: small Llama, BERT and Bloom
networks take 0.4 to 0.5 us for each of their calls on a core of an AMD EPYC besides what their
operators take, and a launch takes 15.2 us on the host of the H200's micro-benchmarks. Another host
than that; the share is good to about a third."""

CAP_SHARE = 0.99
"""Share of the power limit that is used where it binds: it behaves as the largest clock with P(f)
at or below the limit less 1 to 2 % (A100 at 150 to 275 W, H200 at 700 W)."""


def roofline_s(core_s: _Seconds, memory_s: _Seconds) -> _Seconds:
    """Return the time of work that needs ``core_s`` of the units and ``memory_s`` of the memory.

    The fourth-power mean fits 33 workloads over 13 clocks with 0.7 % error, where a plain
    maximum is too sharp and a sum too slow. Works on numbers and on arrays alike.
    """
    total: _Seconds = (core_s**4 + memory_s**4) ** 0.25
    return total
