"""Where kernels come from, by their names: libraries of products, the framework, communication."""

import re
from typing import Literal, get_args

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
