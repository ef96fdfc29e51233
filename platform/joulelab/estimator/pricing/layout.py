"""What convolutions take to bring images and weights into the layout of the matrix units.

PyTorch keeps images channel by channel unless asked otherwise. The convolutions of cuDNN on tensor
cores want all channels of a pixel side by side, so each brings its input and its weights into that
layout and its result back, at every call, in kernels of their own. They transpose tiles of 32
positions and 32 channels, and take as long where a tile is not full: windows of 9 fill it to 9 / 32
(325 shapes of 30 networks on an H200 are met to 11 %; benchmarks/fit_convolutions.py). A product
over single pixels needs none of it where rows are whole units of 16 bytes. Where they are not, it
changes the layout, too, or loads less at a time, whichever takes less: seen on Hopper, whose usual
kernels need such units. On boards where no network was profiled half a change is taken. Compilers
keep one layout for the whole network. Wide groups are sliced out of pixels and put back, which
takes as long where channels are adjacent (RegNet-Y-8GF on an H200: 6.3 ms, 6.1 otherwise). On an
H200 in half precision, a convolution of 64 images of 64 x 56 x 56 takes 89 us, and 41 us where its
images have that layout already: 48 us for 103 MB.
"""

from dataclasses import dataclass

import numpy as np

from joulelab.core.cost import Pipe
from joulelab.estimator.pricing.kernel_class import LOAD_B, PIXEL_CONVOLUTION, WIDE_GROUPS
from joulelab.estimator.pricing.occupancy import missed_share
from joulelab.estimator.pricing.table import Array, Flags, WorkTable
from joulelab.hardware.processor import Processor

