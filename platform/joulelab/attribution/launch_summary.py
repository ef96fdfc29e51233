"""Launches of a trace reduced: distinct kernels, how often and how long; streams, and gaps."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from joulelab.attribution.kineto import Launches, OperatorCall, Signature

Tier = Literal[
    "communication",
    "runtime copies",
    "matrix libraries",
    "attention libraries",
    "framework kernels",
    "compiled kernels",
    "others",
]
"""Origins of kernels, in the order in which they are tried."""

TIERS: tuple[Tier, ...] = get_args(Tier)

_PATTERNS: tuple[tuple[Tier, str], ...] = (
    (
        "communication",
        r"nccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|multimem",
    ),
    ("runtime copies", r"^(memcpy|memset)\b"),
    ("attention libraries", r"flash|fmha|sdpa|attention|mha_"),
    (
        "matrix libraries",
        r"gemm|gemv|nvjet|cutlass|xmma|splitk|cublas|cudnn|conv\w*_(fprop|dgrad|wgrad)|s16816|wgmma",
    ),
    ("framework kernels", r"at::native|at_cuda_detail|c10|thrust|cub::|vectorized_elementwise"),
    ("compiled kernels", r"^triton_"),
)


def tier_of(kernel: str) -> Tier:
    """Return where a kernel comes from: the first pattern that its name holds decides.

    Communication comes before the matrix libraries: collectives may name the sums that they do.
    """
    name = kernel.lower()
    return next((tier for tier, pattern in _PATTERNS if re.search(pattern, name)), "others")


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSummary:
    """One distinct kernel: alike in its signature, and in what its operator was given."""

    signature: Signature
    tier: Tier  # where it comes from
    operator: OperatorCall  # what launched it; without a name where that is not known
    num_launches: int
    total_s: float
    shortest_s: float
    longest_s: float

    @property
    def mean_s(self) -> float:
        """Mean time of a launch, in seconds."""
        return self.total_s / self.num_launches


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceSummary:
    """What one GPU did from its first launch to its last."""

    device: int
    span_s: float  # from the start of the first launch to the end of the last
    busy_s: float  # time in which at least one kernel ran
    kernel_s: float  # time of all launches; beyond busy_s where they overlap
    communication_s: float  # time in which only communication ran
    num_gaps: int  # pauses of more than a microsecond
    longest_gap_s: float
    num_streams: int


_PAUSE_S = 1e-6


def kernels_in(launches: Launches) -> tuple[KernelSummary, ...]:
    """Return the distinct kernels, most time first."""
    calls = (*launches.operators, OperatorCall(""))  # the last is that of -1
    each = launches.signature * len(calls) + launches.operator % len(calls)
    distinct, first, kernel = np.unique(each, return_index=True, return_inverse=True)
    counts = np.bincount(kernel)
    totals_s = np.bincount(kernel, launches.duration_s)
    shortest_s, longest_s = np.full(distinct.size, np.inf), np.zeros(distinct.size)
    np.minimum.at(shortest_s, kernel, launches.duration_s)
    np.maximum.at(longest_s, kernel, launches.duration_s)
    order = np.lexsort([first, -totals_s])  # of the same time the first one first
    signatures = [launches.signatures[place // len(calls)] for place in distinct.tolist()]
    operators = [calls[place % len(calls)] for place in distinct.tolist()]
    return tuple(
        KernelSummary(
            signature=signatures[place],
            tier=tier_of(signatures[place].name),
            operator=operators[place],
            num_launches=int(counts[place]),
            total_s=float(totals_s[place]),
            shortest_s=float(shortest_s[place]),
            longest_s=float(longest_s[place]),
        )
        for place in order.tolist()
    )


def devices_in(launches: Launches) -> tuple[DeviceSummary, ...]:
    """Return what every GPU did, by its number."""
    device = np.array([each.device for each in launches.signatures])[launches.signature]
    return tuple(_device(launches, number, device == number) for number in sorted(set(device)))


def _device(launches: Launches, number: int, own: NDArray[np.bool_]) -> DeviceSummary:
    start, stop = launches.start_s[own], launches.start_s[own] + launches.duration_s[own]
    signatures = launches.signature[own]
    speaks = np.array([tier_of(each.name) == "communication" for each in launches.signatures])
    streams = {launches.signatures[place].stream for place in np.unique(signatures).tolist()}
    busy_s, gaps_s = covered(start, stop)
    computing_s, _ = covered(start[~speaks[signatures]], stop[~speaks[signatures]])
    pauses_s = gaps_s[gaps_s > _PAUSE_S]
    return DeviceSummary(
        device=int(number),
        span_s=float(stop.max() - start[0]),
        busy_s=busy_s,
        kernel_s=float((stop - start).sum()),
        communication_s=busy_s - computing_s,
        num_gaps=len(pauses_s),
        longest_gap_s=float(pauses_s.max(initial=0.0)),
        num_streams=len(streams),
    )


def covered(start: Array, stop: Array) -> tuple[float, Array]:
    """Return the time that intervals, sorted by start, cover, and the gaps between them."""
    if not start.size:
        return 0.0, np.empty(0)
    reached = np.maximum.accumulate(stop)
    gaps = np.maximum(0.0, start[1:] - reached[:-1])
    return float(reached[-1] - start[0] - gaps.sum()), gaps
