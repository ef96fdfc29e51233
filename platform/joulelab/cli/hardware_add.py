"""``joulelab hardware add``: a new GPU from one of the catalogue and what is known of it."""

from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from joulelab.cli.options import OneGpu
from joulelab.cli.terminal import Printing
from joulelab.core.device import Capabilities, DeviceAddress, board_words
from joulelab.devices.choice import open_device
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS, GpuSpec
from joulelab.hardware.board_facts import read_board_facts
from joulelab.hardware.board_file import is_taken
from joulelab.hardware.catalogue import board_of
from joulelab.hardware.new_board import board_text, check_names, stated, value_in
from joulelab.hardware.places import check_key, user_folder
from joulelab.hardware.processor import Figure
from joulelab.power_models.board_fit import NAMES, BoardFit, fit_board
from joulelab.power_models.columns import GPU_NAMES, Cells
from joulelab.power_models.readers import read_csv, read_rows
from joulelab.tracking.durable import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFit:
    """A sweep and what was fitted to it."""

    path: Path
    other: GpuSpec
    fit: BoardFit

    @classmethod
    def of(cls, path: Path, other: GpuSpec, limit_w: float) -> "SweepFit":
        """Fit the sweep in ``path`` of a GPU that is like ``other``.

        Raises ConfigError if it is no table of runs, or tells too little.
        """
        rows = read_rows(path)
        labels = Cells(rows=rows).texts(GPU_NAMES, otherwise=other.key) if rows else []
        boards = dict.fromkeys(labels, other.key)
        gpu = other.key if set(labels) <= {other.key} else None
        runs = read_csv(path, gpu=gpu, boards=boards, repeats="median")
        return cls(path=path, other=other, fit=fit_board(runs, limit_w))

    def figures(self) -> dict[str, Figure]:
        """Return the figures that the sweep tells."""
        names = [f"voltage.{name}" for name in NAMES[:3]] if self.fit.knows_curve else []
        names += ["power.constant_w"] if self.fit.knows_constant else []
        source = (
            f"least squares of power over clocks in {self.path.name}: {self.fit.num_runs} runs, "
            f"mean error {self.fit.error:.2%}"
        )
        values = {name: self.fit.values[name.partition(".")[2]] for name in names}
        return {
            name: Figure(value=float(f"{value:.5g}"), status="F", source=source)
            for name, value in values.items()
        }

    def words(self) -> list[str]:
        """Say what was fitted, how far it is off, and what stays unknown."""
        fit, held_out = self.fit, [*self.fit.held_out.values()]
        capped = f", {fit.num_capped} at the power limit left out" * bool(fit.num_capped)
        found = (
            f"Fitted to {fit.num_runs} runs{capped}: mean error of power {fit.error:.2%}. Voltage "
            f"at {fit.top_clock_mhz:.0f} MHz over its least {1 + fit.rise:.3f} ± {fit.rise_u:.3f}, "
            f"constant power {fit.values['constant_w']:.1f} ± {fit.constant_u_w:.1f} W (standard "
            "uncertainties, fits without one application each among them)."
        )
        if held_out:
            worst = max(fit.held_out, key=lambda name: fit.held_out[name])
            tested = (
                "Applications that the fit has not seen, each from its highest and lowest clock: "
                f"mean error {np.mean(held_out):.2%}, worst {max(held_out):.2%} ({worst})."
            )
        else:
            tested = "One application alone: what it says of others was not tested."
        return [found, tested, self._unknown()]

    def _unknown(self) -> str:
        parts = [
            *["the voltage curve, which the sweep does not tell"] * (not self.fit.knows_curve),
            *["the constant power, which the sweep does not tell"] * (not self.fit.knows_constant),
            "how power divides among SMs, units and memory",
            "times",
        ]
        return f"Still as of the {self.other.key}: {'; '.join(parts)}."


