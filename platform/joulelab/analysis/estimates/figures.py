"""Figures of estimates: kernels on the roofline of a processor, the front of a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import atan2, degrees, log10

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from joulelab.analysis.estimates import wording
from joulelab.analysis.estimates.kernels import flop_of, main_memory_b, short
from joulelab.analysis.estimates.overview import RESOLUTION, costs_of
from joulelab.analysis.labels import Label, write_labels
from joulelab.analysis.quantities import brief, si_scale
from joulelab.analysis.style import (
    BEST,
    CURVE,
    EQUAL,
    INK,
    MUTED,
    fit_axis,
    in_style,
    is_wide,
    note,
    tidy,
)
from joulelab.core.cost import Pipe
from joulelab.estimator.estimate import Bound, GroupEstimate, PhaseEstimate
from joulelab.estimator.question import Cell
from joulelab.hardware.processor import Processor

BOUND_INKS: Mapping[Bound, str] = {
    "compute": CURVE,
    "memory": EQUAL,
    "launch": MUTED,
    "power": BEST,
}
MAX_NAMES = 8
_ROOM = 0.55  # decades of room around everything drawn
_NAME = 38
_WORTH = 0.005  # shares of time below do not widen the frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """Kernels that stand at one place of the roofline."""

    names: tuple[str, ...]
    # Operations per byte of main memory; of the nearest level that holds its data where a kernel
    # leaves the main memory alone.
    flop_per_b: float
    flop_per_s: float
    share: float  # share of the phase's time, waiting included
    bound: Bound


def dots(phase: PhaseEstimate) -> list[Dot]:
    """Return where the kernels of ``phase`` stand, those that take most time first.

    Kernels within 2 % of each other share a dot; those without operations have none.
    """
    places: dict[tuple[int, int, Bound], list[GroupEstimate]] = {}
    for group in phase.groups:
        if flop_of(group) > 0 and main_memory_b(group) > 0:
            x, y = _intensity(group), _rate(group)
            place = (round(log10(x) / 0.01), round(log10(y) / 0.01), group.bound)
            places.setdefault(place, []).append(group)
    found = [_dot(groups, phase) for groups in places.values()]
    return sorted(found, key=lambda dot: -dot.share)


@in_style
def roofline_figure(phase: PhaseEstimate, processor: Processor) -> Figure:
    """Draw ``phase`` on ``processor``; the dots that take most time are numbered and named."""
    shown = dots(phase)
    figure = Figure(figsize=(11, 5.6))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.06, right=0.66, top=0.9, bottom=0.11)
    tidy(axes, f"Roofline of {phase.phase}", "operations per second", "operations per byte")
    pipes = _pipes(phase, processor)
    _frame(axes, shown, pipes, processor)
    _roofs(axes, pipes, processor)
    _scatter(axes, shown)
    _keys(figure, axes, shown)
    return figure


def ridge(processor: Processor, pipe: Pipe, level: int = -1) -> float:
    """Return the operations per byte at which ``pipe`` and a memory level take the same time."""
    return processor.peak_flop_per_s(pipe) / processor.levels[level].bandwidth_b_per_s


def _dot(groups: Sequence[GroupEstimate], phase: PhaseEstimate) -> Dot:
    elapsed_s = sum(group.elapsed_s for group in phase.groups)
    return Dot(
        names=tuple(dict.fromkeys(group.name for group in groups)),
        flop_per_b=_intensity(groups[0]),
        flop_per_s=_rate(groups[0]),
        share=sum(group.elapsed_s for group in groups) / elapsed_s,
        bound=groups[0].bound,
    )


def _intensity(group: GroupEstimate) -> float:
    return flop_of(group) / main_memory_b(group)


def _rate(group: GroupEstimate) -> float:
    return flop_of(group) / group.device_s


def _pipes(phase: PhaseEstimate, processor: Processor) -> list[Pipe]:
    """Return the pipes that the phase uses and the processor has, fastest first."""
    used = {pipe for group in phase.groups for pipe, flop in group.flop.items() if flop > 0}
    known = [pipe for pipe in processor.flop_per_clock if pipe in used]
    return sorted(known or processor.flop_per_clock, key=lambda p: -processor.flop_per_clock[p])


def _frame(axes: Axes, shown: Sequence[Dot], pipes: Sequence[Pipe], processor: Processor) -> None:
    top = processor.peak_flop_per_s(pipes[0])
    ridges = [ridge(processor, pipe, level) for pipe in pipes for level in (-1, -2)]
    worth = [dot for dot in shown if dot.share > _WORTH]
    xs = [dot.flop_per_b for dot in worth] + ridges
    ys = [dot.flop_per_s for dot in worth] + [processor.peak_flop_per_s(p) for p in pipes]
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(min(xs) / 10**_ROOM, max(xs) * 10 ** (_ROOM + 0.3))
    axes.set_ylim(min(ys) / 10**_ROOM, top * 10**_ROOM)
    axes.grid(visible=False, which="minor")
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: brief(value, "").strip())


def _roofs(axes: Axes, pipes: Sequence[Pipe], processor: Processor) -> None:
    left, right = axes.get_xlim()
    top = processor.peak_flop_per_s(pipes[0])
    for pipe in pipes:
        peak = processor.peak_flop_per_s(pipe)
        axes.plot([peak / processor.last_cache.bandwidth_b_per_s, right], [peak] * 2, color=MUTED,
                  linewidth=1.4, zorder=1)  # fmt: skip
        name = f"{pipe.replace('_', ' ')} {brief(peak, 'FLOP/s')}"
        note(axes, name, (right, peak), (-2, 3), size=8, ha="right")
    for level, dash in ((processor.memory, "-"), (processor.last_cache, (0, (4, 3)))):
        bandwidth = level.bandwidth_b_per_s
        stop = top / bandwidth
        axes.plot([left, stop], [left * bandwidth, top], color=MUTED, linewidth=1.4,
                  linestyle=dash, zorder=1)  # fmt: skip
        name = f"{level.name} {brief(bandwidth, 'B/s')}"
        _name_slope(axes, name, bandwidth, stop, below=level is processor.memory)


def _name_slope(axes: Axes, name: str, bandwidth: float, stop: float, *, below: bool) -> None:
    """Write ``name`` along a slope, where the slope enters the frame."""
    left, right = axes.get_xlim()
    low, _ = axes.get_ylim()
    start = max(left, low / bandwidth)
    if stop <= start or start >= right:
        return
    x = start * (stop / start) ** 0.06
    offset, align = ((4, -4), "top") if below else ((-3, 4), "baseline")
    look = {"rotation": _angle(axes), "rotation_mode": "anchor", "va": align}
    note(axes, name, (x, x * bandwidth), offset, size=8, **look)


def _angle(axes: Axes) -> float:
    """Return the angle on paper, in degrees, of a line of slope one on these log-log axes."""
    box = axes.get_window_extent()
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return degrees(atan2(box.height / log10(high / low), box.width / log10(right / left)))


def _scatter(axes: Axes, shown: Sequence[Dot]) -> None:
    for rank, dot in enumerate(shown):
        named = rank < MAX_NAMES
        axes.scatter(
            dot.flop_per_b, dot.flop_per_s, s=30 + 900 * dot.share, color=BOUND_INKS[dot.bound],
            alpha=0.45 if named else 0.25, linewidth=0, zorder=3,
        )  # fmt: skip
        axes.scatter(
            dot.flop_per_b, dot.flop_per_s, s=7, color=BOUND_INKS[dot.bound], linewidth=0, zorder=4
        )
    _number(axes, shown[:MAX_NAMES])


def _number(axes: Axes, named: Sequence[Dot]) -> None:
    """Write ranks beside their dots, each at the first of eight places that is still free."""
    taken = [_place(axes, dot) for dot in named]
    scale = axes.figure.get_figure(root=True).dpi / 72
    for rank, dot in enumerate(named):
        x, y = _place(axes, dot)
        away = 6 + 15 * dot.share**0.5
        places = [(away * dx, away * dy) for dx, dy in _AROUND]
        dx, dy = max(places, key=lambda p: _free(x + p[0] * scale, y + p[1] * scale, taken))
        taken.append((x + dx * scale, y + dy * scale))
        note(
            axes, f"{rank + 1}", (dot.flop_per_b, dot.flop_per_s), (dx, dy), color=INK, ha="center",
            va="center", fontweight="bold", zorder=6,
        )  # fmt: skip


def _place(axes: Axes, dot: Dot) -> tuple[float, float]:
    x, y = axes.transData.transform((dot.flop_per_b, dot.flop_per_s))
    return float(x), float(y)


_AROUND = ((0, 1), (1, 0), (0, -1), (-1, 0), (0.8, 0.8), (0.8, -0.8), (-0.8, -0.8), (-0.8, 0.8))


def _free(x: float, y: float, taken: Sequence[tuple[float, float]]) -> float:
    """Return the squared distance to the nearest taken place, up to what is far enough."""
    nearest = min(((x - a) ** 2 + (y - b) ** 2 for a, b in taken), default=1e9)
    return min(nearest, 18.0**2)


def _keys(figure: Figure, axes: Axes, shown: Sequence[Dot]) -> None:
    """Write the names of the numbered dots, and what colours mean, to the right."""
    figure.text(0.69, 0.9, "Kernels that take most time", fontsize=9.5, fontweight="bold")
    for rank, dot in enumerate(shown[:MAX_NAMES]):
        more = f" and {len(dot.names) - 1} alike" if len(dot.names) > 1 else ""
        y = 0.845 - 0.062 * rank
        figure.text(0.69, y, str(rank + 1), fontsize=8.5, fontweight="bold")
        figure.text(0.71, y, short(dot.names[0], _NAME - len(more)) + more, fontsize=8.5)
        figure.text(0.985, y, f"{dot.share:.0%}", fontsize=8.5, color=MUTED, ha="right")
    bounds = [bound for bound in BOUND_INKS if any(dot.bound == bound for dot in shown)]
    handles = [
        Line2D([], [], marker="o", linestyle="", color=BOUND_INKS[bound], label=bound, markersize=6)
        for bound in bounds
    ]
    axes.legend(
        handles=handles, title="time set by", loc="upper left", bbox_to_anchor=(1.04, 0.24),
        fontsize=8.5, title_fontsize=8.5, alignment="left", ncols=2,
    )  # fmt: skip


_INK = {True: BEST, False: MUTED}


@in_style
def front_figure(cells: Sequence[Cell]) -> Figure:
    """Draw energy over time of what was compared for one model, the front in colour."""
    compared = sorted((cell for cell in cells if cell.on_front is not None), key=costs_of)
    times_s, energies_j = zip(*(costs_of(cell)[:2] for cell in compared), strict=True)
    (across, x_prefix), (up, y_prefix) = si_scale(times_s), si_scale(energies_j)
    unit = wording.estimate_of(compared[0]).unit
    figure = Figure(figsize=(7, 4))
    figure.subplots_adjust(left=0.1, right=0.95, top=0.86, bottom=0.13)
    axes = figure.add_subplot()
    tidy(axes, "Energy over time", f"{y_prefix}J/{unit}", f"time, {x_prefix}s/{unit}")
    xs, ys = [x * across for x in times_s], [y * up for y in energies_j]
    fit_axis(axes, "x", _ends(xs), has_log=is_wide(xs), below=0.08, above=0.2)
    fit_axis(axes, "y", _ends(ys), has_log=is_wide(ys), below=0.12, above=0.12)
    dots = list(zip(compared, xs, ys, strict=True))
    line = [(x, y) for cell, x, y in dots if cell.on_front]
    if compared[0].price is None:  # with prices, the front is a surface
        axes.plot(*zip(*line, strict=True), color=BEST, linewidth=1)
    labels = []
    for cell, x, y in dots:
        strong = bool(cell.on_front)
        axes.plot([x], [y], "o", color=_INK[strong], markersize=6)
        text = wording.cell_name(cell, compared)
        labels.append(Label(x=x, y=y, text=text, color=_INK[strong], is_strong=strong, can_go=True))
    write_labels(axes, labels, list(zip(xs, ys, strict=True)))
    return figure


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return what an axis spans: estimates that count as equal stand at one place."""
    low, high = min(values), max(values)
    return (low, high) if high > (1 + RESOLUTION) * low else (0.9 * low, 1.1 * high)
