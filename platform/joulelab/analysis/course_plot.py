"""What a GPU did over time in single trials: power, clock, temperature, and how busy it was."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.style import BEST, CAPPED, CURVE, EQUAL, INK, MUTED, in_style, tidy
from joulelab.core.measurement import Measurement
from joulelab.core.trace import PowerTrace
from joulelab.errors import TrackingError
from joulelab.tracking.traces import Series, read_series

_log = logging.getLogger(__name__)

_COLORS = (CURVE, BEST, EQUAL, CAPPED)
_NAMES = {
    "power_w": "board",
    "memory_power_w": "memory",
    "sm_clock_mhz": "SM",
    "temperature_c": "GPU",
    "memory_temperature_c": "memory",
    "gpu_utilization": "a kernel runs",
    "sm_active": "SMs",
    "tensor_active": "tensor cores",
    "dram_active": "memory",
}
_PANELS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Power", "W", ("power_w", "memory_power_w")),
    ("Clock", "MHz", ("sm_clock_mhz",)),
    ("Temperature", "\N{DEGREE SIGN}C", ("temperature_c", "memory_temperature_c")),
    ("Busy", "% of the time", ("gpu_utilization", "sm_active", "tensor_active", "dram_active")),
)
_SHARES = _PANELS[-1][-1]


TrialCourse = tuple[str, Mapping[str, Series]]
"""Name of a trial, and what was read of it over time, by the name of its column."""


def courses_figure(wanted: Sequence[tuple[str, Measurement]], traces: Path | None) -> Figure | None:
    """Draw trials over time for a page; ``None`` where nothing of them was kept."""
    courses = [] if traces is None else _read(wanted, traces)
    return course_figure(courses) if courses else None


@in_style
def course_figure(courses: Sequence[TrialCourse]) -> Figure:
    """Draw trials, at least one, each a row of panels whose scales all rows share."""
    read = {name for _, series in courses for name in series}
    panels = [panel for panel in _PANELS if read.intersection(panel[2])]
    height_in = 1.0 + 1.6 * len(courses)
    figure = Figure(figsize=(11, height_in))
    figure.subplots_adjust(
        left=0.065, right=0.99, top=1 - 0.45 / height_in, bottom=0.75 / height_in,
        wspace=0.18, hspace=0.25,
    )  # fmt: skip
    grid = figure.subplots(len(courses), len(panels), sharex="row", sharey="col", squeeze=False)
    for row, (trial, course) in zip(grid, courses, strict=True):
        for axes, (_, _, names) in zip(row, panels, strict=True):
            tidy(axes, "", "", "")
            _draw(axes, course, names)
        row[0].set_ylabel(trial, color=INK, fontsize=9, fontweight="bold")
    for column, (title, unit, names) in zip(grid.T, panels, strict=True):
        first, last = column[0], column[-1]
        tidy(first, title, unit, first.get_xlabel())
        _scale(first, names)
        last.set_xlabel("s", fontsize=8.5)
        lines = {str(line.get_label()): line for axes in column for line in axes.lines}
        last.legend(
            lines.values(), lines.keys(), loc="upper left", bbox_to_anchor=(0, -0.28), ncols=2,
            fontsize=7.5, labelcolor=MUTED, handlelength=1.2, borderpad=0,
        )  # fmt: skip
    return figure


def _draw(axes: Axes, course: Mapping[str, Series], names: Sequence[str]) -> None:
    start_s = min(series.t_s[0] for series in course.values())
    known = [name for name in names if name in course]
    for color, name in zip(_COLORS, known, strict=False):
        series = course[name]
        scale = 100 if name in _SHARES else 1
        axes.plot(
            series.t_s - start_s, scale * series.values, color=color, linewidth=1.1,
            marker="o" if len(series.t_s) < 12 else None, markersize=2.2, label=_NAMES[name],
        )  # fmt: skip


def _scale(axes: Axes, names: Sequence[str]) -> None:
    """Begin the scale at zero, but that of temperatures, which has ten degrees at least."""
    low, high = axes.get_ylim()
    if "temperature_c" in names:
        room_c = max(0.0, 10 - (high - low)) / 2
        axes.set_ylim(low - room_c, high + room_c)
    else:
        axes.set_ylim(0, 105 if names is _SHARES else 1.05 * high)


def _read(wanted: Sequence[tuple[str, Measurement]], traces: Path) -> list[TrialCourse]:
    found = []
    for name, measurement in wanted:
        path = traces / f"{measurement.measurement_id}.parquet"
        if path.exists():
            try:
                found.append((name, read_series(path)))
            except TrackingError as error:
                _log.warning("A trial is not drawn over time: %s", error)
    return found


@in_style
def trace_figure(traces: Mapping[str, PowerTrace], *, title: str) -> Figure:
    """Draw power over time, one panel for each trace, by the name of what was measured."""
    figure = Figure(figsize=(9, 1.2 + 2.4 * len(traces)), layout="constrained")
    panels = figure.subplots(len(traces), 1, squeeze=False)[:, 0]
    for axes, (name, trace) in zip(panels, traces.items(), strict=True):
        axes.plot(trace.t_s - trace.t_s[0], trace.power_w, linewidth=1)
        axes.set(title=f"{name}: power in W", xlabel="s", ylim=(0, None))
    figure.suptitle(title)
    return figure
