"""``joulelab processors``, ``validate``, ``calibrate``: devices, and how far estimates are off."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates import devices
from joulelab.analysis.estimates.export import device_fields
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import check_target, numbers, quiet_table, words
from joulelab.cli.terminal import Printing, progress, show
from joulelab.errors import ConfigError
from joulelab.estimator.calibration.anchors import read_anchors
from joulelab.estimator.calibration.fit import Calibration, FittedFigure, Residual, calibrate
from joulelab.hardware.places import ALIASES
from joulelab.hardware.processor import Family, Processor
from joulelab.hardware.processors import (
    FASTEST,
    HOSTS,
    PROCESSORS,
    SLOWEST,
    TYPICAL,
    Host,
    host_file,
)
from joulelab.tracking.durable import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """List the devices that the estimator knows; `joulelab devices` shows this machine's GPUs.

    Attributes:
        device: Show one device with every figure of its data file and its source.
        family: Only CPUs, GPUs, TPUs or KPUs.
        filter: Only those whose name holds this text.
        json: Print one JSON array instead of a table.
    """

    device: str | None = None
    family: Family | None = None
    filter: str = ""
    json: bool = False

    def run(self) -> int:
        """Print what is known; 1 if no device is left."""
        found = self._chosen()
        content = [_fields(processor) for processor in found]
        show(content, lambda: self._shown(found), as_json=self.json)
        return int(not found)

    def _shown(self, found: Sequence[Processor]) -> list[RenderableType]:
        if self.device is not None:
            return [devices.processor_facts(found[0])]
        aliases = ", ".join(f"{short} is {key}" for short, key in ALIASES.items())
        return [devices.processor_table(found), Text(f"Short names: {aliases}.", style="dim")]

    def _chosen(self) -> Sequence[Processor]:
        if self.device is not None:
            return [PROCESSORS[self.device]]
        text = self.filter.lower()
        return [
            processor
            for processor in PROCESSORS.values()
            if self.family in (None, processor.family)
            and text in f"{processor.key} {processor.product_name}".lower()
        ]


def _fields(processor: Processor) -> dict[str, object]:
    return {
        **device_fields(processor),
        "tier": processor.tier,
        "num_cores": processor.num_cores,
        "clocks_mhz": list(processor.clocks_mhz),
        "peak_flop_per_s": {
            pipe: processor.peak_flop_per_s(pipe) for pipe in processor.flop_per_clock
        },
        "levels": [
            {"name": level.name, "size_b": level.size_b, "b_per_s": level.bandwidth_b_per_s}
            for level in processor.levels
        ],
        "default_power_limit_w": processor.default_power_limit_w,
        "idle_w": processor.power.idle_w,
        "figures": {
            name: {"value": figure.value, "status": figure.status, "source": figure.source}
            for name, figure in processor.figures.items()
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Printing):
    """Compare estimates with measurements, by source and device; all points are reported.

    Without a table, the errors that come with every estimate: those on measurements that no
    fit has seen.

    Attributes:
        measurements: CSV with the columns model, device, precision, batch, time_s, energy_j, and
            as wanted source, family, mode, scope and knobs (key=value, parted by spaces).
        points: Show every point.
    """

    measurements: Annotated[Path | None, tyro.conf.Positional] = None
    points: bool = False

    def run(self) -> int:
        """Predict every measured run and print the errors; 1 if nothing could be compared."""
        if self.measurements is None:
            return self._show_known()
        from joulelab.estimator.validation import read_measured, summaries, validate

        with progress(f"Reading {self.measurements}") as report:
            runs = read_measured(self.measurements)
            report(f"Predicting {len(runs)} runs")
            found = validate(runs)
        by_source = summaries(found.comparisons, lambda run: (run.source, run.device))
        content = {
            "summaries": [asdict(one) for one in by_source],
            "points": [asdict(one) for one in found.comparisons],
            "rejected": dict(found.rejected),
        }
        rejected = [f"not compared: {name}: {reason}" for name, reason in found.rejected.items()]
        self.show(
            content,
            lambda: [
                Text(devices.validation_sentence(found), style="bold"),
                devices.summaries_table(by_source),
                *[devices.points_table(found.comparisons)] * self.points,
                *(Text(each, style="yellow") for each in rejected),
            ],
        )
        return int(not found.comparisons)

    def _show_known(self) -> int:
        from joulelab.estimator.pricing.predict import confidence_of

        known = {processor.key: confidence_of(processor) for processor in PROCESSORS.values()}
        content = {key: asdict(one) for key, one in known.items()}
        self.show(content, lambda: [devices.known_table(known)])
        return 0


_MOST = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate(Printing):
    """Fit a device's figures to micro-benchmarks, or measure this machine as a host.

    Micro-benchmarks that break physics are refused.

    Attributes:
        anchors: Table that `benchmarks/estimator_anchors.py` wrote on the device.
        device: The device, as `joulelab processors` lists it.
        host: Measure what launching kernels takes on this machine instead, in a few seconds.
        out: Write the figures to this file: .json of a device, .toml of a host, for --host.
    """

    anchors: tyro.conf.Positional[Path | None] = None
    device: str | None = None
    host: bool = False
    out: Path | None = None

    def run(self) -> int:
        """Fit or measure, print and write."""
        if self.host:
            return self._measure_host()
        if self.anchors is None or self.device is None:
            raise ConfigError(
                "calibrate takes a table of micro-benchmarks and --device, or --host to measure "
                "this machine as a host."
            )
        return self._fit(self.anchors, PROCESSORS[self.device])

    def _measure_host(self) -> int:
        from joulelab.estimator.calibration.host_speed import measure_host

        if self.anchors is not None or self.device is not None:
            raise ConfigError("--host measures this machine: give it no table and no --device.")
        check_target(self.out, ".toml")
        found = measure_host("host" if self.out is None else self.out.stem)
        if self.out is not None:
            write_whole(self.out, host_file(found))
        content = {name: asdict(one) for name, one in found.figures.items()}
        self.show(content, lambda: [host_table(found)])
        return 0

    def _fit(self, anchors: Path, processor: Processor) -> int:
        check_target(self.out, ".json")
        found = calibrate(processor, read_anchors(anchors))
        content = _fitted_fields(processor.key, found)
        if self.out is not None:
            write_whole(self.out, json.dumps(content, indent=2) + "\n")
        refused = [f"refused: {name}: {reason}" for name, reason in found.rejected.items()]
        self.show(
            content,
            lambda: [
                Text(calibration_sentence(found), style="bold"),
                figures_table(found.figures),
                residuals_table(found),
                *(Text(each, style="yellow") for each in refused),
            ],
        )
        return 0


def host_table(host: Host) -> Table:
    """Lay out a host's figures beside those of the catalogue, in microseconds."""
    others = [HOSTS[name] for name in (FASTEST, TYPICAL, SLOWEST)]
    source = next(iter(host.figures.values())).source
    table = quiet_table(
        *words("call"), *numbers("here", *(one.key for one in others)), title="Microseconds a call"
    )
    for name in host.figures:
        values = [one.figures[name].value for one in (host, *others)]
        table.add_row(name.partition(".")[2], *(f"{1e6 * value:.3g}" for value in values))
    table.caption = source
    return table


