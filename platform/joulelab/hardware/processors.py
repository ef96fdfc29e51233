"""The catalogue of all processors that the estimator knows: CPUs, GPUs, TPUs, KPUs.

GPUs come from their own catalogue. Any data file may have ``[kind_efficiency]``, for pricing
kernels, and ``[calibrated]``, whose figures replace what the rest of it says.

Peaks are not stored: operations per clock and core, cores and clock make them. The section
``[levels.NAME]`` of each memory level stands nearest to the units first; on the core clock it has
``b_per_clock_per_core``, else ``bandwidth_b_per_s``.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from joulelab.hardware.catalogue import GPUS, Catalogue, read_data_file
from joulelab.hardware.hosts import HOSTS, TYPICAL, on_host
from joulelab.hardware.places import ALIASES, names_in, stamp_of, where_else
from joulelab.hardware.processor import (
    Family,
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
    VoltageCurve,
)
from joulelab.hardware.scalars import calibrated
from joulelab.hardware.spec import BUSY_SM_SHARE, GpuSpec


def processor_of(spec: GpuSpec) -> Processor:
    """Return the GPU ``spec`` as the estimator sees it."""
    return Processor(
        key=spec.key,
        product_name=spec.product_names[0],
        family="gpu",
        architecture=spec.architecture,
        node_nm=spec.chip.node_nm,
        tier=spec.chip.tier,
        clocks_mhz=(spec.sm_clocks_mhz[-1], spec.default_clock_mhz, spec.max_clock_mhz),
        num_cores=spec.sm_count,
        flop_per_clock={
            pipe: spec.sm_count * flop for pipe, flop in spec.flop_per_clock_per_sm.items()
        },
        engine=MatrixEngine(num_engines=spec.sm_count, tiles=spec.chip.tiles),
        levels=_gpu_levels(spec),
        power_limits_w=spec.power_limits_w,
        default_power_limit_w=spec.default_power_limit_w,
        voltage=spec.voltage,
        power=_gpu_power(spec),
        timing=spec.timing,
        link_b_per_s=spec.link.bandwidth_b_per_s,
        link_byte_j=spec.link.byte_j,
        figures=spec.figures,
    )


def _gpu_levels(spec: GpuSpec) -> tuple[MemoryLevel, ...]:
    chip, power, num_sms = spec.chip, spec.power, spec.sm_count
    per_clock = {
        "register file": (
            num_sms * chip.register_file_b,
            num_sms * chip.register_b_per_clock,
            chip.register_byte_j,
        ),
        "shared memory": (
            num_sms * chip.shared_b,
            num_sms * chip.shared_b_per_clock,
            chip.shared_byte_j,
        ),
        "L2": (spec.l2_b, chip.l2_b_per_clock, power.crossbar_j_per_b),
    }
    on_die = (
        MemoryLevel(
            name=name,
            size_b=size_b,
            bandwidth_b_per_s=b_per_clock * (spec.default_clock_mhz * 1e6),
            byte_j=byte_j,
            on_core_clock=True,
        )
        for name, (size_b, b_per_clock, byte_j) in per_clock.items()
    )
    dram = MemoryLevel(
        name="DRAM",
        size_b=spec.memory_b,
        bandwidth_b_per_s=spec.memory_bandwidth_b_per_s,
        byte_j=power.dram_j_per_b,
        on_core_clock=False,
    )
    return (*on_die, dram)


def _gpu_power(spec: GpuSpec) -> ProcessorPower:
    power = spec.power
    return ProcessorPower(
        idle_w=power.idle_w,
        constant_w=power.constant_w,
        clock_w_per_ghz=power.clock_tree_w_per_ghz,
        busy_w_per_ghz=power.sm_w_per_ghz * BUSY_SM_SHARE,
        flop_j={
            pipe: w_per_ghz / (spec.sm_count * spec.flop_per_clock_per_sm[pipe] * 1e9)
            for pipe, w_per_ghz in power.pipe_w_per_ghz.items()
        },
        zeros_factor=power.zeros_factor,
    )


def _read_processor(folder: str, key: str, family: Family) -> Processor:
    """Return the processor of the data file ``folder/key.toml``."""
    values, figures = read_data_file(folder, key)
    clocks, limits = values["clocks"], values["limits"]
    num_cores, link = values["units"]["num_cores"], values.get("link", {})
    return Processor(
        key=key,
        family=family,
        **values["identity"],
        clocks_mhz=(clocks["min_mhz"], clocks["default_mhz"], clocks["max_mhz"]),
        num_cores=num_cores,
        flop_per_clock={
            pipe: num_cores * flop for pipe, flop in values["operations_per_clock_per_core"].items()
        },
        engine=MatrixEngine(**values["engine"]),
        levels=tuple(
            _level(name, level, num_cores, clocks["default_mhz"] * 1e6)
            for name, level in values["levels"].items()
        ),
        power_limits_w=(limits["min_w"], limits["max_w"]),
        default_power_limit_w=limits["default_w"],
        voltage=VoltageCurve(**values["voltage"]),
        power=ProcessorPower(**values["power"], flop_j=values["flop_j"]),
        timing=ProcessorTiming(
            **values["timing"],
            pipe_efficiency=values["pipe_efficiency"],
            eager_launch_s=values["eager_launch"],
            kind_efficiency=values.get("kind_efficiency", {}),
        ),
        link_b_per_s=link.get("bandwidth_b_per_s", 0.0),
        link_byte_j=link.get("byte_j", 0.0),
        figures=figures,
    )


def _level(name: str, level: Mapping[str, Any], num_cores: int, clock_hz: float) -> MemoryLevel:
    b_per_clock = level.get("b_per_clock_per_core")
    return MemoryLevel(
        name=name,
        size_b=level["size_b"],
        bandwidth_b_per_s=(
            level["bandwidth_b_per_s"]
            if b_per_clock is None
            else num_cores * b_per_clock * clock_hz
        ),
        byte_j=level["byte_j"],
        on_core_clock=b_per_clock is not None,
    )


_FOLDERS: Mapping[str, Family] = {"cpus": "cpu", "tpus": "tpu", "kpus": "kpu"}


def _processor(key: str) -> Processor:
    for folder, family in _FOLDERS.items():
        if key in names_in(folder):
            return calibrated(_read_processor(folder, key, family))
    return on_host(calibrated(processor_of(GPUS[key])), HOSTS[TYPICAL])


PROCESSORS: Catalogue[Processor] = Catalogue(
    "device",
    lambda: chain(names_in("cpus"), GPUS, names_in("tpus"), names_in("kpus")),
    _processor,
    ALIASES,
    stamp=stamp_of,
    hint=where_else,
)
