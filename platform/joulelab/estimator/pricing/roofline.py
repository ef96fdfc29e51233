"""What each group asks of a processor: seconds of its units and memories, and energy.

Bytes below the last cache are not counted here: what they cost is part of a pipe's energy per
operation, which is measured with everything that feeds it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from joulelab.core.cost import Pipe
from joulelab.core.power_law import roofline_s, starvation
from joulelab.errors import ConfigError
from joulelab.estimator.pricing.kernel_class import ACTIVITY, FIRST_CONVOLUTIONS, ONE_BY_ONE
from joulelab.estimator.pricing.kernel_rates import (
    efficiency,
    group_sums,
    overhead_s,
    pipes_of,
    stream_efficiency,
    strips_used,
    waits_s,
)
from joulelab.estimator.pricing.layout import layout_work
from joulelab.estimator.pricing.occupancy import served, utilisation
from joulelab.estimator.pricing.recurrence import is_recurrent, recurrent_use, recurrent_work
from joulelab.estimator.pricing.table import Array, Shapes, WorkTable
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import MATRIX_KINDS

LINK = "link"
"""Name, among memory levels, of the link to peers."""

_QUERY_BLOCK = 32
"""Queries that fused attention on plain units works on together, fewer or not: with one query and
576 keys it takes on an H200 what 32 would."""
_HEAD_SIZES = (32, 64, 96, 128, 192, 256)
"""Sizes of heads that FlashAttention-2 has kernels for (HEADDIM_SWITCH, csrc/flash_attn/src/
static_switch.h); it pads others with zeros."""
_PADS_HEADS = ("Ampere", "Ada", "Ada Lovelace")
"""Later GPUs run cuDNN's attention in PyTorch, which pads less: heads of 40 take an H100 no longer
than their operations say (experiments/results/h100_attribution)."""
_HOP_S = 2e-6
"""Time of one step of a ring over directly linked devices, beyond its bytes; estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCosts:
    """Columns over distinct groups on one processor; energies are at minimum voltage."""

    core_s_mhz: Array  # time on the units at a core clock of 1 MHz
    tensor_s_mhz: Array  # time at 1 MHz that its matrix work would take at peak rate
    cache_s: Array  # time in the last cache at the default clock
    found_s: Array  # of it, that of bytes that the main memory need not bring
    memory_s: Array  # time in the main memory, core clock above the knee
    turns_s_mhz: Array  # time at 1 MHz in which all units are busy before that
    fixed_s: Array  # time that no clock changes: filling, draining, links
    fill: Array  # share of the units that has work, 0..1
    activity: Array  # power of units with work, over that in most kernels, 0..1
    flop_j: Array  # energy of operations
    cache_j: Array  # energy of bytes of the last cache
    memory_j: Array  # energy of bytes of the main memory and of links
    flop: Mapping[Pipe, Array]  # operations by pipe
    # Bytes by level: the last cache, the main memory, and links where used.
    moved_b: Mapping[str, Array]
    peak_s: Array  # least time at peak rates at the default clock


def group_costs(table: WorkTable, processor: Processor, num_devices: int = 1) -> GroupCosts:
    """Return what groups ask of one of ``num_devices`` processors; ConfigError if it lacks that."""
    pipes = pipes_of(table, processor)
    core_s_mhz, fill = _core(table, processor, pipes)
    cache_b, memory_b = served(table, processor)
    recurrent = recurrent_work(table, processor)
    cache_b, memory_b = cache_b + recurrent.cache_b, memory_b + recurrent.memory_b
    link_b, link_s = _link(table, processor, num_devices)
    timing, cache, memory = processor.timing, processor.last_cache, processor.memory
    streamed = timing.memory_efficiency * stream_efficiency(table, processor)
    runs_on = np.array(pipes, dtype=object)
    flop = {pipe: table.per_group(table.flop * (runs_on == pipe)) for pipe in dict.fromkeys(pipes)}
    default_mhz, sums = processor.default_clock_mhz, group_sums(table, processor)
    waiting_s = waits_s(table, processor, core_s_mhz / default_mhz, sums)
    group_s_mhz = _side_by_side(table, processor, pipes, core_s_mhz)
    layout = layout_work(table, processor, pipes, group_s_mhz / default_mhz)
    moved_b = {cache.name: cache_b + layout.cache_b, memory.name: memory_b + layout.memory_b}
    return GroupCosts(
        core_s_mhz=group_s_mhz * layout.slower,
        tensor_s_mhz=_tensor_s_mhz(table, processor, flop),
        cache_s=cache_b / (streamed * cache.bandwidth_b_per_s),
        found_s=(cache_b - memory_b) / (streamed * cache.bandwidth_b_per_s),
        memory_s=memory_b / (streamed * memory.bandwidth_b_per_s),
        turns_s_mhz=sums.turns_s_mhz + recurrent.turns_s_mhz,
        fixed_s=overhead_s(table, processor)
        + layout.seconds
        + link_s
        + waiting_s
        + recurrent.fixed_s,
        fill=_group_fill(table, core_s_mhz, fill),
        activity=_activity(table, processor),
        flop_j=sum(
            (flop[pipe] * processor.power.flop_j[pipe] for pipe in flop),
            start=np.zeros(table.num_rows),
        ),
        cache_j=moved_b[cache.name] * cache.byte_j,
        memory_j=moved_b[memory.name] * memory.byte_j + link_b * processor.link_byte_j,
        flop=flop,
        moved_b={**moved_b, LINK: link_b} if link_b.any() else moved_b,
        peak_s=_peak_s(processor, flop, cache_b, memory_b, link_b),
    )