Number = Annotated[float | None, tyro.conf.arg(metavar="NUMBER")]
_OPTIONS = {
    "architecture": ("identity.architecture", 1),
    "default_power_limit_w": ("limits.default_w", 1),
    "min_power_limit_w": ("limits.min_w", 1),
    "max_power_limit_w": ("limits.max_w", 1),
    "sm_clocks_mhz": ("clocks.sm_mhz", 1),
    "default_clock_mhz": ("clocks.default_mhz", 1),
    "idle_clock_mhz": ("clocks.idle_mhz", 1),
    "mem_clocks_mhz": ("clocks.mem_mhz", 1),
    "memory_gb": ("memory.size_b", 1e9),
    "memory_bandwidth_gb_per_s": ("memory.bandwidth_b_per_s", 1e9),
    "l2_mb": ("memory.l2_b", 1e6),
    "num_sms": ("units.sm_count", 1),
    "idle_w": ("power.idle_w", 1),
}
"""Figures that options state, and their units over those of the option."""


@dataclass(frozen=True, kw_only=True)
class Add(OneGpu, Printing):
    """Add a GPU of your own: what you state of it, the rest copied from another as estimates.

    Every part that lists GPUs then knows it: simulated devices, estimates, power models.
    """

    name: Annotated[str, tyro.conf.Positional]  # Its key: small letters, digits, underscores.
    # The GPU of the catalogue that it is most like; powers of its units are taken over by the
    # number of SMs.
    like: str | None = None
    # What the driver calls it; without it no device is recognised as this one.
    product_name: tuple[str, ...] = ()
    architecture: str | None = None  # Of its chip.
    default_power_limit_w: Number = None  # Power limit after a reset.
    min_power_limit_w: Number = None  # Lowest power limit that can be set.
    max_power_limit_w: Number = None  # Highest power limit that can be set.
    # All SM clocks that can be set; or the lowest and the highest, in the steps of the other GPU.
    sm_clocks_mhz: Annotated[tuple[int, ...], tyro.conf.arg(metavar="MHZ ...")] = ()
    default_clock_mhz: int | None = None  # Where it stays under load, neither locked nor capped.
    idle_clock_mhz: int | None = None  # Where it rests.
    # All memory clocks that can be set.
    mem_clocks_mhz: Annotated[tuple[int, ...], tyro.conf.arg(metavar="MHZ ...")] = ()
    memory_gb: Number = None  # Memory, in 1e9 bytes.
    # Peak bandwidth of the memory, in 1e9 bytes per second.
    memory_bandwidth_gb_per_s: Number = None
    l2_mb: Number = None  # L2 cache, in 1e6 bytes.
    num_sms: int | None = None  # Streaming multiprocessors.
    idle_w: Number = None  # Power at rest, without a program.
    # Any other figure, as `joulelab hardware show` names it: SECTION.NAME=VALUE.
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FIGURE=VALUE ...")] = ()
    source: str = "stated by the user"  # Where what you state comes from.
    # A table of power_w and time_s over sm_clock_mhz, of one application or more, as `joulelab
    # models train` reads it: gives the voltage curve and the constant power.
    from_sweep: Path | None = None
    # Take name, clocks, limits and memory from a device; what you state precedes.
    from_device: bool = False
    # A file of `joulelab calibrate --board`: gives power at rest, the tick of the energy counter,
    # what the memory reaches, and where the voltage rises if its clocks could be set.
    calibration: Path | None = None
    replace: bool = False  # Replace a file of yours of this name.

    def run(self) -> int:
        """Check the new GPU, write its file, and say what it rests on."""
        other = self._other()
        path = user_folder() / f"{self.name}.toml"
        check_key(self.name, path)
        if path.exists() and not self.replace:
            raise ConfigError(f"{path} is there already: --replace writes it anew.")
        figures, fit = self._figures(other), None
        found = self._measured(figures, other, path)
        if self.from_sweep is not None:
            limit = figures.get("limits.default_w")
            limit_w = other.default_power_limit_w if limit is None else float(limit.value)
            fit = SweepFit.of(self.from_sweep, other, limit_w)
            found |= fit.figures()
        text = board_text(self.name, other.key, {**found, **figures})
        spec = board_of(self.name, text, path)
        check_names(spec)
        write_whole(path, text)
        self._tell(path, spec, other, fit)
        return 0

    def _other(self) -> GpuSpec:
        if self.like is None:
            raise ConfigError(
                "--like must name the GPU of the catalogue that it is most like, whose figures "
                f"hold where you state none: one of {', '.join(GPUS)}."
            )
        return GPUS[self.like]

    def _figures(self, other: GpuSpec) -> dict[str, Figure]:
        own = {**self._options(), **dict(map(value_in, self.set))}
        found: dict[str, Figure] = {}
        if self.from_device:
            values, source = read_figures(self.address())
            given = {name: value for name, value in values.items() if name not in own}
            found = stated(given, source=source, status="S", other=other)
        elif not self.product_name:
            own["identity.product_names"] = [self.name]
        return {**found, **stated(own, source=self.source, other=other)}

    def _measured(
        self, figures: dict[str, Figure], other: GpuSpec, path: Path
    ) -> dict[str, Figure]:
        """Return the figures that the calibration gives of a GPU with these ``figures``."""
        if self.calibration is None:
            return {}
        facts = read_board_facts(self.calibration)
        spec = board_of(self.name, board_text(self.name, other.key, figures), path)
        source = f"measured on a {board_words(facts.device)} at {facts.host}, {facts.measured_at}"
        values = facts.figures(spec.memory_bandwidth_b_per_s)
        return stated(values, source=source, status="F", other=other)

    def _options(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if self.product_name:
            values["identity.product_names"] = list(self.product_name)
        for option, (name, unit) in _OPTIONS.items():
            value = getattr(self, option)
            if value not in (None, ()):
                values[name] = list(value) if isinstance(value, tuple) else value
                if unit != 1:
                    values[name] *= unit
        return values

    def _tell(self, path: Path, spec: GpuSpec, other: GpuSpec, fit: SweepFit | None) -> None:
        taken = sorted(name for name, one in spec.figures.items() if is_taken(one))
        own = len(spec.figures) - len(taken)
        unnamed = spec.product_names == (spec.key,)
        self.show(
            {
                "key": spec.key,
                "path": str(path),
                "tier": spec.chip.tier,
                "copied": taken,
                "fit": None if fit is None else asdict(fit.fit),
            },
            lambda: [
                f"{spec.key} is in {path}: {own} figures are its own, {len(taken)} are copied "
                f"from the {other.key} and are estimates.",
                *([] if fit is None else fit.words()),
                f"Confidence in estimates for it is {spec.chip.tier}. "
                f"`joulelab hardware show {spec.key}` shows where each figure comes from.",
                *["No device is recognised as it: state --product-name."] * unnamed,
            ],
        )


def read_figures(address: DeviceAddress) -> tuple[dict[str, Any], str]:
    """Return the values that a device gives of itself, by dotted name, and where they come from.

    What its driver does not tell is left out. Raises DeviceError if it does not answer.
    """
    with closing(open_device(address)) as opened:
        identity, capabilities = opened.identity(), opened.capabilities()
    source = f"read from a {identity.name} ({identity.backend}, driver {identity.driver_version})"
    return {"identity.product_names": [identity.name], **values_of(capabilities)}, source


def values_of(found: Capabilities) -> dict[str, Any]:
    """Return the figures of a data file that a device's capabilities tell, by dotted name."""
    lowest_w, highest_w = found.power_limits_w or (None, None)
    values = {
        "clocks.sm_mhz": list(found.sm_clocks_mhz),
        "clocks.mem_mhz": list(found.mem_clocks_mhz),
        "clocks.default_mhz": found.unlocked_sm_clock_mhz,
        "limits.min_w": lowest_w,
        "limits.max_w": highest_w,
        "limits.default_w": found.default_power_limit_w,
        "memory.size_b": found.memory_b,
        "sensor.has_memory_power": found.has_memory_power,
        "sensor.has_activity": found.has_activity,
    }
    return {name: value for name, value in values.items() if value not in (None, [])}
