"""What a model needs of a device's memory: parts, timeline, and the largest batch that fits."""

from collections.abc import Sequence
from itertools import pairwise

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.detail import bars_table, memory_parts
from joulelab.analysis.estimates.wording import memory_words
from joulelab.analysis.quantities import quantity
from joulelab.estimator.estimate import MemoryEstimate
from joulelab.estimator.fitting import Fit

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
    rows = [
        (name, part_b / memory.peak_b, quantity(part_b, "B", digits=3), _STYLES[name])
        for name, part_b in memory_parts(memory).items()
    ]
    said: list[RenderableType] = [
        Text(f"{phase}: {memory_words(memory)}", style="" if memory.fits else "bold red"),
        bars_table("", rows, width=30),
    ]
    if len(memory.timeline_b) > 1:
        low, high = (
            quantity(value, "B", digits=3)
            for value in (min(memory.timeline_b), max(memory.timeline_b))
        )
        said.append(Text(f"{skyline(memory.timeline_b)}  {low} to {high} over its operators"))
    return Group(*said)


def fit_sentence(fit: Fit) -> str:
    """Say whether it fits, and how large a batch would."""
    name = f"{fit.model} on {fit.processor.product_name}, {fit.precision}, batch {fit.batch}"
    return f"{name} {memory_words(fit.worst)}. {limit_words(fit.largest_batch)}".strip()


def limit_words(largest_batch: int | None) -> str:
    """Say how large a batch fits."""
    if largest_batch is None:
        return "Memory sets no limit to the batch."
    if largest_batch == 0:
        return "Not even one sample fits."
    return f"The largest batch that fits is {largest_batch}."


def fits_table(found: Sequence[Fit]) -> Table:
    """Lay out several, a line each."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    named = [n for n in _NAMES if n == "device" or len({_named(fit, n) for fit in found}) > 1]
    for head in named:
        table.add_column(head, no_wrap=True)
    heads = ("weights", "activations", "KV cache", "in all", "of", "largest\nbatch")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for fit in found:
        worst = fit.worst
        parts = (worst.weight_b, worst.activation_b, worst.kv_b, worst.peak_b, worst.capacity_b)
        most = "any" if fit.largest_batch is None else str(fit.largest_batch)
        amounts = [quantity(part, "B", digits=3) for part in parts]
        cells = [_named(fit, name) for name in named]
        table.add_row(*cells, *amounts, most, style="" if worst.fits else "red")
    return table


_NAMES = ("model", "device", "precision", "batch")


def _named(fit: Fit, name: str) -> str:
    return fit.processor.key if name == "device" else str(getattr(fit, name))


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
