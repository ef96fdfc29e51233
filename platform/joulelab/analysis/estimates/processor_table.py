"""Devices that the estimator knows, for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.wording import TIER_WORDS
from joulelab.analysis.quantities import quantity
from joulelab.core.cost import Pipe
from joulelab.hardware.processor import Processor

_HALF: tuple[Pipe, ...] = ("tensor_fp16", "tensor_bf16", "fp16")


def processor_table(processors: Sequence[Processor]) -> Table:
    """Lay out ``processors``, a line each; peaks are dense, at the default clock."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for head in ("device", ""):
        table.add_column(head, no_wrap=True)
    heads = ("MHz", "fp32\nTFLOP/s", "16 bit\nTFLOP/s", "int8\nTOP/s", "memory\nGB", "\nGB/s")
    for head in (*heads, "cap\nW", "idle\nW", "nm"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("tier", justify="center")
    for processor in processors:
        table.add_row(*_cells(processor))
    table.caption_justify = "left"
    table.caption = "Tier " + "; ".join(f"{tier}: {said}" for tier, said in TIER_WORDS.items())
    return table


def processor_facts(processor: Processor) -> RenderableType:
    """Lay out every figure of one data file with its source."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("value", max_width=20)
    table.add_column("", no_wrap=True)
    table.add_column("source", overflow="fold")
    for name, figure in sorted(processor.figures.items()):
        table.add_row(name, str(figure.value), figure.status, Text(figure.source))
    table.caption_justify = "left"
    table.caption = (
        "S sourced, F fitted to measurements, D derived from sourced figures, E estimated"
    )
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
        quantity(memory.size_b / 1e9, "", digits=3).strip(),
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
