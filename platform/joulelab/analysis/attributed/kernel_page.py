"""Kernels of a trace as a chart of streams over time, and as a page."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.attributed.kernels import (
    KernelProfile,
    answer,
    device_table,
    kernel_table,
    tier_table,
)
from joulelab.analysis.page import render
from joulelab.analysis.style import CAPPED, CURVE, in_style, themed_svg, tidy
from joulelab.attribution.kineto import Launches
from joulelab.attribution.launch_summary import TIERS, tier_of

_BINS = 400
_COLOURS: dict[str, str] = dict(
    zip(
        TIERS,
        ("#d55e00", "#9aa3ad", "#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#332288"),
        strict=True,
    )
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
