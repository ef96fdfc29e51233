"""The micro-benchmarks that anchor the estimator: what each one runs, and what it costs.

A point is one operator on one shape. It is run over and over, through a CUDA graph where it is
the device's time that matters, and one call after another where it is the host's. Operands that a
network would read from main memory rotate through more bytes than any cache holds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

Call = Callable[[], object]
Mode = Literal["graph", "eager", "idle"]

COLD_B = 400e6
"""Operands that must not stay in a cache rotate through this many bytes."""

_DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One micro-benchmark.

    Attributes:
        name: Unique and readable.
        kind: Kind of kernel, in the estimator's words; ``"idle"`` for none.
        make: Makes operands on a device and returns calls that are run in turn.
        dtype: Number format; ``"tf32"`` is float32 with TF32 allowed.
        m: Rows of the result; a convolution's output positions times batch; queries.
        n: Columns of the result; output channels per group; keys.
        k: Length of a dot product; a head's size.
        window: Elements of a convolution's window, of one channel.
        pixels: Positions in one result of a convolution.
        batch: Products side by side: groups, heads times samples.
        elements: Elements of the result.
        moved_b: Bytes read and written by one call, each operand once.
        flop: Operations of one call; a multiply-add counts two.
        memory_format: ``"channels_last"`` where it is not the default.
        mode: How it is launched.
        data: ``"random"`` or ``"zeros"``.
        cold: Whether its second operand rotates through more bytes than any cache holds.
        window_s: How long it is measured.
        kinds: What a chain calls, as ``"conv 16, norm 16"``; empty for one operator.
    """

    name: str
    kind: str
    make: Callable[[str], list[Call]]
    dtype: str = "float32"
    m: int = 0
    n: int = 0
    k: int = 0
    window: int = 1
    pixels: int = 0
    batch: int = 1
    elements: int = 0
    moved_b: float = 0.0
    flop: float = 0.0
    memory_format: str = ""
    mode: Mode = "graph"
    data: str = "random"
    cold: bool = False
    window_s: float = 0.7
    kinds: str = ""


