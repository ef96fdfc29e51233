"""One estimate in full for the terminal: where time, energy and memory go, and how sure it is."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.bars import (
    BOUND_COLORS,
    COMPONENT_MARKS,
    bar,
    component_shares,
)
from joulelab.analysis.estimates.wording import (
    change_words,
    confidence_words,
    data_words,
    headline,
    memory_words,
    phase_bound_shares,
    unknown_words,
)
from joulelab.analysis.quantities import quantity
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import Estimate, MemoryEstimate, PhaseEstimate
from joulelab.estimator.opportunities import Opportunity


def detail(cell: Cell) -> RenderableType:
    """Lay out everything but groups and events of one cell."""
    said: list[RenderableType] = [Text(headline(cell), style="bold")]
    if cell.estimate is not None:
        several = len(cell.estimate.phases) > 1
        for phase in cell.estimate.phases:
            if several:
                said.append(Text(f"\n{phase.phase}", style="bold"))
            said += [Text(), _phase(phase, cell.estimate)]
        if cell.opportunities:
            said += [Text(), opportunity_table(cell.opportunities)]
        said += [Text(), *_trust(cell.estimate)]
    return Group(*said)


def memory_parts(memory: MemoryEstimate) -> dict[str, float]:
    """Return what takes memory, in bytes, without what takes none."""
    parts = {
        "weights": memory.weight_b,
        "activations": memory.activation_b,
        "KV cache": memory.kv_b,
        "inputs": memory.input_b,
        "gradients": memory.gradient_b,
        "optimizer": memory.optimizer_b,
        "workspace": memory.workspace_b,
    }
    return {name: part_b for name, part_b in parts.items() if part_b > 0}


def bars_table(
    title: str, rows: Sequence[tuple[str, float, str, str]], *, width: int = 20
) -> Table:
    """Lay out shares as bars.

    Args:
        title: What is shared out.
        rows: Name, share of 0 to 1, figure and colour of each.
        width: Characters of a full bar.
    """
    table = Table.grid(padding=(0, 1))
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, share, figure, style in rows:
        table.add_row(name, bar(share, width=width, style=style), f"{share:.0%}", figure)
    return table


def opportunity_table(found: Sequence[Opportunity]) -> Table:
    """Lay out what would save energy, with why."""
    table = Table.grid(padding=(0, 2))
    table.title, table.title_style = "Opportunities, each predicted on its own", "bold"
    table.title_justify = "left"
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for one in found:
        energy, time = change_words(one)
        table.add_row(one.title, Text(energy, style="green"), time, one.reason)
    return table


def _phase(phase: PhaseEstimate, estimate: Estimate) -> RenderableType:
    beside = Table.grid(padding=(0, 4))
    beside.add_row(_energy(phase), _time(phase))
    return Group(beside, Text(), *_facts(phase, estimate))


def _energy(phase: PhaseEstimate) -> Table:
    parts = (phase.energy.compute_j, phase.energy.memory_j, phase.energy.static_j)
    shares = component_shares(phase.energy)
    rows = [
        (name, share, quantity(part, "J", digits=3), COMPONENT_MARKS[name][1])
        for (name, share), part in zip(shares.items(), parts, strict=True)
    ]
    return bars_table(f"Energy {quantity(phase.energy.total_j, 'J', digits=3)}", rows)


def _time(phase: PhaseEstimate) -> Table:
    rows = [
        (bound, share, quantity(share * phase.latency_s, "s", digits=3), BOUND_COLORS[bound])
        for bound, share in phase_bound_shares(phase).items()
    ]
    return bars_table(f"Time {quantity(phase.latency_s, 's', digits=3)} set by", rows)


def _facts(phase: PhaseEstimate, estimate: Estimate) -> Iterator[RenderableType]:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, said in _fact_rows(phase, estimate).items():
        table.add_row(name, said)
    yield table


def _fact_rows(phase: PhaseEstimate, estimate: Estimate) -> Mapping[str, RenderableType]:
    width = phase.concurrency
    fits = "" if phase.memory.fits else "bold red"
    parts = memory_parts(phase.memory).items()
    made_of = ", ".join(f"{name} {quantity(part_b, 'B', digits=3)}" for name, part_b in parts)
    return {
        "power": _power_words(phase, estimate),
        "roofline": f"{quantity(phase.roofline_s, 's', digits=3)} at peak rates, "
        f"{phase.roofline_s / phase.latency_s:.0%} of the time",
        "memory": Text(f"{memory_words(phase.memory)}: {made_of}", style=fits),
        "kernels": f"{width.num_groups} in all, {width.critical_path} on the longest chain, "
        f"{width.mean_width:.2g} side by side on average, at most {width.max_width}",
    }


def _power_words(phase: PhaseEstimate, estimate: Estimate) -> str:
    cap_w = estimate.cap_w * estimate.num_devices
    said = f"{phase.power_w:.3g} W on average, at most {phase.peak_power_w:.3g} W of {cap_w:g} W"
    if phase.throttled_fraction > 0:
        said += f"; the cap holds the clock down {phase.throttled_fraction:.0%} of the time"
    return said


def _trust(estimate: Estimate) -> Iterator[Text]:
    unknown = unknown_words(estimate)
    if unknown:
        yield Text(unknown, style="yellow")
    yield Text(data_words(estimate), style="dim")
    yield Text(confidence_words(estimate.confidence))
