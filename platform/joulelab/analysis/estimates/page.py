"""Estimates as one HTML page that needs nothing else, and the bars on it."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis import style
from joulelab.analysis.estimates import kernels, wording
from joulelab.analysis.estimates.detail import coarse
from joulelab.analysis.estimates.figures import BOUND_INKS, dots, front_figure, roofline_figure
from joulelab.analysis.estimates.overview import (
    PAGE_FIGURES,
    answers,
    front_sentences,
    overview_table,
)
from joulelab.analysis.page import render
from joulelab.analysis.quantities import brief, si_scale
from joulelab.estimator.estimate import EnergySplit, Estimate, GroupEstimate, PhaseEstimate
from joulelab.estimator.pricing.memory import MemoryEstimate
from joulelab.estimator.question import Cell
from joulelab.provenance import git_sha, joulelab_version

MAX_SECTIONS = 8
MAX_GROUPS = 40


def page(cells: Sequence[Cell]) -> str:
    """Return the page of ``cells``; the first :data:`MAX_SECTIONS` of them in full."""
    answered, together = [cell for cell in cells if cell.estimate is not None], comparable(cells)
    has_front = len({cell.model for cell in cells if cell.on_front is not None}) == 1
    title = ", ".join(dict.fromkeys(cell.model for cell in cells))
    return render(
        "estimates/page.html.j2",
        title=f"{title}: estimate",
        cells=cells,
        answers=answers(cells) or [wording.headline(cell) for cell in cells[:1]],
        overview=overview_table(cells, figures=PAGE_FIGURES),
        comparison=comparison_figures(together) if together else (),
        front=front_figure(cells) if has_front else None,
        front_words=front_sentences(cells),
        answered=answered[:MAX_SECTIONS],
        num_more=max(0, len(answered) - MAX_SECTIONS),
        max_groups=MAX_GROUPS,
        sources={cell.processor.key: cell.processor for cell in cells},
        origin=f"joulelab {joulelab_version()}, commit {git_sha() or 'unknown'}",
        words=wording,
        kernels=kernels,
        draw={
            "roofline": lambda phase, on: roofline_figure(phase, on) if dots(phase) else None,
            "stack": lambda phase: stack_figure(phase) if phase.groups else None,
            "timeline": timeline_figure,
        },
        svg=style.themed_svg,
    )


COMPONENT_INKS: Mapping[str, str] = {
    "compute": style.CURVE,
    "memory": style.EQUAL,
    "static": style.CAPPED,
}
MAX_BARS = 40
MAX_PARTS = 22
OUTSIDE = "outside of modules"
_HALF_IN = 4.4  # what a telephone's screen shows with letters that can be read
_NEAR = 2.0  # the capacity is drawn where the peak comes within this factor of it

Bar = tuple[float, Mapping[str, float], str]
"""A total in SI units, the shares of it by name, and what is written at its end."""


def comparable(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that can be drawn beside each other, at most :data:`MAX_BARS`."""
    answered = [cell for cell in cells if cell.estimate is not None]
    units = {cell.estimate.unit for cell in answered if cell.estimate is not None}
    return answered[:MAX_BARS] if len(answered) > 1 and len(units) == 1 else []


@style.in_style
def comparison_figures(cells: Sequence[Cell]) -> tuple[Figure, Figure]:
    """Draw energy and time per unit of the last phase's work of :func:`comparable` cells.

    They are two, so that a narrow screen shows them one below the other.
    """
    unit = cells[0].estimate.unit if cells[0].estimate else ""
    energies: list[Bar] = []
    times: list[Bar] = []
    for phase in map(wording.last_phase, cells):
        energy_j, time_s = phase.energy_per_unit_j, phase.time_per_unit_s
        bounds = {str(bound): share for bound, share in phase.bound_shares.items()}
        energies.append((energy_j, phase.energy.shares, brief(energy_j, "J")))
        times.append((time_s, bounds, brief(time_s, "s")))
    names = [wording.cell_name(cell, cells) for cell in cells]
    (first, left), (second, right) = (_rows(names, width_in=_HALF_IN) for _ in range(2))
    _stack(left, ("Energy", f"J/{unit}"), energies, COMPONENT_INKS)
    _stack(right, ("Time", f"s/{unit}"), times, {str(b): ink for b, ink in BOUND_INKS.items()})
    return first, second


@style.in_style
def stack_figure(phase: PhaseEstimate) -> Figure:
    """Draw the energy of each part of ``phase`` as a stack of its components."""
    found = parts(phase)
    bars = [
        (
            energy.total_j,
            energy.shares,
            f"{brief(energy.total_j, 'J')}, {energy.total_j / phase.energy.total_j:.0%}",
        )
        for energy in found.values()
    ]
    figure, axes = _rows(list(found))
    _stack(axes, (f"Energy along {phase.phase}", "J"), bars, COMPONENT_INKS)
    return figure


def parts(phase: PhaseEstimate, *, max_parts: int = MAX_PARTS) -> dict[str, EnergySplit]:
    """Sum the energy of ``phase`` by module, in the order in which modules first run.

    Paths are cut at some depth, and layers that differ in a number alone put together as
    ``layers.*``, so that there are most parts but not more than ``max_parts``; if even the first
    names are too many, those that need least energy are put together.
    """
    deepest = max((group.module.count(".") + 1 for group in phase.groups), default=1)
    cuts = [
        _by_module(phase.groups, depth, starred=starred)
        for depth in range(deepest, 0, -1)
        for starred in (False, True)
    ]
    fine = [found for found in cuts if len(found) <= max_parts]
    return max(fine, key=len) if fine else _with_rest(cuts[-1], max_parts)


