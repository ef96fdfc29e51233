"""Figures over many studies: what policies cost, and boards beside each other."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from joulelab.analysis.fleet import Aspect, Fleet, short
from joulelab.analysis.policy import Application, Policy, point_words
from joulelab.analysis.style import BEST, CURVE, GRID, INK, MUTED, in_style, note, save_figure, tidy
from joulelab.analysis.wording import boards_counted
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError

Array = NDArray[np.float64]
Curve = tuple[Array, Array]

_HIGHEST = 60.0
"""Percent above the least cost up to which curves are drawn; the slowest clocks are beyond."""
_NAMED = 8
"""Curves of applications that are named at their ends; of several each, only the means are."""
_DASHES = (0, (4, 2))
_WIDE, _HIGH, _ROW = 2.4, 1.3, 0.24
"""Inches of a panel, of what is above and below its rows, and of a row."""
KNOBS = {
    "sm_clock_mhz": "SM clock, MHz",
    "power_limit_w": "power limit, W",
    "mem_clock_mhz": "memory clock, MHz",
}
"""Knobs that the axis may have, the first choice first, and how it calls them."""


@in_style
def save_policy_plot(
    applications: Sequence[Application], policy: Policy, path: Path, *, aim: str
) -> Path:
    """Draw the applications' curves and the points of ``policy`` into ``path``; returns it.

    Curves go along the SM clock, or along the power limit or the memory clock where no other knob
    has several values. There is one curve for each setting of the others.
    """
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    _draw(figure.add_subplot(), applications, policy, aim)
    save_figure(figure, path)
    return path


def _draw(axes: Axes, applications: Sequence[Application], policy: Policy, aim: str) -> None:
    losses = {each.name: _losses(each) for each in applications}
    knob = knob_of({point for each in applications for point in each.points.values()})
    curves = {name: _curves(known, knob) for name, known in losses.items()}
    tidy(axes, f"{aim} above each application's least", "%", KNOBS[knob])
    every = [curve for own in curves.values() for curve in own.values()]
    top = min(_HIGHEST, 1.1 * max(float(above.max()) for _, above in every))
    axes.set_ylim(-0.03 * top, top)
    for name, own in curves.items():
        for rest, curve in own.items():
            axes.plot(*curve, color=CURVE, alpha=0.45, linewidth=1.1)
            if len(every) == len(curves) <= _NAMED:
                _name_end(axes, _name(name, rest), curve, MUTED)
    for rest in curves[applications[0].name]:
        if all(rest in own for own in curves.values()):
            mean = _mean([own[rest] for own in curves.values()])
            axes.plot(*mean, color=INK, linewidth=2.2)
            _name_end(axes, _name("mean of all", rest), mean, INK)
    for point in policy.points:
        _draw_point(axes, point, knob, [known[point] for known in losses.values()])


def knob_of(points: Collection[OperatingPoint]) -> str:
    """Return the first knob that has several values among ``points``, else that has one.

    Raises ConfigError if no point sets a knob.
    """
    values = {knob: {getattr(point, knob) for point in points} - {None} for knob in KNOBS}
    for num in (2, 1):
        for knob, found in values.items():
            if len(found) >= num:
                return knob
    labels = ", ".join(point.label for point in points)
    raise ConfigError(f"No knob is set at {labels}, so that no axis can show them.")


def _draw_point(axes: Axes, point: OperatingPoint, knob: str, losses: Sequence[float]) -> None:
    """Mark a point by where it is; one that leaves the knob to the driver, by its mean loss."""
    value = getattr(point, knob)
    if value is None:
        mean = _mean_loss(losses)
        axes.axhline(mean, color=BEST, linewidth=1.4, linestyle=_DASHES)
        at = "axes fraction", "data"
        note(axes, point_words(point), (0, mean), (4, 2), color=BEST, va="bottom", xycoords=at)
        return
    axes.axvline(value, color=BEST, linewidth=1.4, linestyle=_DASHES)
    note(
        axes, point_words(point), (value, 1), (-2, -4), color=BEST, rotation=90, ha="right",
        va="top", xycoords=("data", "axes fraction"),
    )  # fmt: skip


def _mean(curves: Sequence[Curve]) -> Curve:
    rows = [dict(zip(at.tolist(), above.tolist(), strict=True)) for at, above in curves]
    shared = sorted(set.intersection(*map(set, rows)))
    return np.array(shared), np.array([_mean_loss([row[at] for row in rows]) for at in shared])


def _mean_loss(losses: Sequence[float]) -> float:
    return float(100 * np.expm1(np.mean(np.log1p(np.array(losses) / 100))))


def _losses(application: Application) -> dict[OperatingPoint, float]:
    """Return percent above the least cost of all points."""
    fit, points = application.fit, application.points
    logs = dict(zip(fit.configurations, fit.estimate.tolist(), strict=True))
    least = min(logs.values())
    return {points[label]: float(100 * np.expm1(log - least)) for label, log in logs.items()}


def _curves(losses: Mapping[OperatingPoint, float], knob: str) -> dict[OperatingPoint, Curve]:
    """Return percent by the knob's ascending values, for each setting of the others."""
    found: defaultdict[OperatingPoint, list[tuple[float, float]]] = defaultdict(list)
    for point, loss in losses.items():
        if (value := getattr(point, knob)) is not None:
            found[replace(point, **{knob: None})].append((value, loss))
    columns = {rest: np.array(sorted(pairs)) for rest, pairs in found.items()}
    return {rest: (pairs[:, 0], pairs[:, 1]) for rest, pairs in columns.items()}