def memory_side_s(costs: GroupCosts, processor: Processor, clock_mhz: Array) -> Array:
    """Return the time that ``costs`` need of memories, each at its own ``clock_mhz``.

    What is found in the last cache and what is not come one after the other, each at its own
    level's rate. Below its knee the core clock slows the main memory.
    """
    slowdown = starvation(clock_mhz, processor.timing.memory_knee_mhz)
    cache = processor.last_cache
    scale = processor.default_clock_mhz / clock_mhz if cache.on_core_clock else 1.0
    found_s, memory_s = costs.found_s * scale, costs.memory_s * slowdown
    return np.maximum(costs.cache_s * scale, found_s + memory_s)


def kernel_s(core_s: Array, memory_s: Array) -> Array:
    """Return the time of a kernel after it has filled the device; never below either part."""
    return np.maximum(roofline_s(core_s, memory_s), np.maximum(core_s, memory_s))


def _core(table: WorkTable, processor: Processor, pipes: list[Pipe]) -> tuple[Array, Array]:
    """Return per operator row the time on the units at 1 MHz and the share of them in use."""
    timing = processor.timing
    rates = np.array([processor.flop_per_clock[pipe] for pipe in pipes])
    reached = rates * np.array(
        [
            timing.pipe_efficiency[pipe] * _share_of_rate(table, row, processor)
            for row, pipe in enumerate(pipes)
        ]
    )
    use, fill = np.ones(len(pipes)), np.ones(len(pipes))
    on_matrix = np.array([pipe.startswith("tensor_") for pipe in pipes], dtype=bool)
    shapes, useful = table.shapes, np.ones(len(pipes))
    recurrent = is_recurrent(table, processor)
    if processor.family == "gpu":
        shapes, useful = _in_query_blocks(table, ~on_matrix)
        shapes = _one_at_a_time(shapes, table)
        useful = useful * _head_share(table, processor, on_matrix)
    for rows, plain in ((on_matrix, False), (~on_matrix, True)):
        shaped = np.nonzero(rows & table.has_shape & ~recurrent)[0]
        if len(shaped):
            use[shaped], fill[shaped] = utilisation(
                shapes.at(shaped),
                processor.engine,
                plain=plain,
                on_cpu=processor.family == "cpu",
            )
        steps = np.nonzero(rows & recurrent)[0]
        if len(steps):
            use[steps], fill[steps] = recurrent_use(table, processor, steps, plain=plain)
    first = np.array([found in FIRST_CONVOLUTIONS for found in table.classes]) & ~on_matrix
    use[first] = strips_used(table.shapes.n[first])
    use *= useful
    core_s_mhz = table.flop / np.minimum(rates, reached * use) / 1e6
    return np.maximum(core_s_mhz, on_matrix * _window_s_mhz(table, processor)), fill


def _share_of_rate(table: WorkTable, row: int, processor: Processor) -> float:
    """Return what a row reaches of its units; what another kernel takes in streams nothing."""
    is_taken_in = table.operators[row].kind not in MATRIX_KINDS and row not in table.main
    return 1.0 if is_taken_in else efficiency(table, row, processor)


def _one_at_a_time(shapes: Shapes, table: WorkTable) -> Shapes:
    """Return shapes with the wide groups of convolutions apart: they run one after the other."""
    is_wide = np.array([found in ONE_BY_ONE for found in table.classes])
    return replace(shapes, batch=np.where(is_wide, 1.0, shapes.batch))