def _by_module(
    groups: Sequence[GroupEstimate], depth: int, *, starred: bool
) -> dict[str, EnergySplit]:
    named: dict[str, list[EnergySplit]] = {}
    for group in groups:
        path = group.module.split(".")[:depth]
        name = ".".join("*" if starred and part.isdigit() else part for part in path)
        named.setdefault(name or OUTSIDE, []).append(group.energy)
    return {name: EnergySplit.total(energies) for name, energies in named.items()}


def _with_rest(found: Mapping[str, EnergySplit], max_parts: int) -> dict[str, EnergySplit]:
    costliest = sorted(found, key=lambda name: -found[name].total_j)[: max_parts - 1]
    rest = [energy for name, energy in found.items() if name not in costliest]
    kept = {name: energy for name, energy in found.items() if name in costliest}
    return {**kept, f"{len(rest)} others": EnergySplit.total(rest)}


def _rows(names: Sequence[str], *, width_in: float = 11) -> tuple[Figure, Axes]:
    """Return axes whose rows are ``names``, from above."""
    figure = Figure(figsize=(width_in, 1.3 + 0.3 * len(names)))
    axes = figure.subplots()
    high = 0.6 / figure.get_figheight()
    room = min(0.4, 0.03 + 0.075 / width_in * max(map(len, names)))
    figure.subplots_adjust(left=room, right=0.97, top=1 - 1.3 * high, bottom=high)
    axes.set_yticks(range(len(names)), names, color=style.INK)
    axes.set_ylim(len(names) - 0.5, -0.5)
    return figure, axes


def _stack(
    axes: Axes, title: tuple[str, str], bars: Sequence[Bar], inks: Mapping[str, str]
) -> None:
    """Draw ``bars`` in the rows of ``axes``; ``title`` holds its unit too."""
    factor, prefix = si_scale([max(total for total, _, _ in bars)])
    style.tidy(axes, title[0], "", f"{prefix}{title[1]}")
    rows, ends = range(len(bars)), [0.0] * len(bars)
    for name, ink in inks.items():
        values = [total * shares.get(name, 0.0) * factor for total, shares, _ in bars]
        if any(values):
            axes.barh(rows, values, left=ends, color=ink, height=0.7, label=name)
        ends = [a + b for a, b in zip(ends, values, strict=True)]
    for row, (_, _, text) in enumerate(bars):
        style.note(axes, text, (ends[row], row), (4, 0), size=8, va="center")
    axes.set_xlim(0, 1.2 * max(ends))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, handlelength=1.0,
                handletextpad=0.5, columnspacing=1.0)  # fmt: skip


@style.in_style
def timeline_figure(estimate: Estimate) -> Figure:
    """Draw the memory of every phase of ``estimate`` side by side."""
    phases = estimate.phases
    figure = Figure(figsize=(11, 3.5))
    panels = figure.subplots(1, len(phases), squeeze=False)
    figure.subplots_adjust(left=0.055, right=0.985, top=0.76, bottom=0.16, wspace=0.18)
    for axes, phase in zip(panels[0], phases, strict=True):
        _draw(axes, phase)
    named = {
        name: handle
        for axes in panels[0]
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="upper right", ncols=5,
                  bbox_to_anchor=(0.99, 1.0), fontsize=8.5, handlelength=1.2)  # fmt: skip
    return figure


def _held_b(memory: MemoryEstimate) -> dict[str, float]:
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
    style.tidy(axes, f"Memory of {phase.phase}", f"{prefix}B", "operators, in order")
    timeline_b = coarse(memory.timeline_b)
    steps = [
        i * len(memory.timeline_b) / max(len(timeline_b), 1) for i in range(len(timeline_b) + 1)
    ]
    base = 0.0
    for (name, part_b), ink in zip(
        _held_b(memory).items(), (style.CURVE, style.EQUAL, style.MUTED), strict=False
    ):
        axes.fill_between(steps, base * factor, (base + part_b) * factor, color=ink, alpha=0.75,
                          linewidth=0, label=name)  # fmt: skip
        base += part_b
    tops = [max(value, base) * factor for value in timeline_b]
    tops = [*tops, *tops[-1:]]
    if tops:
        axes.fill_between(steps, base * factor, tops, step="post", color=style.CAPPED, alpha=0.75,
                          linewidth=0, label="activations and gradients")  # fmt: skip
    _mark(axes, memory, factor)
    axes.set_xlim(0, max(len(memory.timeline_b), 1))


def _mark(axes: Axes, memory: MemoryEstimate, factor: float) -> None:
    peak, capacity = memory.peak_b * factor, memory.capacity_b * factor
    near = capacity < _NEAR * peak
    axes.set_ylim(0, 1.18 * (max(peak, capacity) if near else peak))
    axes.axhline(peak, color=style.MUTED, linewidth=1, linestyle=(0, (4, 3)))
    text, at = f"peak, with workspace {brief(memory.peak_b, 'B')}", ("axes fraction", "data")
    style.note(axes, text, (1, peak), (-4, 3), size=8, ha="right", xycoords=at)
    if near:
        axes.axhline(capacity, color=style.BEST, linewidth=1.4)
        text = f"the device has {brief(memory.capacity_b, 'B')}"
        style.note(axes, text, (0, capacity), (4, 3), size=8, color=style.BEST, xycoords=at)