def _fitted_fields(device: str, found: Calibration) -> dict[str, object]:
    return {
        "device": device,
        "time_error": found.time_error,
        "energy_error": found.energy_error,
        "figures": [asdict(figure) for figure in found.figures],
        "points": [
            {
                "name": one.anchor.name,
                "time_error": one.time_error,
                "energy_error": one.energy_error,
                "fitted": one.fitted,
            }
            for one in found.residuals
        ],
        "rejected": dict(found.rejected),
    }


def calibration_sentence(found: Calibration) -> str:
    """Say how well the fitted device agrees with what was measured on it."""
    fitted = sum(one.fitted for one in found.residuals)
    return (
        f"{found.processor.product_name}: {len(found.figures)} figures fitted to {fitted} of "
        f"{len(found.residuals)} micro-benchmarks; mean error {found.time_error:.1%} of time and "
        f"{found.energy_error:.1%} of energy. These points were fitted to: what estimates are "
        "worth is for networks to say (joulelab validate)."
    )


def figures_table(figures: Sequence[FittedFigure]) -> Table:
    """Lay out every fitted figure, before and after."""
    table = quiet_table(*words("figure"), *numbers("before", "fitted", "points"), "")
    for figure in figures:
        note = "at its bound: not identified" if figure.at_bound else ""
        values = [f"{value:.4g}" for value in (figure.before, figure.value)]
        table.add_row(figure.name, *values, str(figure.num_points), note)
    return table


def residuals_table(found: Calibration) -> Table:
    """Lay out the points that agree least."""
    table = quiet_table(
        *words("micro-benchmark"),
        *numbers("measured", "time error", "energy error"),
        "",
        title="Micro-benchmarks that agree least",
    )
    for one in sorted(found.residuals, key=_worst, reverse=True)[:_MOST]:
        energy = "" if one.energy_error is None else f"{one.energy_error:+.1%}"
        measured = brief(one.anchor.time_s, "s")
        note = "" if one.fitted else "not fitted to"
        table.add_row(one.anchor.name, measured, f"{one.time_error:+.1%}", energy, note)
    return table


def _worst(one: Residual) -> float:
    return max(abs(one.time_error), abs(one.energy_error or 0.0))
