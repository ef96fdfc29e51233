"""Device memory over a program's operators: what stays, and what comes and goes."""

from collections.abc import Iterable

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.estimates.memory_table import coarse
from joulelab.analysis.quantities import quantity, si_scale
from joulelab.analysis.style import BEST, CAPPED, CURVE, EQUAL, MUTED, RC, tidy
from joulelab.estimator.estimate import Estimate, MemoryEstimate, PhaseEstimate

_NEAR = 2.0  # the capacity is drawn where the peak comes within this factor of it


def timeline_figure(estimate: Estimate) -> Figure:
    """Draw the memory of every phase of ``estimate`` side by side."""
    phases = estimate.phases
    with mpl.rc_context(RC):
        figure = Figure(figsize=(11, 3.5))
        panels = figure.subplots(1, len(phases), squeeze=False)
        figure.subplots_adjust(left=0.055, right=0.985, top=0.76, bottom=0.16, wspace=0.18)
        for axes, phase in zip(panels[0], phases, strict=True):
            _draw(axes, phase)
        handles, names = _legend(panels[0])
        named = dict(zip(names, handles, strict=True))
        figure.legend(named.values(), named.keys(), loc="upper right", ncols=5, frameon=False,
                      bbox_to_anchor=(0.99, 1.0), fontsize=8.5, handlelength=1.2)  # fmt: skip
    return figure


def held_b(memory: MemoryEstimate) -> dict[str, float]:
    """Return what is held from start to end, in bytes, undermost first."""
    parts = {
        "weights": memory.weight_b,
        "KV cache, inputs": memory.kv_b + memory.input_b,
        "optimizer": memory.optimizer_b,
    }
    return {name: part_b for name, part_b in parts.items() if part_b > 0}


def _draw(axes: Axes, phase: PhaseEstimate) -> None:
    memory = phase.memory
    factor, prefix = si_scale([memory.peak_b])
    tidy(axes, f"Memory of {phase.phase}", f"{prefix}B", "operators, in order")
    timeline_b = coarse(memory.timeline_b)
    steps = [
        i * len(memory.timeline_b) / max(len(timeline_b), 1) for i in range(len(timeline_b) + 1)
    ]
    base = 0.0
    for (name, part_b), ink in zip(held_b(memory).items(), (CURVE, EQUAL, MUTED), strict=False):
        axes.fill_between(steps, base * factor, (base + part_b) * factor, color=ink, alpha=0.75,
                          linewidth=0, label=name)  # fmt: skip
        base += part_b
    tops = [max(value, base) * factor for value in timeline_b]
    tops = [*tops, *tops[-1:]]
    if tops:
        axes.fill_between(steps, base * factor, tops, step="post", color=CAPPED, alpha=0.75,
                          linewidth=0, label="activations and gradients")  # fmt: skip
    _mark(axes, memory, factor)
    axes.set_xlim(0, max(len(memory.timeline_b), 1))


def _legend(panels: Iterable[Axes]) -> tuple[list[Artist], list[str]]:
    """Return what the panels show, and its names."""
    found = [axes.get_legend_handles_labels() for axes in panels]
    return [h for handles, _ in found for h in handles], [n for _, names in found for n in names]


def _mark(axes: Axes, memory: MemoryEstimate, factor: float) -> None:
    """Draw the peak, and the capacity where it is near."""
    peak, capacity = memory.peak_b * factor, memory.capacity_b * factor
    near = capacity < _NEAR * peak
    axes.set_ylim(0, 1.18 * (max(peak, capacity) if near else peak))
    axes.axhline(peak, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    _say(axes, f"peak, with workspace {quantity(memory.peak_b, 'B', digits=3)}", peak, MUTED)
    if near:
        axes.axhline(capacity, color=BEST, linewidth=1.4)
        _say(axes, f"the device has {quantity(memory.capacity_b, 'B', digits=3)}", capacity, BEST,
             left=True)  # fmt: skip


def _say(axes: Axes, text: str, y: float, color: str, *, left: bool = False) -> None:
    axes.annotate(
        text, (0 if left else 1, y), xycoords=("axes fraction", "data"),
        xytext=(4 if left else -4, 3), textcoords="offset points", ha="left" if left else "right",
        color=color, fontsize=8,
    )  # fmt: skip
