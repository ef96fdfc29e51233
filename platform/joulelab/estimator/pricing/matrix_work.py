"""How well matrix work fills a device, and what bringing images into its layout takes.

Filling: edges of tiles, waves of them, fill and drain.

Layout: PyTorch keeps images channel by channel unless told otherwise. The convolutions of cuDNN on
tensor cores want all channels of a pixel side by side, so each brings its input into that layout
and its result back, in kernels of their own. A product over single pixels needs neither where an
image's pixels are whole units of 16 bytes: in bf16 on an H100 it takes as long as the product alone
where they are a multiple of 8, and 2.1 to 3.6 times that elsewhere. Compilers keep one layout for
the whole network: there a convolution is fused with what follows it.

On an H200 in half precision, a convolution of 64 images of 64 x 56 x 56 takes 89 us, and 41 us
where its images have that layout already: 48 us for 103 MB.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulelab.core.cost import Pipe
from joulelab.estimator.pricing.table import Shapes, WorkTable
from joulelab.hardware.processor import MatrixEngine, Processor

Array = NDArray[np.float64]

_SLICE_K = 256
"""Least length of the dot products into which a long one is split over idle engines; estimated
from the split-K kernels of public libraries."""
_GRANULE = 8
"""Least rows that a matrix unit works on (the n of NVIDIA's m16n8k16 instructions)."""


_SIDE = np.array([8192.0])
_ONE = np.ones(1)
_REFERENCE = Shapes(batch=_ONE, m=_SIDE, n=_SIDE, k=_SIDE, window=_ONE, pixels=_ONE)


def utilisation(shapes: Shapes, engine: MatrixEngine, *, plain: bool) -> tuple[Array, Array]:
    """Return the rate that shapes reach relative to a large product, and the busy share.

    A product of 8192 x 8192 x 8192 is what the efficiency of a pipe is measured with, so it has
    one; better shapes have a little more.

    The best tile is taken, in either orientation. If a result has fewer tiles than there are
    engines, dot products are split over them, in slices of at least 256. Thin results take the
    smallest tile cut down to 8 rows at that tile's relative speed; on plain units libraries cut
    it for a single row alone (fp32 products of 8 rows take as long as of 32 on an H200).

    Returns:
        Rate over that of the reference, > 0; engines that have work over all engines, 0..1.
    """
    used, busy = _used(shapes, engine, plain=plain)
    reference, _ = _used(_REFERENCE, engine, plain=plain)
    return used / reference, busy


def _used(shapes: Shapes, engine: MatrixEngine, *, plain: bool) -> tuple[Array, Array]:
    """Return the share of all engine time that makes results, and of engines that have work."""
    if engine.depth:
        return _systolic(shapes, engine)
    rows, columns, speed = _tiles(engine, plain=plain)
    m, n = shapes.m[:, None], shapes.n[:, None]
    down, across = np.ceil(m / rows), np.ceil(n / columns)
    blocks = shapes.batch[:, None] * down * across
    filled, busy = _waves(blocks, shapes.k[:, None], engine.num_engines)
    used = m * n / (down * rows * across * columns) * filled * speed
    least_rows = min(min(tile[:2]) for tile in engine.tiles)
    is_cut = np.minimum(rows, columns) < least_rows
    used[:, is_cut] *= np.minimum(m, n) < (2 if plain else least_rows)
    best = np.argmax(used, axis=1)[:, None]
    return np.take_along_axis(used, best, 1)[:, 0], np.take_along_axis(busy, best, 1)[:, 0]


def _tiles(engine: MatrixEngine, *, plain: bool) -> tuple[Array, Array, Array]:
    """Return rows, columns and speeds of every tile, each lying and standing."""
    smallest = min(engine.tiles, key=lambda tile: tile[0] * tile[1])
    thin_rows = min(1 if plain else _GRANULE, *smallest[:2])
    thin = (thin_rows, max(smallest[:2]), smallest[2])
    tiles = [*engine.tiles, thin]
    tiles += [(columns, rows, speed) for rows, columns, speed in tiles if rows != columns]
    rows, columns, speed = np.array(tiles, dtype=float).T
    return rows, columns, speed


def _waves(blocks: Array, k: Array, num_engines: int) -> tuple[Array, Array]:
    """Return the share of engine time used over all waves of blocks, and engines ever used."""
    slices = np.maximum(1.0, np.floor(k / _SLICE_K))
    splits = np.clip(np.floor(num_engines / blocks), 1.0, slices)
    parts = blocks * splits
    filled = parts / (np.ceil(parts / num_engines) * num_engines)
    return filled, np.minimum(1.0, parts / num_engines)


def _systolic(shapes: Shapes, engine: MatrixEngine) -> tuple[Array, Array]:
    """Stream rows through arrays that hold a block of weights, one block after the other.

    Each pass takes as many steps as rows, and ``depth`` more to fill and drain.
    """
    used, busy = [], []
    for side, columns, speed in engine.tiles:
        down, across = np.ceil(shapes.k / side), np.ceil(shapes.n / columns)
        edge = shapes.k * shapes.n / (down * side * across * columns)
        passes = shapes.batch * down * across
        # Where weights make too few passes, rows are shared out among the arrays.
        shares = np.clip(np.floor(engine.num_engines / passes), 1.0, shapes.m)
        streamed = shapes.m / shares
        filled, working = _waves(passes * shares, np.ones_like(passes), engine.num_engines)
        used.append(edge * filled * speed * streamed / (streamed + engine.depth))
        busy.append(working)
    best = np.argmax(used, axis=0)[None]
    return (
        np.take_along_axis(np.array(used), best, 0)[0],
        np.take_along_axis(np.array(busy), best, 0)[0],
    )


ACTIVATION_SHARE = 0.6
"""Share of the last cache up to which a group's activations are found there; estimated, as other
data passes through."""
_OVERLAP = 1.5
"""Windows that hold more than this many times the input overlap: their kernel is no 1 x 1."""
_KERNELS = 2
LOAD_B = 16
"""Bytes that matrix units load at a time, side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutWork:
    """Columns over groups: time at the default clock, bytes of last cache and main memory."""

    seconds: Array
    cache_b: Array
    memory_b: Array


def layout_work(table: WorkTable, processor: Processor, pipes: list[Pipe]) -> LayoutWork:
    """Return what the convolutions of ``table`` that run on ``pipes`` add."""
    efficiency = processor.timing.layout_efficiency
    nothing = np.zeros(table.num_rows)
    if efficiency is None:
        return LayoutWork(seconds=nothing, cache_b=nothing, memory_b=nothing)
    activation_b = table.read_b + table.written_b
    moved_b = np.where(_changes_layout(table, pipes), 2 * activation_b, 0.0)
    in_cache = activation_b <= ACTIVATION_SHARE * processor.last_cache.size_b
    cache, memory = processor.last_cache, processor.memory
    rate = np.where(in_cache, cache.bandwidth_b_per_s, memory.bandwidth_b_per_s)
    overhead_s = _KERNELS * processor.timing.overhead_s("", is_matrix=False) * (moved_b > 0)
    return LayoutWork(
        seconds=moved_b / (efficiency * processor.timing.memory_efficiency * rate) + overhead_s,
        cache_b=moved_b,
        memory_b=np.where(in_cache, 0.0, moved_b),
    )


def _changes_layout(table: WorkTable, pipes: list[Pipe]) -> NDArray[np.bool_]:
    """Return which groups are a single convolution on matrix units that needs its layout.

    Over windows, or over single pixels whose rows are no whole units of 16 bytes.
    """
    alone = np.bincount(table.member_group, minlength=table.num_rows) == 1
    shapes = table.shapes
    windows_b = shapes.batch * shapes.m * shapes.k * table.element_b
    on_matrix = np.array(
        [
            operator.kind == "conv" and pipe.startswith("tensor_")
            for operator, pipe in zip(table.operators, pipes, strict=True)
        ],
        dtype=bool,
    )
    main = table.main
    overlaps = windows_b[main] > _OVERLAP * table.read_b
    uneven = (shapes.pixels > 1) & (shapes.pixels * table.element_b % LOAD_B != 0)
    changes: NDArray[np.bool_] = alone & on_matrix[main] & (overlaps | uneven[main])
    return changes
