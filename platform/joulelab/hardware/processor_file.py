"""Reads the data file of a CPU, TPU or KPU into a :class:`Processor`.

Peaks are not stored: operations per clock and core, cores and clock make them. The section
``[levels.NAME]`` of each memory level stands nearest to the units first; on the core clock it has
``b_per_clock_per_core``, else ``bandwidth_b_per_s``.
"""

from collections.abc import Mapping
from typing import Any

from joulelab.hardware.data_file import read_data_file
from joulelab.hardware.processor import (
    Family,
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
)
from joulelab.hardware.spec import VoltageCurve


def read_processor(folder: str, key: str, family: Family) -> Processor:
    """Return the processor of the data file ``folder/key.toml``."""
    values, figures = read_data_file(folder, key)
    identity, clocks, limits = values["identity"], values["clocks"], values["limits"]
    num_cores, link = values["units"]["num_cores"], values.get("link", {})
    return Processor(
        key=key,
        product_name=identity["product_name"],
        family=family,
        architecture=identity["architecture"],
        node_nm=identity["node_nm"],
        tier=identity["tier"],
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
        timing=_timing(values),
        link_b_per_s=link.get("bandwidth_b_per_s", 0.0),
        link_byte_j=link.get("byte_j", 0.0),
        figures=figures,
    )


def _level(name: str, level: Mapping[str, Any], num_cores: int, clock_hz: float) -> MemoryLevel:
    on_core_clock = "b_per_clock_per_core" in level
    return MemoryLevel(
        name=name,
        size_b=level["size_b"],
        bandwidth_b_per_s=(
            num_cores * level["b_per_clock_per_core"] * clock_hz
            if on_core_clock
            else level["bandwidth_b_per_s"]
        ),
        byte_j=level["byte_j"],
        on_core_clock=on_core_clock,
    )


def _timing(values: Mapping[str, Any]) -> ProcessorTiming:
    return ProcessorTiming(
        **values["timing"],
        pipe_efficiency=values["pipe_efficiency"],
        eager_launch_s=values["eager_launch"],
        kind_efficiency=values.get("kind_efficiency", {}),
    )
