"""Power modes of Jetson modules: processors as ``nvpmodel`` clamps them."""

import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from joulelab.errors import ConfigError
from joulelab.hardware.processor import Figure, MemoryLevel, Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.registry import unknown_name

_CPU = "_cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerMode:
    """What a mode clamps; 0 leaves what the module has."""

    limit_w: float  # budget that it is named after
    num_sms: int  # streaming multiprocessors with power
    gpu_mhz: float
    cpu_cores: int  # online
    cpu_mhz: float
    mem_mhz: float


def find_processor(name: str) -> Processor:
    """Return ``KEY``, or ``KEY:MODE`` in a power mode; UnknownNameError or ConfigError if none."""
    key, colon, mode = name.partition(":")
    processor = PROCESSORS[key]
    return in_mode(processor, mode) if colon else processor


def modes_of(processor: Processor) -> tuple[str, ...]:
    """Return the power modes of ``processor`` by name; empty if it has none."""
    return tuple(_modules().get(_module(processor), {}).get("modes", ()))


def in_mode(processor: Processor, mode: str) -> Processor:
    """Return ``processor`` in one of its power modes.

    Clocks, units with power and the budget are those of the mode. Main memory is as fast as its
    clock, launches as the clock of the CPU that makes them; cores that are offline make no launch
    slower. Raises UnknownNameError or ConfigError if there is no such mode.
    """
    known = modes_of(processor)
    if not known:
        raise ConfigError(f"{processor.key} has no power modes, got {mode!r}: leave it out.")
    if mode.lower() not in known:
        raise unknown_name(f"power mode of {processor.key}", mode, known)
    module = _modules()[_module(processor)]
    chosen = PowerMode(**module["modes"][mode.lower()])
    is_cpu = processor.key.endswith(_CPU)
    cores = chosen.cpu_cores if is_cpu else chosen.num_sms
    changed = _clamped(
        processor,
        share=(cores or processor.num_cores) / processor.num_cores,
        clock_mhz=chosen.cpu_mhz if is_cpu else chosen.gpu_mhz,
        memory=(chosen.mem_mhz or module["mem_mhz"]) / module["mem_mhz"],
        limit_w=chosen.limit_w,
    )
    timed_mhz = processor.default_clock_mhz if is_cpu else module["launch_cpu_mhz"]
    changed = _launching(changed, timed_mhz / chosen.cpu_mhz)
    figures = {
        f"power_mode.{each.name}": Figure(
            value=getattr(chosen, each.name), status="S", source=module["source"]
        )
        for each in fields(chosen)
    }
    return replace(
        changed,
        key=f"{processor.key}:{mode.lower()}",
        product_name=f"{processor.product_name}, {mode.lower()}",
        figures={**processor.figures, **figures},
    )


def _module(processor: Processor) -> str:
    return processor.key.removesuffix(_CPU)


@cache
def _modules() -> dict[str, dict[str, Any]]:
    text = files("joulelab.hardware").joinpath("power_modes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _clamped(
    processor: Processor, *, share: float, clock_mhz: float, memory: float, limit_w: float
) -> Processor:
    """Return ``processor`` with a share of its cores and of its memory's bandwidth, clamped."""
    lowest, default, highest = processor.clocks_mhz
    top = min(highest, clock_mhz or highest)
    cap_w = limit_w or processor.default_power_limit_w
    power, engine = processor.power, processor.engine
    common = processor.last_cache if processor.family == "gpu" else None  # of all SMs
    return replace(
        processor,
        clocks_mhz=(lowest, min(default, top), top),
        num_cores=round(processor.num_cores * share),
        flop_per_clock={pipe: n * share for pipe, n in processor.flop_per_clock.items()},
        engine=replace(engine, num_engines=round(engine.num_engines * share)),
        levels=tuple(
            _level(level, 1.0 if level is common else share, memory, min(default, top) / default)
            for level in processor.levels
        ),
        power_limits_w=(min(processor.power_limits_w[0], cap_w), cap_w),
        default_power_limit_w=cap_w,
        power=replace(power, busy_w_per_ghz=power.busy_w_per_ghz * share),
    )


def _level(level: MemoryLevel, share: float, memory: float, clock: float) -> MemoryLevel:
    if not level.on_core_clock:
        return replace(level, bandwidth_b_per_s=level.bandwidth_b_per_s * memory)
    rate_b_per_s = level.bandwidth_b_per_s * share * clock
    return replace(level, size_b=level.size_b * share, bandwidth_b_per_s=rate_b_per_s)


def _launching(processor: Processor, factor: float) -> Processor:
    timing = processor.timing
    launches = {name: launch_s * factor for name, launch_s in timing.eager_launch_s.items()}
    changed = replace(
        timing,
        eager_launch_s=launches,
        module_s=timing.module_s * factor,
        view_s=timing.view_s * factor,
    )
    return replace(processor, timing=changed)
