"""The catalogue: one data file per GPU, read when it is first asked for."""

from collections.abc import Iterator, Mapping
from math import floor
from typing import Any

from typing_extensions import override

from joulelab.hardware.chip import ChipSpec, LinkSpec
from joulelab.hardware.data_file import names_in, read_data_file
from joulelab.hardware.spec import (
    Figure,
    GpuSpec,
    PowerSpec,
    SensorSpec,
    ThermalSpec,
    TimingSpec,
    VoltageCurve,
)
from joulelab.registry import unknown_name

_FOLDER = "gpus"


class Catalogue(Mapping[str, GpuSpec]):
    """Read-only mapping from a catalogue key to a GPU, parsed on first use."""

    def __init__(self) -> None:
        self._specs: dict[str, GpuSpec] = {}

    @override
    def __getitem__(self, key: str) -> GpuSpec:
        """Return the GPU called ``key``.

        Raises:
            UnknownNameError: If there is none; names the closest ones.
        """
        if key not in self._specs:
            if key not in set(self):
                raise unknown_name("GPU", key, self)
            self._specs[key] = _spec(key, *read_data_file(_FOLDER, key))
        return self._specs[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return names_in(_FOLDER)

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)


GPUS = Catalogue()


def spec_for(product_name: str) -> GpuSpec | None:
    """Return the GPU that NVML calls ``product_name``; ``None`` if the catalogue lacks it."""
    for spec in GPUS.values():
        if product_name in spec.product_names:
            return spec
    return None


def clock_grid_mhz(min_mhz: float, max_mhz: float, step_mhz: float) -> tuple[int, ...]:
    """Return the clocks from ``max_mhz`` down to ``min_mhz``, each cut to whole MHz."""
    num_steps = round((max_mhz - min_mhz) / step_mhz)
    return tuple(floor(max_mhz - i * step_mhz) for i in range(num_steps + 1))


def _spec(key: str, values: Mapping[str, Any], figures: Mapping[str, Figure]) -> GpuSpec:
    clocks, limits, memory = values["clocks"], values["limits"], values["memory"]
    grid = clock_grid_mhz(clocks["sm_min_mhz"], clocks["sm_max_mhz"], clocks["sm_step_mhz"])
    study_min_mhz = clocks.get("study_min_mhz", grid[-1])
    return GpuSpec(
        key=key,
        product_names=values["identity"]["product_names"],
        architecture=values["identity"]["architecture"],
        sm_clocks_mhz=grid,
        study_clocks_mhz=tuple(clock for clock in grid if clock >= study_min_mhz),
        default_clock_mhz=clocks["default_mhz"],
        stays_at_default=clocks.get("stays_at_default", False),
        idle_clock_mhz=clocks["idle_mhz"],
        mem_clocks_mhz=clocks["mem_mhz"],
        mem_clock_lockable=clocks["mem_lockable"],
        power_limits_w=(limits["min_w"], limits["max_w"]),
        default_power_limit_w=limits["default_w"],
        sm_count=values["units"]["sm_count"],
        flop_per_clock_per_sm=values["operations_per_clock_per_sm"],
        memory_bandwidth_b_per_s=memory["bandwidth_b_per_s"],
        memory_b=memory["size_b"],
        l2_b=memory["l2_b"],
        sensor=SensorSpec(**values["sensor"]),
        thermal=ThermalSpec(**values["thermal"]),
        voltage=VoltageCurve(**values["voltage"]),
        power=PowerSpec(**values["power"], pipe_w_per_ghz=values["pipe_w_per_ghz"]),
        timing=TimingSpec(**values["timing"], pipe_efficiency=values["pipe_efficiency"]),
        chip=ChipSpec(**values["chip"]),
        link=LinkSpec(**values["link"]),
        eager_launch_s=values.get("eager_launch", {}),
        kind_efficiency=values.get("kind_efficiency", {}),
        figures=figures,
    )
