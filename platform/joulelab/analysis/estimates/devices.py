"""Devices: what is known of them, and how far estimates of them are off."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from joulelab.analysis.estimates.wording import TIER_WORDS
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import numbers, quiet_table, words
from joulelab.core.cost import Pipe
from joulelab.estimator.estimate import Confidence
from joulelab.estimator.validation import Comparison, Summary, Validation, summary
from joulelab.hardware.processor import Processor

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