def _side_by_side(
    table: WorkTable, processor: Processor, pipes: list[Pipe], core_s_mhz: Array
) -> Array:
    """Return the time of groups at 1 MHz, whose matrix and plain units work at the same time.

    While one block of a result is scaled, summed and clipped, others are multiplied. On a CPU
    both are instructions of the same cores.
    """
    if processor.family == "cpu":
        return table.per_group(core_s_mhz)
    on_matrix = np.array([pipe.startswith("tensor_") for pipe in pipes])
    return roofline_s(
        table.per_group(core_s_mhz * on_matrix), table.per_group(core_s_mhz * ~on_matrix)
    )


def _window_s_mhz(table: WorkTable, processor: Processor) -> Array:
    """Return the least time of convolutions at 1 MHz: sums over a window are not split.

    A step of a sum waits for bytes, of which smaller elements need fewer, and for barriers, which
    take the same in every format. So steps go with the root of the elements' size: TF32 takes 1.1
    to 1.4 times as long as half precision on an H200.
    """
    is_convolution = np.array([operator.kind == "conv" for operator in table.operators])
    is_wide = np.array([found in ONE_BY_ONE for found in table.classes])
    times = np.where(is_wide, table.shapes.batch, 1.0)
    window_s = processor.timing.window_s * table.shapes.k * np.sqrt(table.element_b / 2)
    least: Array = is_convolution * times * window_s * processor.default_clock_mhz
    return least


def _in_query_blocks(table: WorkTable, rows: Array) -> tuple[Shapes, Array]:
    """Return shapes with the queries of attention among ``rows`` in whole blocks.

    Returns:
        The shapes, and the share of useful queries in the blocks; 1 of all else.
    """
    is_attention = np.array([operator.kind == "attention" for operator in table.operators])
    queries = table.shapes.m
    blocks = np.ceil(queries / _QUERY_BLOCK) * _QUERY_BLOCK
    padded = np.where(rows & is_attention, blocks, queries)
    return replace(table.shapes, m=padded), queries / padded


def _head_share(table: WorkTable, processor: Processor, on_matrix: Array) -> Array:
    """Return the share of attention's heads that is no padding to the size of a kernel."""
    if processor.architecture not in _PADS_HEADS:
        return np.ones(len(table.operators))
    is_attention = np.array([operator.kind == "attention" for operator in table.operators])
    heads = table.shapes.k
    sizes = np.array([*_HEAD_SIZES, np.inf])
    padded = sizes[np.searchsorted(sizes, heads)]
    return np.where(is_attention & on_matrix & np.isfinite(padded), heads / padded, 1.0)


def _tensor_s_mhz(table: WorkTable, processor: Processor, flop: Mapping[Pipe, Array]) -> Array:
    on_matrix = [pipe for pipe in flop if pipe.startswith("tensor_")]
    times = (flop[pipe] / processor.flop_per_clock[pipe] / 1e6 for pipe in on_matrix)
    return sum(times, start=np.zeros(table.num_rows))


def _group_fill(table: WorkTable, core_s_mhz: Array, fill: Array) -> Array:
    """Return the mean share of the units in use, by time; all of them if nothing computes."""
    total = table.per_group(core_s_mhz)
    used = table.per_group(core_s_mhz * fill)
    return np.divide(used, total, out=np.ones_like(total), where=total > 0)


def _activity(table: WorkTable, processor: Processor) -> Array:
    if processor.family != "gpu":
        return np.ones(table.num_rows)
    return np.array([ACTIVITY.get(table.classes[row], 1.0) for row in table.main])


def _link(table: WorkTable, processor: Processor, num_devices: int) -> tuple[Array, Array]:
    """Return bytes and seconds on the link of a ring that reduces and then gathers."""
    if num_devices == 1 or not table.reduced_b.any():
        return np.zeros(table.num_rows), np.zeros(table.num_rows)
    if not processor.link_b_per_s:
        raise ConfigError(
            f"{processor.product_name} has no link to peers; num_devices must be 1, "
            f"got {num_devices}."
        )
    sent_b = 2 * (num_devices - 1) / num_devices * table.reduced_b
    hops_s = 2 * (num_devices - 1) * _HOP_S * (table.reduced_b > 0)
    return sent_b, sent_b / processor.link_b_per_s + hops_s


def _peak_s(
    processor: Processor,
    flop: Mapping[Pipe, Array],
    cache_b: Array,
    memory_b: Array,
    link_b: Array,
) -> Array:
    times = [flop[pipe] / processor.peak_flop_per_s(pipe) for pipe in flop]
    times.append(cache_b / processor.last_cache.bandwidth_b_per_s)
    times.append(memory_b / processor.memory.bandwidth_b_per_s)
    if link_b.any():
        times.append(link_b / processor.link_b_per_s)
    return np.max(times, axis=0)  # type: ignore[no-any-return]
