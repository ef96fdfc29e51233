"""``joulelab processors``, ``validate``: devices, and how far estimates are off."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from joulelab.analysis.estimates.export import device_fields
from joulelab.analysis.estimates.wording import TIER_WORDS
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.cli.terminal import Printing, progress
from joulelab.core.cost import Pipe
from joulelab.estimator.estimate import Confidence
from joulelab.estimator.pricing.predict import confidence_of
from joulelab.estimator.validation import (
    Comparison,
    Summary,
    Validation,
    read_measured,
    summaries,
    summary,
    validate,
)
from joulelab.hardware.places import ALIASES
from joulelab.hardware.processor import Family, Figure, Processor
from joulelab.hardware.processors import PROCESSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors(Printing):
    """List the devices that the estimator knows; `joulelab devices` shows this machine's GPUs."""

    device: str | None = None  # Show one device with every figure of its data file and its source.
    family: Family | None = None  # Only CPUs, GPUs, TPUs or KPUs.
    filter: str = ""  # Only those whose name holds this text.
    json: bool = False  # Print one JSON array instead of a table.

    def run(self) -> int:
        """Print what is known; 1 if no device is left."""
        found = self._chosen()
        content = [_fields(processor) for processor in found]
        self.show(content, lambda: self._shown(found))
        return int(not found)

    def _shown(self, found: Sequence[Processor]) -> list[RenderableType]:
        if self.device is not None:
            return [processor_facts(found[0])]
        aliases = ", ".join(f"{short} is {key}" for short, key in ALIASES.items())
        return [processor_table(found), Text(f"Short names: {aliases}.", style="dim")]

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
        "figures": {name: figure_fields(figure) for name, figure in processor.figures.items()},
    }


def figure_fields(figure: Figure) -> dict[str, object]:
    """Return a figure of a data file as JSON has it."""
    return {"value": figure.value, "status": figure.status, "source": figure.source}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Printing):
    """Compare estimates with measurements, by source and device; all points are reported.

    Without a table, the errors that come with every estimate: those on measurements that no
    fit has seen.
    """

    # CSV with the columns model, device, precision, batch, time_s, energy_j, and as wanted source,
    # family, mode, scope and knobs (key=value, parted by spaces).
    measurements: Annotated[Path | None, tyro.conf.Positional] = None
    points: bool = False  # Show every point.

    def run(self) -> int:
        """Predict every measured run and print the errors; 1 if nothing could be compared."""
        if self.measurements is None:
            return self._show_known()
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
                Text(validation_sentence(found), style="bold"),
                summaries_table(by_source),
                *[points_table(found.comparisons)] * self.points,
                *(Text(each, style="yellow") for each in rejected),
            ],
        )
        return int(not found.comparisons)

    def _show_known(self) -> int:
        known = {processor.key: confidence_of(processor) for processor in PROCESSORS.values()}
        content = {key: asdict(one) for key, one in known.items()}
        self.show(content, lambda: [known_table(known)])
        return 0


_HALF: tuple[Pipe, ...] = ("tensor_fp16", "tensor_bf16", "fp16")


def processor_table(processors: Sequence[Processor]) -> Table:
    """Lay out ``processors``, a line each; peaks are dense, at the default clock."""
    heads = ("MHz", "fp32\nTFLOP/s", "16 bit\nTFLOP/s", "int8\nTOP/s", "memory\nGB", "\nGB/s")
    tiers = "; ".join(f"{tier}: {meaning}" for tier, meaning in TIER_WORDS.items())
    table = quiet_table(
        *words("device", ""),
        *numbers(*heads, "cap\nW", "idle\nW", "nm"),
        Column("tier", justify="center"),
        caption=f"Tier {tiers}",
    )
    for processor in processors:
        table.add_row(*_cells(processor))
    return table


