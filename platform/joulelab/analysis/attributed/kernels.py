"""Kernels of a trace as tables, as a chart of streams over time, and as a page."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from joulelab.analysis.page import render
from joulelab.analysis.quantities import brief, counted
from joulelab.analysis.style import CAPPED, CURVE, in_style, themed_svg, tidy
from joulelab.analysis.table import Frame, numbers, quiet_table, words
from joulelab.attribution.kineto import Launches
from joulelab.attribution.launch_summary import (
    TIERS,
    DeviceSummary,
    KernelSummary,
    devices_in,
    kernels_in,
    tier_of,
)

MAX_KERNELS = 30
MOST_PRINTED = 15
_PLACES = r"^void |at::native::|\(anonymous namespace\)::|std::enable_if<.*?>::type "
"""What the names of PyTorch's kernels begin with, which tells none from another."""
_NAME_LETTERS, _PRINTED_LETTERS, _OPERATOR_LETTERS = 56, 36, 24
_BINS = 400
_COLOURS: dict[str, str] = dict(
    zip(
        TIERS,
        ("#d55e00", "#9aa3ad", "#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#332288"),
        strict=True,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelProfile:
    """A trace, its distinct kernels, most time first, and what every GPU did."""

    launches: Launches
    kernels: tuple[KernelSummary, ...]
    devices: tuple[DeviceSummary, ...]

    @classmethod
    def of(cls, launches: Launches) -> "KernelProfile":
        """Reduce a trace."""
        return cls(launches=launches, kernels=kernels_in(launches), devices=devices_in(launches))


def answer(profile: KernelProfile) -> str:
    """Say what ran, in one sentence."""
    share = fmean(one.busy_s / one.span_s for one in profile.devices)
    lost, num = profile.launches.lost, len(profile.launches)
    text = (
        f"{num} {'launch' if num == 1 else 'launches'} of "
        f"{counted(len(profile.kernels), 'distinct kernel')} on "
        f"{counted(len(profile.devices), 'GPU')}: a kernel ran in {share:.1%} of "
        f"{brief(max(one.span_s for one in profile.devices), 's')}."
    )
    return f"{text} {lost} launches have no kernel: the profiler lost them." if lost else text


def device_table(devices: Sequence[DeviceSummary]) -> Table:
    """Return a table of GPUs."""
    table = quiet_table(
        *numbers("GPU", "span", "busy", "share", "overlap", "communication alone", "gaps"),
        *numbers("longest gap", "streams"),
    )
    for one in devices:
        table.add_row(
            str(one.device),
            brief(one.span_s, "s"),
            brief(one.busy_s, "s"),
            f"{one.busy_s / one.span_s:.1%}",
            f"{max(one.kernel_s / one.busy_s - 1, 0.0):.1%}",  # rounding, where none overlap
            brief(one.communication_s, "s"),
            str(one.num_gaps),
            brief(one.longest_gap_s, "s"),
            str(one.num_streams),
        )
    return table


def tier_table(kernels: Sequence[KernelSummary]) -> Table:
    """Return a table of where kernels come from."""
    table = quiet_table(*words("from"), *numbers("distinct", "launches", "time", "share"))
    whole_s = sum(one.total_s for one in kernels)
    for tier in TIERS:
        own = [one for one in kernels if one.tier == tier]
        if own:
            total_s = sum(one.total_s for one in own)
            table.add_row(
                tier,
                str(len(own)),
                str(sum(one.num_launches for one in own)),
                brief(total_s, "s"),
                f"{total_s / whole_s:.1%}",
            )
    return table


def kernel_table(kernels: Sequence[KernelSummary]) -> Table:
    """Return a table of the distinct kernels that take most time."""
    has_inputs = any(one.operator.inputs for one in kernels)
    table = quiet_table(
        *words("kernel", "operator", *["inputs"] * has_inputs),
        *numbers("launches", "time", "share", "mean", "grid", "GPU:stream"),
    )
    whole_s = sum(one.total_s for one in kernels)
    for one in kernels[:MAX_KERNELS]:
        grid = "x".join(map(str, one.signature.grid))
        stream = f"{one.signature.device}:{one.signature.stream}"
        given = [one.operator.inputs] * has_inputs
        table.add_row(_name(one), one.operator.name, *given, *_spent(one, whole_s), grid, stream)
    return table


def short_table(kernels: Sequence[KernelSummary]) -> Table:
    """Return the table as a terminal of 100 letters holds it, without shapes and places."""
    table = quiet_table(*words("kernel", "operator"), *numbers("launches", "time", "share", "mean"))
    whole_s = sum(one.total_s for one in kernels)
    for one in kernels[:MOST_PRINTED]:
        named = _name(one)[:_PRINTED_LETTERS], one.operator.name[:_OPERATOR_LETTERS]
        table.add_row(*named, *_spent(one, whole_s))
    return table


def _name(one: KernelSummary) -> str:
    return re.sub(_PLACES, "", one.signature.name)[:_NAME_LETTERS]


def _spent(one: KernelSummary, whole_s: float) -> tuple[str, ...]:
    share = f"{one.total_s / whole_s:.1%}"
    return str(one.num_launches), brief(one.total_s, "s"), share, brief(one.mean_s, "s")


def frame(kernels: Sequence[KernelSummary]) -> Frame:
    """Return all distinct kernels as numbers in SI units."""
    return Frame.of(
        [
            {
                "kernel": one.signature.name,
                "tier": one.tier,
                "operator": one.operator.name,
                "inputs": one.operator.inputs,
                "device": one.signature.device,
                "stream": one.signature.stream,
                "grid": "x".join(map(str, one.signature.grid)),
                "block": "x".join(map(str, one.signature.block)),
                "shared_b": one.signature.shared_b,
                "num_launches": one.num_launches,
                "total_s": one.total_s,
                "mean_s": one.mean_s,
                "shortest_s": one.shortest_s,
                "longest_s": one.longest_s,
            }
            for one in kernels
        ]
    )


@in_style
def gantt_figure(profile: KernelProfile, start_s: float, stop_s: float) -> Figure:
    """Draw the busy share of the whole trace, and streams launch by launch within a part of it."""
    launches = profile.launches
    rows = sorted({(each.device, each.stream) for each in launches.signatures})
    figure = Figure(figsize=(11.0, 2.9 + 0.32 * len(rows)))
    above, below = figure.subplots(2, 1, height_ratios=(1.0, 0.4 + 0.32 * len(rows)))
    figure.subplots_adjust(left=0.12, right=0.82, top=0.87, bottom=0.13, hspace=0.75)
    _draw_busy(above, launches, start_s, stop_s)
    _draw_streams(below, launches, rows, start_s, stop_s)
    return figure


def _draw_busy(axes: Axes, launches: Launches, start_s: float, stop_s: float) -> None:
    stops_s = launches.start_s + launches.duration_s
    edges = np.linspace(0.0, float(stops_s.max()), _BINS + 1)
    # Time up to an instant is what has started by then, less what of it is still to come.
    done = np.interp(edges, np.sort(launches.start_s), np.arange(len(launches)))
    total_s = np.r_[0.0, np.cumsum(launches.duration_s[np.argsort(launches.start_s)])]
    num_devices = len({each.device for each in launches.signatures})
    share = np.diff(np.interp(done, np.arange(len(total_s)), total_s)) / np.diff(edges)
    share /= num_devices
    percent = 100 * np.minimum(share, 1.0)
    axes.fill_between(1e3 * edges[:-1], percent, step="post", color=CAPPED)
    axes.axvspan(1e3 * start_s, 1e3 * stop_s, color=CURVE, alpha=0.25)
    axes.set_ylim(0, min(100.0, 1.2 * float(percent.max())))
    title = "Time in which a kernel runs" + (", mean of all GPUs" if num_devices > 1 else "")
    tidy(axes, title, "%", "ms")


def _draw_streams(
    axes: Axes,
    launches: Launches,
    rows: Sequence[tuple[int, int]],
    start_s: float,
    stop_s: float,
) -> None:
    stops_s = launches.start_s + launches.duration_s
    shown = np.flatnonzero((stops_s > start_s) & (launches.start_s < stop_s))
    bars: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for index in shown.tolist():
        signature = launches.signatures[int(launches.signature[index])]
        row = rows.index((signature.device, signature.stream))
        bar = (1e3 * float(launches.start_s[index]), 1e3 * float(launches.duration_s[index]))
        bars.setdefault((row, tier_of(signature.name)), []).append(bar)
    for (row, tier), spans in bars.items():
        # The line shows kernels that are shorter than a pixel.
        axes.broken_barh(spans, (row - 0.38, 0.76), color=_COLOURS[tier], linewidth=0.4, label=tier)
    tidy(axes, f"{len(shown)} launches, stream by stream", "", "ms")
    axes.set(xlim=(1e3 * start_s, 1e3 * stop_s), ylim=(len(rows) - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), [f"GPU {device}, stream {one}" for device, one in rows])
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(named.values(), named.keys(), loc="upper left", bbox_to_anchor=(1.01, 1.0))


def page(profile: KernelProfile, source: Path, start_s: float, stop_s: float) -> str:
    """Return the page of a trace; the chart shows the part from ``start_s`` to ``stop_s``."""
    return render(
        "attributed/kernels.html.j2",
        title=f"{source.name}: kernels",
        answer=answer(profile),
        gantt=themed_svg(gantt_figure(profile, start_s, stop_s), "g-"),
        devices=device_table(profile.devices),
        tiers=tier_table(profile.kernels),
        kernels=kernel_table(profile.kernels),
        num_kernels=len(profile.kernels),
    )


def lines(profile: KernelProfile) -> Iterable[str | Table]:
    """Yield sentences and tables that tell a trace."""
    yield answer(profile)
    yield device_table(profile.devices)
    yield tier_table(profile.kernels)
    yield short_table(profile.kernels)
