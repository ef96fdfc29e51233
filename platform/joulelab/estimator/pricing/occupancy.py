"""How well work fills a device, and what its last cache serves.

Matrix work fills it by edges of tiles, waves and rows. A batch that grows leaves the last cache
bit by bit: the share that is found there falls, no threshold.
"""

import numpy as np

from joulelab.estimator.pricing.table import Array, Shapes, WorkTable
from joulelab.hardware.processor import MatrixEngine, Processor
from joulelab.tracing.precision import is_matrix

_SLICE_K = 256
"""Least length of the dot products into which a long one is split over idle engines; estimated
from the split-K kernels of public libraries."""
_GRANULE = 8
"""Least rows that a matrix unit works on (the n of NVIDIA's m16n8k16 instructions)."""
_THIN_WAVES = 4
"""Waves of blocks up to which plain units of GPUs split the dot products of a result one tile high:
of 16 fp32 products on an H200, time is off by 9.0 % so, and by 15.4 % if they fill one wave alone;
8 rows of 11,008 take 2.2 times as long as 8 of 4,096 (experiments/results/h200_anchors)."""

_SIDE = np.array([8192.0])
_ONE = np.ones(1)
_REFERENCE = Shapes(batch=_ONE, m=_SIDE, n=_SIDE, k=_SIDE, window=_ONE, pixels=_ONE)


def utilisation(
    shapes: Shapes, engine: MatrixEngine, *, plain: bool, on_cpu: bool = False
) -> tuple[Array, Array]:
    """Return the rate that shapes reach relative to a large product, and the busy share.

    A product of 8192 x 8192 x 8192 is what the efficiency of a pipe is measured with, so it has
    one; better shapes have a little more.

    The best tile is taken, in either orientation. If a result has fewer tiles than there are
    engines, dot products are split over them, in slices of at least 256. Thin results take the
    smallest tile cut down to 8 rows at that tile's relative speed; on plain units libraries cut
    it for a single row alone (fp32 products of 8 rows take as long as of 32 on an H200). A CPU
    takes as many rows as there are, one instruction each.

    Returns:
        Rate over that of the reference, > 0; engines that have work over all engines, 0..1.
    """
    cut = (1, 2) if plain else (_GRANULE, _least_rows(engine))
    if on_cpu:
        cut = (1, _least_rows(engine))
    thin_waves = _THIN_WAVES if plain and not on_cpu else 1
    used, busy = _used(shapes, engine, cut, thin_waves)
    reference, _ = _used(_REFERENCE, engine, cut, thin_waves)
    return used / reference, busy


def _least_rows(engine: MatrixEngine) -> int:
    return min(min(tile[:2]) for tile in engine.tiles)


def _used(
    shapes: Shapes, engine: MatrixEngine, cut: tuple[int, int], thin_waves: int
) -> tuple[Array, Array]:
    """Return the share of all engine time that makes results, and of engines that have work.

    ``cut`` says to how many rows the smallest tile is cut, and for results of fewer than what;
    ``thin_waves`` into how many waves dot products are split where a result is one tile high.
    """
    if engine.depth:
        return _systolic(shapes, engine)
    thin_rows, below = cut
    rows, columns, speed = _tiles(engine, thin_rows)
    m, n = shapes.m[:, None], shapes.n[:, None]
    down, across = np.ceil(m / rows), np.ceil(n / columns)
    blocks = shapes.batch[:, None] * down * across
    waves = np.where(np.minimum(down, across) == 1, thin_waves, 1)
    filled, busy = _waves(blocks, shapes.k[:, None], engine.num_engines, waves)
    used = m * n / (down * rows * across * columns) * filled * speed
    is_cut = np.minimum(rows, columns) < _least_rows(engine)
    used[:, is_cut] *= np.minimum(m, n) < below
    best = np.argmax(used, axis=1)[:, None]
    return np.take_along_axis(used, best, 1)[:, 0], np.take_along_axis(busy, best, 1)[:, 0]


