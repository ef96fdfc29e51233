"""What all architectures share: unit energies, memory levels that are charged for, being powered.

The predicted memory energy is that of the last cache and the main memory; nearer levels feed the
units and belong to the compute component.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from math import log

from joulelab.estimator.architecture.base import RawEvent
from joulelab.estimator.architecture.work import GroupWork
from joulelab.estimator.pricing.roofline import LINK
from joulelab.hardware.catalogue import figures_in
from joulelab.hardware.processor import Figure, MemoryLevel, Processor
from joulelab.registry import unknown_name

NODES_NM = (45.0, 7.0)
"""Process nodes of the two values of each figure."""

_WORD_B = 8


@cache
def figures() -> Mapping[str, Figure]:
    """Return every figure of the table as ``"section.name"``; values in picojoules."""
    text = files(__package__).joinpath("unit_energies.toml").read_text(encoding="utf-8")
    return dict(figures_in(tomllib.loads(text)))


@cache
def unit_j(name: str, node_nm: float) -> float:
    """Return the energy of one event at ``node_nm``, by a power law through the table's nodes."""
    if name not in figures():
        raise unknown_name("unit energy", name, figures())
    first, last = figures()[name].value
    return _power_law(node_nm, NODES_NM, (first, last)) * 1e-12


@cache
def sram_byte_j(size_b: float, node_nm: float) -> float:
    """Return the energy of a byte of a memory on the die, by a power law through two sizes."""
    sizes = [float(name.partition(".")[2]) for name in figures() if name.startswith("sram_word.")]
    above = next((i for i, size in enumerate(sizes) if i > 0 and size >= size_b), len(sizes) - 1)
    ends = (sizes[above - 1], sizes[above])
    words = tuple(unit_j(f"sram_word.{int(size)}", node_nm) for size in ends)
    return _power_law(size_b, ends, (words[0], words[1])) / _WORD_B


def _power_law(x: float, xs: tuple[float, float], ys: tuple[float, float]) -> float:
    exponent = log(ys[1] / ys[0]) / log(xs[1] / xs[0])
    return float(ys[0] * (x / xs[0]) ** exponent)


_J_PER_CYCLE_OF_W_PER_GHZ = 1e-9
# Memory at rest, refresh and interface: 36 W for the 151 GB of an H200. The share of constant power
# is 0.22 to 0.53 on the GPUs of the catalogue.
_STANDBY_W_PER_B = 36.1 / 150.8e9
_MAX_STANDBY_SHARE = 0.5


_MASKED = ("where", "masked", "nonzero", "topk", "sort")


def irregular(work: GroupWork) -> bool:
    """Whether ``work`` gathers, masks or sorts, so that branches and lanes disagree."""
    names = " ".join(operator.name for operator in work.operators)
    return work.kind == "gather" or any(part in names for part in _MASKED)


def level_named(processor: Processor, name: str) -> MemoryLevel | None:
    """Return the memory level called ``name``; ``None`` if the processor lists none."""
    return next((level for level in processor.levels if level.name == name), None)


def near_byte_j(processor: Processor, name: str, size_b: float) -> float:
    """Return a byte's energy near the units: the processor's own, else of SRAM of ``size_b``."""
    level = level_named(processor, name)
    if level is not None and level.byte_j > 0:
        return level.byte_j
    return sram_byte_j(size_b, processor.node_nm)


def largest_tile(processor: Processor) -> tuple[int, int]:
    """Return the rows and columns of the largest result tile."""
    rows, columns, _ = max(processor.engine.tiles, key=lambda tile: tile[0] * tile[1])
    return rows, columns


def core_share_b(processor: Processor, name: str, default_b: float) -> float:
    """Return what one core has of the level called ``name``; ``default_b`` if it is not listed."""
    level = level_named(processor, name)
    return default_b if level is None else level.size_b / processor.num_cores


def main_memory_b(work: GroupWork, processor: Processor) -> float:
    """Return the bytes of main memory: as predicted, else all that cross the group's boundary."""
    return work.moved_b.get(processor.memory.name, work.boundary_b)


def last_cache_b(work: GroupWork, processor: Processor) -> float:
    """Return the bytes of the last cache: as predicted, else as many as main memory's."""
    return work.moved_b.get(processor.last_cache.name, main_memory_b(work, processor))


def memory_events(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    """Yield reads and writes of last cache and main memory, as predicted, and bytes to peers."""
    cache, memory = processor.last_cache, processor.memory
    squared_volt = processor.voltage.at(work.clock_mhz) ** 2 if cache.on_core_clock else 1.0
    cache_j = cache.byte_j or sram_byte_j(cache.size_b, processor.node_nm)
    memory_j = memory.byte_j or unit_j("dram.byte", processor.node_nm)
    for name, bytes_b, byte_j in (
        (cache.name, last_cache_b(work, processor), cache_j * squared_volt),
        (memory.name, main_memory_b(work, processor), memory_j),
    ):
        written_b = bytes_b * work.written_share
        yield RawEvent(f"memory/{name}/read", bytes_b - written_b, "bytes", byte_j)
        yield RawEvent(f"memory/{name}/write", written_b, "bytes", byte_j)
    if LINK in work.moved_b:
        sent_b = work.moved_b[LINK]
        yield RawEvent("memory/link to peers/transfer", sent_b, "bytes", processor.link_byte_j)


def core_events(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    """Yield the cycles in which cores are busy, whatever they do: with operations, and with data.

    The power of busy cores is not static: it is part of what operations and bytes were predicted
    to take, in the proportion of the time that each needs.
    """
    squared_volt = processor.voltage.at(work.clock_mhz) ** 2
    cycle_j = processor.power.busy_w_per_ghz * squared_volt * _J_PER_CYCLE_OF_W_PER_GHZ
    cycles = work.cycles * work.busy
    yield RawEvent("compute/busy cores/clocks", cycles * work.core_share, "cycles", cycle_j)
    yield RawEvent("memory/busy cores/clocks", cycles * (1 - work.core_share), "cycles", cycle_j)


def standby_w_of(processor: Processor) -> float:
    """Return the constant power of the main memory: its figure, else by its size; half at most."""
    figure = processor.figures.get("power.memory_idle_w")
    standby_w = _STANDBY_W_PER_B * processor.memory.size_b if figure is None else figure.value
    return min(float(standby_w), _MAX_STANDBY_SHARE * processor.power.constant_w)


def static_events(work: GroupWork, processor: Processor) -> Iterator[RawEvent]:
    """Yield what being powered costs, while running and while waiting for the launch."""
    power = processor.power
    standby_w = standby_w_of(processor)
    for state, state_s, clock_mhz in (
        ("running", work.device_s, work.clock_mhz),
        ("waiting for launch", work.wait_s, work.waiting_mhz),
    ):
        squared_volt = processor.voltage.at(clock_mhz) ** 2
        clock_j = power.clock_w_per_ghz * squared_volt * _J_PER_CYCLE_OF_W_PER_GHZ
        cycles = state_s * clock_mhz * 1e6
        path = f"static/{state}"
        yield RawEvent(f"{path}/leakage", state_s, "seconds", power.constant_w - standby_w)
        yield RawEvent(f"{path}/memory refresh", state_s, "seconds", standby_w)
        yield RawEvent(f"{path}/clock distribution", cycles, "cycles", clock_j)