def processor_facts(processor: Processor) -> RenderableType:
    """Lay out every figure of one data file with its source."""
    table = quiet_table(
        *words("figure"),
        Column("value", max_width=20),
        *words(""),
        Column("source", overflow="fold"),
        caption="S sourced, F fitted to measurements, D derived from sourced figures, E estimated, "
        "U stated by the user",
    )
    for name, figure in sorted(processor.figures.items()):
        table.add_row(name, str(figure.value), figure.status, Text(figure.source))
    return Group(processor_table([processor]), table)


def _cells(processor: Processor) -> list[str]:
    memory = processor.memory
    half = [pipe for pipe in _HALF if pipe in processor.flop_per_clock]
    return [
        processor.key,
        processor.family.upper(),
        f"{processor.default_clock_mhz:.0f}",
        _tera(processor, "fp32"),
        _tera(processor, half[0]) if half else "",
        _tera(processor, "tensor_int8"),
        brief(memory.size_b / 1e9, "").strip(),
        f"{memory.bandwidth_b_per_s / 1e9:.0f}",
        f"{processor.default_power_limit_w:g}",
        f"{processor.power.idle_w:.0f}",
        f"{processor.node_nm:g}",
        processor.tier,
    ]


def _tera(processor: Processor, pipe: Pipe) -> str:
    if pipe not in processor.flop_per_clock:
        return ""
    peak = processor.peak_flop_per_s(pipe) / 1e12
    return f"{peak:.0f}" if peak > 100 else f"{peak:.3g}"


def validation_sentence(found: Validation) -> str:
    """Say how far all estimates together are off."""
    whole = summary(found.comparisons)
    sentence = f"{whole.num_points} runs compared, {len(found.rejected)} not"
    errors = [
        f"{error:.1%} of {name}"
        for name, error in (("time", whole.time_mape), ("energy", whole.energy_mape))
        if error is not None
    ]
    return f"{sentence}: mean error {' and '.join(errors)}." if errors else f"{sentence}."


def summaries_table(found: Sequence[Summary]) -> Table:
    """Lay out the errors of each source and device."""
    heads = ("points", "time\nmean", "\nmedian", "energy\nmean", "\nmedian", "share\nof wall")
    table = quiet_table(
        Column("source", overflow="fold"),
        *words("device"),
        *numbers(*heads),
        caption="Mean and median of absolute relative errors. Share of wall: the largest "
        "predicted share of a whole host's energy, which must stay below 100 %.",
    )
    for one in found:
        errors = (one.time_mape, one.time_median, one.energy_mape, one.energy_median)
        shares = [_share(error) for error in (*errors, one.largest_share_of_wall)]
        table.add_row(*one.label, str(one.num_points), *shares)
    return table


def points_table(found: Sequence[Comparison]) -> Table:
    """Lay out every point, measured and predicted."""
    heads = ("measured", "predicted", "error")
    table = quiet_table(Column("run", overflow="fold"), *numbers(*heads, *heads))
    for one in found:
        time = _pair(one.run.time_s, one.predicted.time_s, one.time_error, "s")
        energy = _pair(one.run.energy_j, one.predicted.energy_j, one.energy_error, "J")
        table.add_row(one.run.name, *time, *energy)
    return table


def known_table(known: Mapping[str, Confidence]) -> Table:
    """Lay out the tier of every device, with its errors where it was compared."""
    table = quiet_table(
        *words("device"),
        Column("tier", justify="center"),
        *numbers("time error", "energy error", "points"),
        "",
    )
    for key, one in known.items():
        points = str(one.num_points) if one.num_points else ""
        errors = _share(one.time_error), _share(one.energy_error)
        table.add_row(key, one.tier, *errors, points, one.note)
    return table


def _pair(
    measured: float | None, predicted: float, error: float | None, unit: str
) -> tuple[str, str, str]:
    if measured is None:
        return "", "", ""
    change = "" if error is None else f"{error:+.0%}"
    return brief(measured, unit), brief(predicted, unit), change


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
