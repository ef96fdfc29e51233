"""One estimate in full for the terminal: time, energy, memory, and how sure it is."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from joulelab.analysis.estimates import wording
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import grid_table, numbers, quiet_table, words
from joulelab.estimator.api import Fit
from joulelab.estimator.estimate import COMPONENTS, EnergySplit, Estimate, PhaseEstimate
from joulelab.estimator.pricing.memory import MemoryEstimate
from joulelab.estimator.question import Cell, Opportunity
from joulelab.estimator.savings import MemoryHint


def detail(cell: Cell) -> RenderableType:
    """Lay out everything but groups and events of one cell."""
    lines: list[RenderableType] = [Text(wording.headline(cell), style="bold")]
    if cell.estimate is not None:
        several = len(cell.estimate.phases) > 1
        for phase in cell.estimate.phases:
            if several:
                lines.append(Text(f"\n{phase.phase}", style="bold"))
            lines += [Text(), _phase(phase, cell.estimate)]
        if cell.opportunities:
            lines += [Text(), opportunity_table(cell.opportunities)]
        lines += [Text(), *_trust(cell.estimate)]
    return Group(*lines)


def bars_table(
    title: str, parts: Mapping[str, float], unit: str, colors: Mapping[str, str], *, width: int = 20
) -> Table:
    """Lay out parts of a whole as bars, each with its share and its amount."""
    heads = Column(style="dim", no_wrap=True), *words(""), *numbers("", "")
    table, whole = grid_table(title, *heads, padding=(0, 1)), sum(parts.values())
    for name, part in parts.items():
        share = part / whole if whole else 0.0
        drawn = bar(share, width=width, style=colors[name])
        table.add_row(name, drawn, f"{share:.0%}", brief(part, unit))
    return table


def opportunity_table(found: Sequence[Opportunity]) -> Table:
    """Lay out what would save energy, with why."""
    title, heads = "Opportunities, each predicted on its own", words("", "", "")
    table = grid_table(title, *heads, Column(style="dim"), padding=(0, 2))
    for one in found:
        energy, time = wording.change_words(one)
        table.add_row(one.title, Text(energy, style="green"), time, one.reason)
    return table


def hints_table(found: Sequence[MemoryHint]) -> Table:
    """Lay out what would save memory, with why."""
    table = quiet_table(
        *words("Each on its own"), *numbers("saves"), *words("why"), title="What would save memory"
    )
    for one in found:
        table.add_row(one.title, brief(one.saved_b, "B"), one.reason)
    return table


def _phase(phase: PhaseEstimate, estimate: Estimate) -> RenderableType:
    energy_j, latency_s = phase.energy.total_j, phase.latency_s
    spent_j = {str(name): phase.energy.of(name) for name in COMPONENTS}
    set_by_s = {str(bound): share * latency_s for bound, share in phase.bound_shares.items()}
    inks = {name: color for name, (_, color) in COMPONENT_MARKS.items()}
    beside = Table.grid(padding=(0, 4))
    beside.add_row(
        bars_table(f"Energy {brief(energy_j, 'J')}", spent_j, "J", inks),
        bars_table(f"Time {brief(latency_s, 's')} set by", set_by_s, "s", BOUND_COLORS),
    )
    return Group(beside, Text(), _facts(phase, estimate))


def _facts(phase: PhaseEstimate, estimate: Estimate) -> Table:
    table = grid_table("", Column(style="dim", no_wrap=True), Column(), padding=(0, 2))
    for name, fact in wording.phase_facts(phase, estimate).items():
        is_lacking = name == "memory" and not phase.memory.fits
        table.add_row(name, Text(fact, style="bold red" if is_lacking else ""))
    return table


def _trust(estimate: Estimate) -> Iterator[Text]:
    styles = {"unknown": "yellow", "data": "dim"}
    for name, sentence in wording.trust_sentences(estimate).items():
        if sentence:
            yield Text(sentence, style=styles.get(name, ""))


_STYLES = {
    "weights": "blue",
    "activations": "green",
    "KV cache": "magenta",
    "inputs": "cyan",
    "gradients": "yellow",
    "optimizer": "red",
    "workspace": "bright_black",
}
_LEVELS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def memory_table(phase: str, memory: MemoryEstimate) -> RenderableType:
    """Lay out the parts of ``memory``, its timeline below."""
    lines: list[RenderableType] = [
        Text(f"{phase}: {wording.memory_words(memory)}", style="" if memory.fits else "bold red"),
        bars_table("", memory.parts, "B", _STYLES, width=30),
    ]
    if len(memory.timeline_b) > 1:
        low, high = (
            brief(value, "B") for value in (min(memory.timeline_b), max(memory.timeline_b))
        )
        lines.append(Text(f"{skyline(memory.timeline_b)}  {low} to {high} over its operators"))
    return Group(*lines)


def fit_sentence(fit: Fit) -> str:
    """Say whether it fits, and how large a batch would."""
    name = f"{fit.model} on {fit.processor.product_name}, {fit.precision}, batch {fit.batch}"
    return f"{name} {wording.memory_words(fit.worst)}. {limit_words(fit.largest_batch)}".strip()


def limit_words(largest_batch: int | None) -> str:
    """Say how large a batch fits."""
    if largest_batch is None:
        return "Memory sets no limit to the batch."
    if largest_batch == 0:
        return "Not even one sample fits."
    return f"The largest batch that fits is {largest_batch}."


def fits_table(found: Sequence[Fit]) -> Table:
    """Lay out several, a line each, of the phase that needs most."""
    named = wording.differing(found, always="device")
    phase = ("phase",) if any(len(fit.phases) > 1 for fit in found) else ()
    heads = ("weights", "activations", "KV cache", "in all", "of", "largest\nbatch")
    table = quiet_table(*words(*named, *phase), *numbers(*heads))
    for fit in found:
        worst = fit.worst
        parts = (worst.weight_b, worst.activation_b, worst.kv_b, worst.peak_b, worst.capacity_b)
        most = "any" if fit.largest_batch is None else str(fit.largest_batch)
        amounts = [brief(part, "B") for part in parts]
        cells = [wording.value_of(fit, name) for name in named] + [fit.worst_phase for _ in phase]
        table.add_row(*cells, *amounts, most, style="" if worst.fits else "red")
    return table


def skyline(values: Sequence[float], *, width: int = 60) -> str:
    """Draw ``values`` as a line of blocks; each block is the highest of its values.

    The lowest block is the least of them, so that what changes can be seen.
    """
    highest = coarse(values, most=width)
    low, high = min(highest), max(highest)
    scale = (len(_LEVELS) - 2) / (high - low) if high > low else 0.0
    return "".join(_LEVELS[1 + round(scale * (value - low))] for value in highest)


def coarse(values: Sequence[float], *, most: int = 300) -> list[float]:
    """Return at most ``most`` values, each the highest of its share of ``values``."""
    num = min(most, len(values))
    edges = [i * len(values) // num for i in range(num + 1)] if num else []
    return [max(values[a:b]) for a, b in pairwise(edges)]


_EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
_FULL = "\u2588"
COMPONENT_MARKS: Mapping[str, tuple[str, str]] = {
    "compute": (_FULL, "blue"),
    "memory": ("\u2593", "green"),
    "static": ("\u2591", "bright_black"),
}
"""Block and colour of each component of energy."""

BOUND_COLORS: Mapping[str, str] = {
    "compute": "blue",
    "memory": "green",
    "launch": "bright_black",
    "power": "red",
}


def bar(share: float, *, width: int = 20, style: str = "blue") -> Text:
    """Draw a share of 0 to 1, to an eighth of a character."""
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    full, rest = divmod(eighths, 8)
    drawn = _FULL * full + (_EIGHTHS[rest] if rest else "")
    return Text(drawn.ljust(width), style=style)


def stacked_bar(energy: EnergySplit, *, width: int = 12) -> Text:
    """Draw the three components side by side, together ``width`` characters."""
    drawn, edge, done = Text(), 0.0, 0
    for name, share in energy.shares.items():
        block, style = COMPONENT_MARKS[name]
        edge += share
        stop = round(width * edge)
        drawn.append(block * (stop - done), style=style)
        done = stop
    return drawn


def component_legend() -> Text:
    """Say which block is which component."""
    drawn = Text()
    for name, (block, style) in COMPONENT_MARKS.items():
        drawn.append(block * 2, style=style).append(f" {name}   ")
    return drawn
