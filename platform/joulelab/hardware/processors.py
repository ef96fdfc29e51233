"""The catalogue of all processors that the estimator knows, and of hosts that launch kernels.

CPUs, TPUs and KPUs have files of their own, GPUs come from their catalogue. Any data file may have
``[kind_efficiency]``, for pricing kernels, and ``[calibrated]``, whose figures replace what the
rest of it says.

Peaks are not stored: operations per clock and core, cores and clock make them. The section
``[levels.NAME]`` of each memory level stands nearest to the units first; on the core clock it has
``b_per_clock_per_core``, else ``bandwidth_b_per_s``.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import DISTURBED_SHARE, host_figures
from joulelab.hardware.catalogue import GPUS, Catalogue, data_in, read_data_file
from joulelab.hardware.launch_cost import MODULES, TRAINING, VIEWS, eager_launch_s
from joulelab.hardware.new_board import figures_text
from joulelab.hardware.places import ALIASES, names_in, stamp_of, where_else
from joulelab.hardware.processor import (
    Family,
    Figure,
    MatrixEngine,
    MemoryLevel,
    Processor,
    ProcessorPower,
    ProcessorTiming,
    VoltageCurve,
)
from joulelab.hardware.scalars import calibrated
from joulelab.hardware.spec import BUSY_SM_SHARE, GpuSpec

TYPICAL = "typical"
FASTEST, SLOWEST = "fast", "slow"
"""Between which hosts the answer for an unknown one is."""

_OWN_HOST = ("jetson_orin_agx", "jetson_orin_nano", "jetson_thor")
"""GPUs whose host is part of the module, and of their figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host, apart from its GPUs, takes for calls of eager PyTorch in a loop.

    How long a program takes that launches its kernels one by one is a question of the host as much
    as of the GPU: of two equal H200, the one took 1.2 times as long at batch 1, and up to twice.
    """

    key: str  # its name in the catalogue
    # Time of one call of an operator on a GPU, by name: add, linear, layer_norm, conv2d, attention;
    # view launches nothing.
    operator_s: Mapping[str, float]
    module_s: float  # time of one call of a module that does nothing
    figures: Mapping[str, Figure]  # every figure with its source

    @property
    def disturbed(self) -> float | None:
        """Share of the time in which others slowed its cores, of which the rest says nothing.

        ``None`` of a host that was not measured so.
        """
        figure = self.figures.get(DISTURBED_SHARE)
        return None if figure is None else figure.value


def on_host(processor: Processor, host: Host) -> Processor:
    """Return ``processor`` in a machine with ``host``; what is no GPU in a slot stays as it is."""
    if processor.family != "gpu" or processor.key.partition(":")[0] in _OWN_HOST:
        return processor
    timing = replace(
        processor.timing,
        eager_launch_s=eager_launch_s(host.operator_s),
        module_s=MODULES * host.module_s,
        view_s=VIEWS * host.operator_s["add"],
        training_launch=TRAINING,
    )
    return replace(processor, timing=timing)


def slowed(host: Host) -> Host:
    """Return ``host`` while other work slows its cores: by as much as the slowest known is."""
    fast, slow = HOSTS[FASTEST], HOSTS[SLOWEST]
    return replace(
        host,
        operator_s={
            name: value * slow.operator_s[name] / fast.operator_s[name]
            for name, value in host.operator_s.items()
        },
        module_s=host.module_s * slow.module_s / fast.module_s,
    )


def find_host(name: str) -> Host:
    """Return the host of a name, or of a file of ``joulelab calibrate``; JouleLabError if none."""
    path = Path(name)
    if path.suffix == ".json":
        return _host(path.stem, *host_figures(path))
    if path.suffix != ".toml":
        return HOSTS[name]
    try:
        return _host(path.stem, *data_in(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(
            f"--host must name a file that joulelab calibrate --host wrote, got {name!r}: "
            f"{error.strerror}."
        ) from error
    except (KeyError, TypeError, AttributeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"{name} must be a file that joulelab calibrate --host wrote: {error!r} is wrong."
        ) from error


def host_file(host: Host) -> str:
    """Return ``host`` as the text of a data file."""
    rounded = {
        name: replace(figure, value=float(f"{figure.value:.4g}"))
        for name, figure in host.figures.items()
    }
    return figures_text(rounded)


def _host(key: str, values: Mapping[str, Any], figures: Mapping[str, Figure]) -> Host:
    return Host(
        key=key,
        operator_s=values["operator_s"],
        module_s=values["python"]["module_s"],
        figures=figures,
    )


HOSTS: Catalogue[Host] = Catalogue(
    "host", lambda: names_in("hosts"), lambda key: _host(key, *read_data_file("hosts", key)), {}
)


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
        link_awake_w=spec.link.awake_w,
        figures=spec.figures,
    )


def _gpu_levels(spec: GpuSpec) -> tuple[MemoryLevel, ...]:
    sm, power, num = spec.chip, spec.power, spec.sm_count
    per_clock = (
        ("register file", num, sm.register_file_b, sm.register_b_per_clock, sm.register_byte_j),
        ("shared memory", num, sm.shared_b, sm.shared_b_per_clock, sm.shared_byte_j),
        ("L2", 1, spec.l2_b, sm.l2_b_per_clock, power.crossbar_j_per_b),
    )
    on_die = (
        MemoryLevel(
            name=name,
            size_b=times * size_b,
            bandwidth_b_per_s=times * b_per_clock * (spec.default_clock_mhz * 1e6),
            byte_j=byte_j,
            on_core_clock=True,
        )
        for name, times, size_b, b_per_clock, byte_j in per_clock
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
