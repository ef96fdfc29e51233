"""Which kind of kernel an operator launches, by its name."""

import re
from functools import cache
from typing import Literal

Kind = Literal[
    "gemm", "conv", "attention", "norm", "softmax", "reduction", "gather", "copy", "elementwise"
]
"""What a kernel computes; becomes the name of its :class:`joulelab.core.cost.KernelCost`."""

MATRIX_KINDS: tuple[Kind, ...] = ("gemm", "conv", "attention")
"""Kinds that run on matrix units, and whose operators need a formula each."""

# The first pattern that matches a whole name, without leading underscores, decides. Fused
# recurrent layers, transforms and solvers stand among the products: none has a formula yet, and
# they are to be refused rather than taken for elementwise kernels.
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("gemm", r".*(mm|mv|matmul)_?|v?dot|ger|addr|linear|bilinear|einsum|addmm_activation"),
    (
        "gemm",
        r"(.*_)?(lstm|gru|rnn|rnn_tanh|rnn_relu|rnn_layer)(_backward)?|trilinear|cdist.*|fft_.*",
    ),
    ("gemm", r"linalg_(?!vector_norm).*|cholesky.*|lu_.*|triangular_solve|ormqr|geqrf"),
    ("conv", r".*conv(olution)?([1-3]d)?(_.*)?"),
    ("attention", r".*(attention|scaled_dot_product).*"),
    ("softmax", r".*softmax.*"),
    ("copy", r"(normal|uniform|random|exponential|bernoulli|fill|zero|copy)_|clone|copy|to_copy"),
    ("copy", r"(zeros|ones|full|rand|randn|randint)(_like)?|new_(zeros|ones|full)|scalar_tensor"),
    ("copy", r"cat|stack|fill|arange|linspace|eye|roll|flip|repeat|tril|triu|constant_pad_nd"),
    ("copy", r"(slice|select|diagonal|masked)_scatter_?|scatter_?|index_copy_?|(.*_)?index_put.*"),
    ("copy", r"(slice|select|diagonal|unfold)_backward"),
    ("gather", r"embedding_dense_backward|embedding|index|unsafe_index|index_select|gather|take"),
    ("reduction", r"norm|linalg_vector_norm"),
    ("norm", r".*norm.*"),
    ("reduction", r"(nan)?sum|mean|a?max|a?min|aminmax|argmax|argmin|any|all|prod|logsumexp"),
    ("reduction", r"(var|std)(_mean)?|topk|sort|cumsum|cumprod|median|count_nonzero|.*pool.*"),
)

# Neither a kernel nor traffic: allocation, bookkeeping, and views that declare no alias.
_FREE = r"""
    unsafe_view | reshape_alias | lift | lift_fresh_copy | set_ | resize_
    | empty(_like|_strided)? | new_empty(_strided)? | assert_(async|scalar)
    | local_scalar_dense | sym_.* | is_same_size
"""


@cache
def kind_of(name: str) -> Kind:
    """Return which kind of kernel the operator called ``name`` launches, e.g. for ``"mm"``."""
    plain = name.lstrip("_").removeprefix("foreach_")
    for kind, pattern in _PATTERNS:
        if re.fullmatch(pattern, plain):
            return kind
    return "elementwise"


@cache
def launches_nothing(name: str) -> bool:
    """Whether the operator called ``name`` allocates, views or checks, but runs no kernel."""
    return re.fullmatch(_FREE, name.lstrip("_"), re.VERBOSE) is not None