def _tiles(engine: MatrixEngine, thin_rows: int) -> tuple[Array, Array, Array]:
    """Return rows, columns and speeds of every tile, each lying and standing."""
    smallest = min(engine.tiles, key=lambda tile: tile[0] * tile[1])
    thin = (min(thin_rows, *smallest[:2]), max(smallest[:2]), smallest[2])
    tiles = [*engine.tiles, thin]
    tiles += [(columns, rows, speed) for rows, columns, speed in tiles if rows != columns]
    rows, columns, speed = np.array(tiles, dtype=float).T
    return rows, columns, speed


def _waves(
    blocks: Array, k: Array, num_engines: int, split_waves: Array | int = 1
) -> tuple[Array, Array]:
    """Return the share of engine time used over all waves of blocks, and engines ever used.

    Dot products are split while all their parts take no more than ``split_waves``.
    """
    slices = np.maximum(1.0, np.floor(k / _SLICE_K))
    splits = np.clip(np.floor(split_waves * num_engines / blocks), 1.0, slices)
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


_PARAMETER_SHARE = 0.5
"""Share of the last cache up to which a whole model's parameters are found there; estimated, as
other data passes through."""
_PASSING = 2.0
"""Bytes that a product's smallest matrix needs of the cache over its own, since the others pass
through: at 0.56 of the cache it does not stay (power of a bf16 product of 4096 on an H200)."""
_IN_PARTS = ("tpu", "kpu")
"""Families whose compilers plan what lies in the last cache: a batch whose activations exceed it
runs in parts, each of which reads the parameters anew, where that moves less; estimated."""


def missed_share(activation_b: Array, size_b: float) -> Array:
    """Return the share, 0..1, of a kernel's activations that a last cache no longer has.

    It grows with them up to the cache's size. Times of 1,715 classes of kernels, each in a network
    on an H100 or an H200 (experiments/results/h100_kernels, h200_kernels), are met better so than
    with a step at 0.6 of the cache or with a share that grows from 0.1, 0.2, 0.3 or 0.6 of it on.
    """
    return np.minimum(activation_b / size_b, 1.0)


def served(table: WorkTable, processor: Processor) -> tuple[Array, Array]:
    """Return the bytes of the last cache and of the main memory, of each group.

    All bytes pass through the last cache. Of activations that the program made a part is found
    there, all parameters where the whole model's fit. What is passed in, such as a key-value cache,
    was used a whole step ago: it is there if it fits with the parameters.
    """
    size_b, kept_b = processor.last_cache.size_b, table.parameter_b
    weight_b = table.weight_b * (kept_b > _PARAMETER_SHARE * size_b)
    kept_b += float(table.outside_b[table.sequence].sum())
    outside_b = table.outside_b * (kept_b > _PARAMETER_SHARE * size_b)
    activation_b = table.read_b + table.written_b
    missed_b = (activation_b - outside_b) * missed_share(activation_b, size_b)
    all_b = activation_b + table.weight_b
    again_b = np.where(all_b > size_b, _reread_b(table, processor), 0.0)
    if processor.family in _IN_PARTS:
        in_parts_b = np.maximum(1.0, np.ceil(activation_b / size_b)) * weight_b
        missed_b = np.minimum(missed_b, np.maximum(in_parts_b - weight_b, 0.0))
        again_b = np.where(table.weight_b > 0, np.minimum(again_b, in_parts_b), again_b)
    memory_b = np.maximum(missed_b + outside_b + weight_b, again_b)
    return np.maximum(all_b, memory_b), memory_b


def _reread_b(table: WorkTable, processor: Processor) -> Array:
    """Return the least traffic that blocking in the last cache allows products.

    In a cache of S bytes, intensity goes with sqrt(S) and with element size to the power -3/2. A
    product whose smallest matrix stays in the cache reads the others once.
    """
    flop_per_b = processor.timing.cache_flop_per_b * (2 / table.element_b) ** 1.5
    is_product = np.array(
        [is_matrix(operator) and operator.kind != "attention" for operator in table.operators]
    )
    m, n, k = table.shapes.m, table.shapes.n, table.shapes.k
    smallest = np.minimum(m * k, np.minimum(k * n, m * n))
    # Where the shape is not known, no matrix stays.
    smallest_b = np.where(table.has_shape, smallest * table.element_b, np.inf)
    missed = missed_share(_PASSING * smallest_b, processor.last_cache.size_b)
    return table.per_group(is_product * missed * table.flop / flop_per_b)