_TILE = 32
"""Positions, and channels, of the tiles that are transposed."""
_HALF_B = 2.0
"""Bytes of half precision: kernels that change a layout take as long for elements of any size
(ResNet-18 at batch 256 on an H200: 1.69 ms in bf16, 1.90 ms in fp32)."""
_OVERLAP = 1.5
"""Windows of an unknown size overlap that hold more than this many times the input."""
_NARROW_B = 4.0
"""Bytes that libraries' kernels load at a time where rows are no whole units of 16 bytes; where
they are no units of this either, one element of half precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutWork:
    """What each group takes besides its sums, to change the layout of what it convolves."""

    seconds: Array  # at the default clock
    cache_b: Array  # bytes of the last cache
    memory_b: Array  # bytes of the main memory
    slower: Array  # times that the sums take as long, where they load little at a time instead


def layout_work(
    table: WorkTable, processor: Processor, pipes: list[Pipe], core_s: Array
) -> LayoutWork:
    """Return what convolutions that run on ``pipes`` add to groups of ``core_s`` of sums."""
    nothing = np.zeros(table.num_rows)
    ones = np.ones(table.num_rows)
    efficiency = processor.timing.layout_efficiency
    if efficiency is None:
        return LayoutWork(seconds=nothing, cache_b=nothing, memory_b=nothing, slower=ones)
    images = _images(table)
    needs, may = _changes(table, pipes, images)
    seconds = _seconds(table, processor, images, efficiency * processor.timing.memory_efficiency)
    narrow = _narrowness(images)
    changes = needs | (may & (core_s * (narrow - 1) > seconds))
    if PIXEL_CONVOLUTION not in processor.timing.kind_efficiency:  # not profiled
        narrow, changes = ones, needs | may
        seconds = np.where(may, seconds / 2, seconds)
    activation_b = table.read_b + table.written_b
    moved_b = 2 * activation_b + _moved_weight_b(table)
    missed = missed_share(activation_b, processor.last_cache.size_b)
    return LayoutWork(
        seconds=np.where(changes, seconds, 0.0),
        cache_b=np.where(changes, moved_b, 0.0),
        memory_b=np.where(changes, missed * moved_b, 0.0),
        slower=np.where(may & ~changes, narrow, 1.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Images:
    """What each group convolves, by the operator that names it; ones where it convolves nothing."""

    channels: Array  # of the input
    positions: Array  # pixels of an image that is read; of gradients, those of a result
    pixels: Array  # pixels of a result
    window: Array
    element_b: Array
    is_known: Flags  # whether window and pixels are known, which a launch's cost alone lacks


def _images(table: WorkTable) -> _Images:
    shapes, element_b = table.shapes.at(table.main), table.element_b[table.main]
    channels = shapes.batch * shapes.k / shapes.window
    images = np.maximum(1.0, shapes.m / shapes.pixels)
    read = np.maximum(1.0, np.round(table.read_b / element_b / (images * channels)))
    is_gradient = np.array(["_backward" in table.operators[row].name for row in table.main])
    return _Images(
        channels=channels,
        positions=np.where(is_gradient, shapes.pixels, read),
        pixels=shapes.pixels,
        window=shapes.window,
        element_b=element_b,
        is_known=(shapes.pixels > 1) | (shapes.window > 1),
    )


def _changes(table: WorkTable, pipes: list[Pipe], images: _Images) -> tuple[Flags, Flags]:
    """Return which groups have to change the layout, and which may: single convolutions alone."""
    alone = np.bincount(table.member_group, minlength=table.num_rows) == 1
    on_matrix = np.array(
        [
            operator.kind == "conv"
            and (operator.layout != "channels_last" or found == WIDE_GROUPS)
            and pipe.startswith("tensor_")
            for operator, found, pipe in zip(table.operators, table.classes, pipes, strict=True)
        ],
        dtype=bool,
    )
    is_changed = alone & on_matrix[table.main]
    shapes, is_known = table.shapes, images.is_known
    windows_b = (shapes.batch * shapes.m * shapes.k * table.element_b)[table.main]
    has_windows = np.where(
        is_known,
        (images.window > 1) | (images.positions > images.pixels),
        windows_b > _OVERLAP * table.read_b,
    )
    rows_b = np.array([images.positions, images.channels]) * images.element_b
    uneven = (rows_b % LOAD_B != 0).any(axis=0)
    return is_changed & has_windows, is_changed & is_known & ~has_windows & uneven


def _seconds(table: WorkTable, processor: Processor, images: _Images, reached: float) -> Array:
    """Return how long images take to be brought in and back, and weights of windows to follow.

    ``reached`` is the share of bandwidths at which that runs.
    """
    cache, memory = processor.last_cache, processor.memory
    missed = missed_share(table.read_b + table.written_b, cache.size_b)
    b_per_s = 1 / ((1 - missed) / cache.bandwidth_b_per_s + missed / memory.bandwidth_b_per_s)
    in_channels, element_b = _filled(images.channels), images.element_b
    out_channels = _filled((table.shapes.batch * table.shapes.n)[table.main])
    read_filled = _filled(images.positions) * in_channels
    written_filled = _filled(images.pixels) * out_channels
    # What multiplies narrower numbers writes results in half precision.
    written = table.written_b / np.maximum(element_b, _HALF_B)
    tiled = table.read_b / element_b / np.where(images.is_known, read_filled, 1.0)
    tiled += written / np.where(images.is_known, written_filled, 1.0)
    weights = _moved_weight_b(table) / element_b / _filled(images.window) / in_channels
    # Weights come from the main memory, and are in the cache when they are used.
    weight_s = weights * _HALF_B * (1 / cache.bandwidth_b_per_s + 1 / memory.bandwidth_b_per_s) / 2
    kernels = np.where(images.window > 1, 3, 2)  # one each of the image, weights, the result
    overhead_s = kernels * processor.timing.overhead_s(("layout",), is_matrix=False)
    seconds: Array = (2 * tiled * _HALF_B / b_per_s + weight_s) / reached + overhead_s
    return seconds


def _moved_weight_b(table: WorkTable) -> Array:
    """Return the bytes of weights that are read and written: those of a pixel lie as they must."""
    return np.where(table.shapes.window[table.main] > 1, 2 * table.weight_b, 0.0)


def _filled(length: Array) -> Array:
    filled: Array = length / (_TILE * np.ceil(length / _TILE))
    return filled


def _narrowness(images: _Images) -> Array:
    """Return how many times as long sums over single pixels take whose rows are no whole units.

    Their rate goes with what is loaded at a time. In half precision on an H200, 196 pixels reach
    157 to 205 TFLOP/s and 4,225 reach 75 to 98, where others reach 700.
    """
    rows_b = np.array([images.positions, images.channels]) * images.element_b
    in_pairs = (rows_b % _NARROW_B == 0).all(axis=0)
    return LOAD_B / np.where(in_pairs, _NARROW_B, np.minimum(images.element_b, _HALF_B))
