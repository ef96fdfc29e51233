"""Which micro-benchmarks identify which scalar of a processor, in the order of fitting.

A stage looks at its own points alone: a poor model of attention must not bend the bandwidth.
Stages repeat, because the power cap lets energies change times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from joulelab.core.cost import Pipe
from joulelab.estimator.calibration_points import Anchor
from joulelab.estimator.table import kind_name
from joulelab.hardware.processor import Processor

_BEYOND_CACHES = 4.0
_WITHIN_CACHE = 0.5
_SATURATING_FLOP = 5e9
"""Below this the shape of a product says more than its unit (2 x 1024^3 is 2.1e9)."""
_STREAM = "copy"
_STREAMING_KINDS = ("elementwise", "norm", "softmax", "reduction", "gather")
"""Kinds that stay behind a copy of as many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Scalars that are fitted together.

    Attributes:
        parameters: Their names.
        rows: Which anchors they are fitted to, by position.
        fits_time: Whether to times.
        fits_energy: Whether to energies.
        fits_clock: Whether to clocks, where measured: if the power cap sets the time, only the
            clock tells how far the units are from their peak.
    """

    parameters: tuple[str, ...]
    rows: tuple[int, ...]
    fits_time: bool = True
    fits_energy: bool = False
    fits_clock: bool = False


def stages(processor: Processor, anchors: Sequence[Anchor]) -> tuple[Stage, ...]:
    """Return the stages that ``anchors`` allow; those without points are left out."""
    chosen = _Chooser(processor, anchors)
    cache, memory = processor.last_cache, processor.memory
    found = [
        chosen.stage(("power.constant_w",), _is_idle, time=False, energy=True),
        chosen.stage(("timing.memory_efficiency",), chosen.is_memory_stream),
        chosen.stage(
            (f"levels.{cache.name}.bandwidth_b_per_s", "timing.kernel_overhead_s"),
            chosen.is_cache_stream,
        ),
        *(
            chosen.stage(
                (f"timing.pipe_efficiency.{pipe}", f"power.flop_j.{pipe}"),
                _is_product_on(pipe),
                energy=True,
                clock=True,
            )
            for pipe in processor.flop_per_clock
        ),
        chosen.stage(
            (f"levels.{memory.name}.byte_j",),
            chosen.is_memory_stream,
            time=False,
            energy=True,
            clock=True,
        ),
        chosen.stage(
            (f"levels.{cache.name}.byte_j",), chosen.is_cache_stream, time=False, energy=True
        ),
        *(
            chosen.stage((f"timing.kind_efficiency.{kind}",), _is_of_kind(kind))
            for kind in ("conv", "depthwise", "attention", *_STREAMING_KINDS)
        ),
        *(
            chosen.stage((f"timing.eager_launch_s.{kind}",), _is_launch_of(kind))
            for kind in sorted({anchor.kind for anchor in anchors if anchor.mode == "eager"})
            if kind != "chain"
        ),
    ]
    return tuple(stage for stage in found if stage.rows)


class _Chooser:
    """Positions of the anchors that a condition holds for."""

    def __init__(self, processor: Processor, anchors: Sequence[Anchor]) -> None:
        self._cache_b = processor.last_cache.size_b
        self._anchors = anchors

    def stage(
        self,
        parameters: tuple[str, ...],
        holds: Callable[[Anchor], bool],
        *,
        time: bool = True,
        energy: bool = False,
        clock: bool = False,
    ) -> Stage:
        """Return a stage over the anchors that ``holds``; energies need a measured power."""
        rows = tuple(
            row
            for row, anchor in enumerate(self._anchors)
            if holds(anchor) and (anchor.power_w is not None or not energy)
        )
        return Stage(
            parameters=parameters,
            rows=rows,
            fits_time=time,
            fits_energy=energy,
            fits_clock=clock,
        )

    def is_memory_stream(self, anchor: Anchor) -> bool:
        """Whether all of it must come from the main memory."""
        return _is_stream(anchor) and anchor.moved_b > _BEYOND_CACHES * self._cache_b

    def is_cache_stream(self, anchor: Anchor) -> bool:
        """Whether all of it stays in the last cache."""
        return _is_stream(anchor) and anchor.moved_b <= _WITHIN_CACHE * self._cache_b


def _is_idle(anchor: Anchor) -> bool:
    return anchor.mode == "idle"


def _is_stream(anchor: Anchor) -> bool:
    return anchor.mode == "graph" and anchor.kind == _STREAM


def _is_product_on(pipe: Pipe) -> Callable[[Anchor], bool]:
    def holds(anchor: Anchor) -> bool:
        is_product = anchor.mode == "graph" and anchor.kind == "gemm" and not anchor.is_cold
        large = anchor.flop >= _SATURATING_FLOP and anchor.data == "random"
        return is_product and large and anchor.operator.pipe == pipe

    return holds


def _is_of_kind(kind: str) -> Callable[[Anchor], bool]:
    def holds(anchor: Anchor) -> bool:
        return anchor.mode == "graph" and kind_name(anchor.operator) == kind

    return holds


def _is_launch_of(kind: str) -> Callable[[Anchor], bool]:
    def holds(anchor: Anchor) -> bool:
        return anchor.mode == "eager" and anchor.kind == kind

    return holds