def all_points(shrink: int = 1) -> Iterator[Point]:
    """Yield every point, the most telling first.

    Args:
        shrink: Divides the sizes, for a trial on a small machine.
    """
    yield Point(name="idle", kind="idle", make=lambda _: [], mode="idle", window_s=2.0)
    yield from _large_products(shrink, (8192,))
    yield from _streams(shrink)
    yield from _large_products(shrink, (4096, 2048, 1024))
    yield from _skinny_products(shrink)
    yield from _convolutions(shrink, 64)
    yield from _attentions(shrink)
    yield from eager_points()
    yield from _activations(shrink)
    yield _square(max(8192 // shrink, 16), "bfloat16", data="zeros")
    yield _embedding(shrink)
    yield from _convolutions(shrink, 1)
    yield from _channels_last(shrink)


def _random(device: str, dtype: str, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=device).to(_DTYPES[dtype])


def _size_b(dtype: str) -> int:
    return {"float8": 1, "int8": 1}.get(dtype) or _DTYPES[dtype].itemsize


def _large_products(shrink: int, sizes: tuple[int, ...]) -> Iterator[Point]:
    for size in sizes:
        for dtype in ("bfloat16", "float32", "tf32", "float16", "float8", "int8"):
            yield _square(max(size // shrink, 16), dtype)


def _square(size: int, dtype: str, data: str = "random") -> Point:
    out_b = {"float8": 2, "int8": 4}.get(dtype) or _size_b(dtype)
    return Point(
        name=f"gemm_{size}_{dtype}" + ("_zeros" if data == "zeros" else ""),
        kind="gemm",
        make=partial(_make_square, size, dtype, data),
        dtype=dtype,
        m=size,
        n=size,
        k=size,
        elements=size**2,
        moved_b=size**2 * (2 * _size_b(dtype) + out_b),
        flop=2.0 * size**3,
        data=data,
        window_s=1.0,
    )


def _make_square(size: int, dtype: str, data: str, device: str) -> list[Call]:
    scale = 0.0 if data == "zeros" else 1.0
    if dtype == "int8":
        a, b = (torch.randint(-127, 128, (size, size), device=device).to(torch.int8) for _ in "ab")
        return [partial(torch._int_mm, a, b.t())]  # noqa: SLF001 - the only way to int8
    a, b = (torch.randn((size, size), device=device) * scale for _ in "ab")
    if dtype == "float8":
        one = torch.ones((), device=device)
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        multiply = partial(torch._scaled_mm, scale_a=one, scale_b=one)  # noqa: SLF001
        return [partial(multiply, a, b.t(), out_dtype=torch.bfloat16)]
    return [partial(torch.mm, a.to(_DTYPES[dtype]), b.to(_DTYPES[dtype]))]


def _skinny_products(shrink: int) -> Iterator[Point]:
    for dtype in ("bfloat16", "float32"):
        for n in (4096, 11008, 32000):
            for m in (1, 8, 64, 512):
                yield _linear(m, n // shrink, 4096 // shrink, dtype)


def _linear(m: int, n: int, k: int, dtype: str) -> Point:
    return Point(
        name=f"linear_{m}x{n}x{k}_{dtype}",
        kind="gemm",
        make=partial(_make_linear, m, n, k, dtype),
        dtype=dtype,
        m=m,
        n=n,
        k=k,
        elements=m * n,
        moved_b=(m * k + n * k + m * n) * _size_b(dtype),
        flop=2.0 * m * n * k,
        cold=True,
    )


def _make_linear(m: int, n: int, k: int, dtype: str, device: str) -> list[Call]:
    inputs = _random(device, dtype, m, k)
    copies = _cold_copies(n * k * _size_b(dtype), device)
    return [partial(functional.linear, inputs, _random(device, dtype, n, k)) for _ in range(copies)]


def _cold_copies(operand_b: float, device: str) -> int:
    return 2 if device == "cpu" else min(max(round(COLD_B / operand_b), 1), 64)


def _streams(shrink: int) -> Iterator[Point]:
    for megabytes in (4096, 1024, 256, 64, 32, 16, 4, 1):
        yield _elementwise("copy", megabytes * 2**20 // shrink, "float32", torch.clone, kind="copy")
    for megabytes in (4096, 64, 16, 1):
        yield _elementwise("add", megabytes * 2**20 // shrink, "float32", torch.add, operands=2)


def _activations(shrink: int) -> Iterator[Point]:
    for megabytes in (1024, 64, 4):
        size_b = megabytes * 2**20 // shrink
        yield _elementwise("relu", size_b, "float32", torch.relu)
        yield _elementwise("gelu", size_b, "bfloat16", functional.gelu)
        yield _elementwise("softmax", size_b, "bfloat16", _softmax, kind="softmax", row=512)
        yield _elementwise("layer_norm", size_b, "bfloat16", _layer_norm, kind="norm", row=4096)
        yield _image("batch_norm", size_b, "norm")
        yield _image("max_pool", size_b, "reduction")


def _softmax(values: torch.Tensor) -> torch.Tensor:
    return torch.softmax(values, -1)


def _layer_norm(values: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(values, values.shape[-1:])


def _elementwise(
    name: str,
    size_b: int,
    dtype: str,
    function: Callable[..., object],
    *,
    operands: int = 1,
    kind: str = "elementwise",
    row: int = 256,
) -> Point:
    """One operand's size is ``size_b``; it is read ``operands`` times and written once."""
    elements = max(size_b // _size_b(dtype) // row, 1) * row
    return Point(
        name=f"{name}_{size_b / 2**20:g}mib_{dtype}",
        kind=kind,
        make=partial(_make_elementwise, function, (elements // row, row), dtype, operands),
        dtype=dtype,
        k=row,
        elements=elements,
        moved_b=(operands + 1.0) * elements * _size_b(dtype),
    )


def _make_elementwise(
    function: Callable[..., object], shape: tuple[int, int], dtype: str, operands: int, device: str
) -> list[Call]:
    return [partial(function, *(_random(device, dtype, *shape) for _ in range(operands)))]


def _image(name: str, size_b: int, kind: str) -> Point:
    samples = max(size_b // (4 * 64 * 56 * 56), 1)
    elements = samples * 64 * 56 * 56
    written = elements if name == "batch_norm" else elements // 4
    return Point(
        name=f"{name}_{size_b / 2**20:g}mib_float32",
        kind=kind,
        make=partial(_make_image, name, samples),
        elements=written,
        moved_b=4.0 * (elements + written),
    )


def _make_image(name: str, samples: int, device: str) -> list[Call]:
    images = _random(device, "float32", samples, 64, 56, 56)
    if name == "max_pool":
        return [partial(functional.max_pool2d, images, 3, stride=2, padding=1)]
    mean, variance, weight, bias = (torch.rand(64, device=device) + 0.5 for _ in range(4))
    return [partial(functional.batch_norm, images, mean, variance, weight, bias)]


# Input channels, output channels, input height, kernel, stride, groups
_IMAGE_SHAPES = (
    (64, 64, 56, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (64, 256, 56, 1, 1, 1),
    (1024, 256, 14, 1, 1, 1),
    (3, 64, 224, 7, 2, 1),
    (144, 144, 56, 3, 1, 144),
    (128, 128, 28, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (256, 64, 56, 1, 1, 1),
    (2048, 512, 7, 1, 1, 1),
    (512, 512, 28, 3, 1, 1),
    (32, 32, 112, 3, 1, 32),
    (384, 384, 14, 3, 1, 384),
    (960, 960, 7, 3, 1, 960),
)


def _convolutions(shrink: int, batch: int) -> Iterator[Point]:
    for shape in _IMAGE_SHAPES:
        for dtype in ("float32", "float16"):
            yield _convolution(shape, max(batch // shrink, 1), dtype)


def _channels_last(shrink: int) -> Iterator[Point]:
    for index in (0, 2, 5):
        for dtype in ("float32", "float16"):
            yield _convolution(_IMAGE_SHAPES[index], max(64 // shrink, 1), dtype, "channels_last")


def _convolution(shape: tuple[int, ...], batch: int, dtype: str, memory_format: str = "") -> Point:
    """A convolution without bias; float32 runs on TF32, which is PyTorch's default for it."""
    inputs, outputs, height, kernel, stride, groups = shape
    side = (height + 2 * (kernel // 2) - kernel) // stride + 1
    m, n, k = batch * side**2, outputs // groups, inputs // groups * kernel**2
    size = batch * inputs * height**2 + outputs * k + m * outputs
    label = f"conv{kernel}x{kernel}s{stride}_{inputs}_{outputs}_{height}_b{batch}_{dtype}"
    return Point(
        name=label + (f"_g{groups}" if groups > 1 else "") + (memory_format and "_nhwc"),
        kind="conv",
        make=partial(_make_convolution, shape, batch, dtype, memory_format),
        dtype="tf32" if dtype == "float32" else dtype,
        m=m,
        n=n,
        k=k,
        window=kernel**2,
        pixels=side**2,
        batch=groups,
        elements=m * outputs,
        moved_b=size * _size_b(dtype),
        flop=2.0 * m * n * k * groups,
        memory_format=memory_format,
        window_s=0.5,
    )


def _make_convolution(
    shape: tuple[int, ...], batch: int, dtype: str, memory_format: str, device: str
) -> list[Call]:
    inputs, outputs, height, kernel, stride, groups = shape
    images = _random(device, dtype, batch, inputs, height, height)
    weight = _random(device, dtype, outputs, inputs // groups, kernel, kernel)
    if memory_format:
        images = images.to(memory_format=torch.channels_last)
        weight = weight.to(memory_format=torch.channels_last)
    convolve = partial(functional.conv2d, stride=stride, padding=kernel // 2, groups=groups)
    return [partial(convolve, images, weight)]


# Samples, heads, queries, keys, head size, causal
_ATTENTION_SHAPES = (
    (8, 32, 512, 512, 128, True),
    (1, 32, 1024, 1024, 128, True),
    (1, 32, 1, 576, 128, False),
    (16, 32, 1, 576, 128, False),
    (64, 32, 1, 576, 128, False),
    (32, 12, 197, 197, 64, False),
    (8, 12, 197, 197, 64, False),
    (1, 32, 128, 128, 128, True),
    (8, 32, 512, 512, 128, False),
    (32, 32, 512, 512, 128, True),
)


def _attentions(shrink: int) -> Iterator[Point]:
    for samples, heads, queries, keys, head_dim, causal in _ATTENTION_SHAPES:
        for dtype in ("bfloat16", "float32"):
            batch = max(samples // shrink, 1)
            yield _attention((batch, heads, queries, keys, head_dim), dtype, causal)


def _attention(shape: tuple[int, ...], dtype: str, causal: bool) -> Point:
    """Operations of masked scores are not counted."""
    samples, heads, queries, keys, head_dim = shape
    scores = queries * (queries + 1) // 2 if causal else queries * keys
    rows = samples * heads * head_dim
    return Point(
        name=f"sdpa_b{samples}_h{heads}_q{queries}_k{keys}_d{head_dim}_{dtype}"
        + ("_causal" if causal else ""),
        kind="attention",
        make=partial(_make_attention, shape, dtype, causal),
        dtype=dtype,
        m=queries,
        n=keys,
        k=head_dim,
        batch=samples * heads,
        elements=rows * queries,
        moved_b=2.0 * rows * (queries + keys) * _size_b(dtype),
        flop=4.0 * samples * heads * scores * head_dim,
        cold=queries == 1,
        window_s=0.5,
    )


def _make_attention(shape: tuple[int, ...], dtype: str, causal: bool, device: str) -> list[Call]:
    samples, heads, queries, keys, head_dim = shape
    query = _random(device, dtype, samples, heads, queries, head_dim)
    cache = (samples, heads, keys, head_dim)
    copies = _cold_copies(2 * prod(cache) * _size_b(dtype), device) if queries == 1 else 1
    attend = partial(functional.scaled_dot_product_attention, query, is_causal=causal)
    return [
        partial(attend, _random(device, dtype, *cache), _random(device, dtype, *cache))
        for _ in range(copies)
    ]


def _embedding(shrink: int) -> Point:
    rows, width, tokens = 32000 // shrink, 4096, 4096
    return Point(
        name=f"embedding_{tokens}x{width}_bfloat16",
        kind="gather",
        make=partial(_make_embedding, rows, width, tokens),
        dtype="bfloat16",
        elements=tokens * width,
        moved_b=2.0 * tokens * width * 2 + tokens * 8,
    )


def _make_embedding(rows: int, width: int, tokens: int, device: str) -> list[Call]:
    table = _random(device, "bfloat16", rows, width)
    indices = torch.randint(0, rows, (tokens,), device=device)
    return [partial(functional.embedding, indices, table)]


def eager_points() -> Iterator[Point]:
    """Yield calls so small that only the host's time to launch them shows."""
    for name, (kind, dtype, make) in _EAGER.items():
        yield Point(
            name=f"launch_{name}", kind=kind, make=make, dtype=dtype, mode="eager", window_s=0.25
        )
    for name, (kinds, dtype, make) in _CHAINS.items():
        yield Point(
            name=f"chain_{name}",
            kind="chain",
            make=make,
            dtype=dtype,
            mode="eager",
            window_s=0.6,
            kinds=kinds,
        )


def _small(
    function: Callable[..., object], dtype: str, *shapes: tuple[int, ...]
) -> Callable[[str], list[Call]]:
    def make(device: str) -> list[Call]:
        return [partial(function, *(_random(device, dtype, *shape) for shape in shapes))]

    return make


def _small_batch_norm(device: str) -> list[Call]:
    mean, variance, weight, bias = (torch.rand(64, device=device) + 0.5 for _ in range(4))
    images = _random(device, "float32", 1, 64, 14, 14)
    return [partial(functional.batch_norm, images, mean, variance, weight, bias)]


def _cat(*parts: torch.Tensor) -> torch.Tensor:
    return torch.cat(parts, -1)


def _pool(images: torch.Tensor) -> torch.Tensor:
    return functional.max_pool2d(images, 3, stride=2, padding=1)


def _to_half(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float16)


def _mean(values: torch.Tensor) -> torch.Tensor:
    return values.mean(-1)


def _small_embedding(device: str) -> list[Call]:
    return _make_embedding(1000, 256, 8, device)


def _index(device: str) -> list[Call]:
    table = _random(device, "float32", 1000, 256)
    indices = torch.randint(0, 1000, (8,), device=device)
    return [partial(table.__getitem__, indices)]


def _small_convolution(kernel: int, dtype: str) -> Callable[[str], list[Call]]:
    convolve = partial(functional.conv2d, padding=kernel // 2)
    return _small(convolve, dtype, (1, 64, 14, 14), (64, 64, kernel, kernel))


_HEADS = (1, 12, 16, 64)
_EAGER = {
    "add": ("elementwise", "float32", _small(torch.add, "float32", (64, 256), (64, 256))),
    "mul": ("elementwise", "float32", _small(torch.mul, "float32", (64, 256), (64, 256))),
    "relu": ("elementwise", "float32", _small(torch.relu, "float32", (64, 256))),
    "cat": ("copy", "float32", _small(_cat, "float32", (64, 256), (64, 256))),
    "to_half": ("copy", "float32", _small(_to_half, "float32", (64, 256))),
    "mean": ("reduction", "float32", _small(_mean, "float32", (64, 256))),
    "max_pool": ("reduction", "float32", _small(_pool, "float32", (1, 64, 14, 14))),
    "softmax": ("softmax", "float32", _small(_softmax, "float32", (64, 256))),
    "layer_norm": ("norm", "float32", _small(_layer_norm, "float32", (64, 256))),
    "batch_norm": ("norm", "float32", _small_batch_norm),
    "embedding": ("gather", "bfloat16", _small_embedding),
    "index": ("gather", "float32", _index),
    "mm_float32": ("gemm", "float32", _small(torch.mm, "float32", (64, 256), (256, 256))),
    "mm_bfloat16": ("gemm", "bfloat16", _small(torch.mm, "bfloat16", (64, 256), (256, 256))),
    "linear_bias": (
        "gemm",
        "bfloat16",
        _small(functional.linear, "bfloat16", (64, 256), (256, 256), (256,)),
    ),
    "bmm": ("gemm", "bfloat16", _small(torch.bmm, "bfloat16", (8, 64, 64), (8, 64, 64))),
    "conv1x1_float32": ("conv", "float32", _small_convolution(1, "float32")),
    "conv1x1_float16": ("conv", "float16", _small_convolution(1, "float16")),
    "conv3x3_float32": ("conv", "float32", _small_convolution(3, "float32")),
    "conv3x3_float16": ("conv", "float16", _small_convolution(3, "float16")),
    "sdpa_bfloat16": (
        "attention",
        "bfloat16",
        _small(functional.scaled_dot_product_attention, "bfloat16", _HEADS, _HEADS, _HEADS),
    ),
    "sdpa_float32": (
        "attention",
        "float32",
        _small(functional.scaled_dot_product_attention, "float32", _HEADS, _HEADS, _HEADS),
    ),
}


class _Block(nn.Module):
    """A residual block: seven operators."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.norm1(self.conv1(images)))
        return self.relu(self.norm2(self.conv2(out)) + images)


class _Decoder(nn.Module):
    """A layer of a decoder on one token: 24 operators, 28 in half precision; 7 are products."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        names = ("query", "key", "value", "out")
        self.attend = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in names})
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        self.scale = nn.Parameter(torch.ones(width))

    def norm(self, hidden: torch.Tensor) -> torch.Tensor:
        mean = hidden.float().pow(2).mean(-1, keepdim=True)
        return self.scale * (hidden * torch.rsqrt(mean + 1e-6)).to(hidden.dtype)

    def split(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.view(*hidden.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        normed = self.norm(hidden)
        query, key, value = (
            self.split(self.attend[name](normed)) for name in ("query", "key", "value")
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        hidden = hidden + self.attend["out"](attended.transpose(1, 2).reshape(hidden.shape))
        normed = self.norm(hidden)
        return hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def _residual_chain(dtype: str, device: str) -> list[Call]:
    chain = nn.Sequential(*(_Block(64) for _ in range(8))).eval().to(device, _DTYPES[dtype])
    return [partial(chain, _random(device, dtype, 1, 64, 14, 14))]


def _decoder_chain(dtype: str, device: str) -> list[Call]:
    chain = nn.Sequential(*(_Decoder(512, 8) for _ in range(4))).eval().to(device, _DTYPES[dtype])
    return [partial(chain, _random(device, dtype, 1, 1, 512))]


_RESIDUAL = "conv 16, norm 16, elementwise 24"
_DECODER = "gemm 28, attention 4, elementwise 56, reduction 8"
_CHAINS = {
    "residual_float32": (_RESIDUAL, "float32", partial(_residual_chain, "float32")),
    "residual_float16": (_RESIDUAL, "float16", partial(_residual_chain, "float16")),
    "decoder_bfloat16": (f"{_DECODER}, copy 16", "bfloat16", partial(_decoder_chain, "bfloat16")),
    "decoder_float32": (_DECODER, "float32", partial(_decoder_chain, "float32")),
}