def _name(name: str, rest: OperatingPoint) -> str:
    return name if rest.is_default else f"{name}, {point_words(rest)}"


def _name_end(axes: Axes, name: str, curve: Curve, color: str) -> None:
    """Write ``name`` where a curve ends, or where it leaves the picture."""
    values, above = curve
    shown = np.flatnonzero(above <= axes.get_ylim()[1])
    if not len(shown):
        return
    last = int(shown[-1])
    note(axes, name, (values[last], above[last]), (5, 0), size=8, color=color, va="center")


@in_style
def save_fleet_plot(fleet: Fleet, path: Path) -> Path:
    """Draw a panel for each aspect, a row for each board, into ``path``; returns it."""
    rows = {board.uuid: place for place, board in enumerate(reversed(fleet.boards))}
    size = (1.6 + _WIDE * len(fleet.aspects), _HIGH + _ROW * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(fleet.aspects), sharey=True, squeeze=False)[0]
    for axes, aspect in zip(panels, fleet.aspects, strict=True):
        _draw_aspect(axes, aspect, rows)
    panels[0].set_yticks(list(rows.values()), [_label(uuid, fleet) for uuid in rows])
    head = f"{boards_counted(fleet.boards)}: 95 % intervals; grey, how much boards differ (sd)"
    figure.suptitle(head, x=0.01, ha="left", fontsize=9, color=MUTED)
    save_figure(figure, path)
    return path


def _draw_aspect(axes: Axes, aspect: Aspect, rows: dict[str, int]) -> None:
    sd = 100 * aspect.spread.value
    tidy(axes, aspect.name, "% of the mean", "")
    axes.axvspan(-sd, sd, color=GRID, linewidth=0)
    axes.axvline(0.0, color=MUTED, linewidth=0.8)
    for each in aspect.boards:
        value, low, high = (
            100 * (r - 1) for r in (each.ratio.value, each.ratio.low, each.ratio.high)
        )
        axes.errorbar(
            value, rows[each.uuid], xerr=[[value - low], [high - value]], fmt="o", markersize=4,
            color=BEST if each.is_outlier else CURVE, elinewidth=0.9,
        )  # fmt: skip


def _label(uuid: str, fleet: Fleet) -> str:
    host = f", {fleet.hosts[uuid]}" if len(set(fleet.hosts.values())) > 1 else ""
    return short(uuid) + host
