"""``joulelab processors``, ``validate``: devices, and how far estimates are off."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import RenderableType
from rich.text import Text

from joulelab.analysis.estimates import devices
from joulelab.analysis.estimates.export import device_fields
from joulelab.cli.terminal import Printing, progress, show
from joulelab.hardware.places import ALIASES
from joulelab.hardware.processor import Family, Processor
from joulelab.hardware.processors import (
    PROCESSORS,
)


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
