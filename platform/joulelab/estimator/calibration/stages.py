"""Which micro-benchmarks identify which scalar of a processor, in the order of fitting.

A stage looks at its own points alone: a poor model of attention must not bend the bandwidth.
Stages repeat, because the power cap lets energies change times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from joulelab.core.cost import Pipe
from joulelab.estimator.calibration.anchors import Anchor
from joulelab.estimator.pricing.table import kind_name
from joulelab.hardware.processor import Processor

_BEYOND_CACHES = 4.0
_WITHIN_CACHE = 0.6
_TINY_B = 5e6
"""Streams of fewer bytes are mostly beginning and end."""
_SATURATING_FLOP = 5e9
"""Below this the shape of a product says more than its unit (2 x 1024^3 is 2.1e9)."""
_STREAMS = ("copy", "elementwise")
_FASTEST = 0.9
"""Share of the fastest stream's rate beyond which a stream shows what the memory can."""
_EFFICIENCIES = (
    *("depthwise", "depthwise_float32", "attention", "attention_float32"),
    *("norm", "softmax", "reduction", "gather"),
)
"""Kinds that stay behind a large product, or behind a copy of as many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Scalars that are fitted together, to times or energies of the anchors at ``rows``."""

    parameters: tuple[str, ...]
    rows: tuple[int, ...]
    fits_time: bool = True
    fits_energy: bool = False


def stages(processor: Processor, anchors: Sequence[Anchor]) -> tuple[Stage, ...]:
    """Return the stages that ``anchors`` allow; those without points are left out."""
    cache, memory = processor.last_cache, processor.memory
    is_memory_stream, is_cache_stream = _streams(cache.size_b, anchors)
    kinds = ("default", *sorted({one.kind for one in anchors if _is_launch(one)}))
    found = [
        _stage(
            anchors, lambda one: one.mode == "idle", "power.constant_w", time=False, energy=True
        ),
        _stage(anchors, is_memory_stream, "timing.memory_efficiency"),
        _stage(
            anchors,
            is_cache_stream,
            f"levels.{cache.name}.bandwidth_b_per_s",
            "timing.stream_overhead_s",
        ),
        _stage(anchors, _is_small_product, "timing.kernel_overhead_s"),
        *(_product_stage(anchors, pipe) for pipe in processor.flop_per_clock),
        _stage(anchors, is_memory_stream, f"levels.{memory.name}.byte_j", time=False, energy=True),
        # So much stays in the last cache that its bytes show in the power.
        _stage(
            anchors,
            lambda one: is_cache_stream(one) and one.moved_b >= _TINY_B,
            f"levels.{cache.name}.byte_j",
            time=False,
            energy=True,
        ),
        _stage(anchors, _is_large_convolution, *_convolutions(processor)),
        _stage(anchors, _is_small_convolution, "timing.window_s"),
        *(
            _stage(anchors, _is_of_kind(kind), f"timing.kind_efficiency.{kind}")
            for kind in _EFFICIENCIES
        ),
        *(_stage(anchors, _is_launch_of(kind), f"timing.eager_launch_s.{kind}") for kind in kinds),
    ]
    return tuple(stage for stage in found if stage.rows)


def _stage(
    anchors: Sequence[Anchor],
    holds: Callable[[Anchor], bool],
    *parameters: str,
    time: bool = True,
    energy: bool = False,
) -> Stage:
    """Return a stage over the anchors that ``holds``; energies need a measured power."""
    rows = tuple(
        row
        for row, anchor in enumerate(anchors)
        if holds(anchor) and (anchor.power_w is not None or not energy)
    )
    return Stage(parameters=parameters, rows=rows, fits_time=time, fits_energy=energy)


def _streams(
    cache_b: float, anchors: Sequence[Anchor]
) -> tuple[Callable[[Anchor], bool], Callable[[Anchor], bool]]:
    """Return what tells streams of the main memory, about as fast as it goes, and of the cache."""

    def is_stream(anchor: Anchor) -> bool:
        is_plain = anchor.kind in _STREAMS and anchor.dtype == "float32"
        return anchor.mode == "graph" and is_plain

    def exceeds_caches(anchor: Anchor) -> bool:
        return is_stream(anchor) and anchor.moved_b > _BEYOND_CACHES * cache_b

    rates = (one.moved_b / one.time_s for one in anchors if exceeds_caches(one))
    fastest_b_per_s = max(rates, default=0.0)

    def is_memory_stream(anchor: Anchor) -> bool:
        fast = anchor.moved_b / anchor.time_s >= _FASTEST * fastest_b_per_s
        return exceeds_caches(anchor) and fast

    def is_cache_stream(anchor: Anchor) -> bool:
        return is_stream(anchor) and anchor.moved_b <= _WITHIN_CACHE * cache_b

    return is_memory_stream, is_cache_stream


def _product_stage(anchors: Sequence[Anchor], pipe: Pipe) -> Stage:
    def holds(anchor: Anchor) -> bool:
        is_product = anchor.mode == "graph" and anchor.kind == "gemm" and not anchor.is_cold
        large = anchor.flop >= _SATURATING_FLOP and anchor.data == "random"
        return is_product and large and anchor.operator.pipe == pipe

    names = (f"timing.pipe_efficiency.{pipe}", f"power.flop_j.{pipe}")
    return _stage(anchors, holds, *names, energy=True)


def _convolutions(processor: Processor) -> tuple[str, ...]:
    """Return what large convolutions identify; PyTorch changes layouts on GPUs alone."""
    efficiencies = ("timing.kind_efficiency.conv", "timing.kind_efficiency.conv_float32")
    layout = ("timing.layout_efficiency",) if processor.family == "gpu" else ()
    return (*layout, *efficiencies)


def _is_small_product(anchor: Anchor) -> bool:
    """Whether a product is so small that starting and ending it shows."""
    is_product = anchor.mode == "graph" and anchor.kind == "gemm"
    return is_product and anchor.dtype != "float32" and anchor.flop < _SATURATING_FLOP


def _is_large_convolution(anchor: Anchor) -> bool:
    is_convolution = anchor.mode == "graph" and anchor.kind == "conv"
    return is_convolution and anchor.flop >= _SATURATING_FLOP


def _is_small_convolution(anchor: Anchor) -> bool:
    is_convolution = anchor.mode == "graph" and kind_name(anchor.operator) == "conv"
    return is_convolution and anchor.flop < _SATURATING_FLOP


def _is_of_kind(kind: str) -> Callable[[Anchor], bool]:
    def holds(anchor: Anchor) -> bool:
        if anchor.mode != "graph" or anchor.is_cold:
            return False
        name = kind_name(anchor.operator)
        of_format = f"{name}_{anchor.operator.dtype}"
        return kind == (of_format if of_format in _EFFICIENCIES else name)

    return holds


def _is_launch_of(kind: str) -> Callable[[Anchor], bool]:
    def holds(anchor: Anchor) -> bool:
        return _is_launch(anchor) and kind in ("default", anchor.kind)

    return holds


def _is_launch(anchor: Anchor) -> bool:
    return anchor.mode == "eager" and not anchor.kinds
