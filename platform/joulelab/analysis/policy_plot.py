"""What every application loses at every clock, and the clocks of a policy, as one picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from joulelab.analysis.policy import Application, Policy
from joulelab.analysis.style import BEST, CURVE, INK, MUTED, RC, tidy

Array = NDArray[np.float64]
Curve = tuple[Array, Array]

_HIGHEST = 60.0
"""Percent above the least cost up to which curves are drawn; the slowest clocks are beyond."""
_NAMED = 8
"""Curves that are named at their ends."""


def save_policy_plot(
    applications: Sequence[Application], policy: Policy, path: Path, *, aim: str
) -> Path:
    """Draw the applications' curves and the points of ``policy`` into ``path``; returns it.

    Args:
        applications: Those of the policy.
        policy: Of points that are SM clocks.
        path: A .png or .svg file.
        aim: Name of the cost.
    """
    with mpl.rc_context(RC):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        _draw(figure.add_subplot(), applications, policy, aim)
        figure.savefig(path, dpi=180)
    return path


def _draw(axes: Axes, applications: Sequence[Application], policy: Policy, aim: str) -> None:
    tidy(axes, f"{aim} above each application's least", "%", "SM clock, MHz")
    curves = {each.name: _curve(each) for each in applications}
    top = min(_HIGHEST, 1.1 * max(float(above.max()) for _, above in curves.values()))
    axes.set_ylim(-0.03 * top, top)
    for name, curve in curves.items():
        axes.plot(*curve, color=CURVE, alpha=0.45, linewidth=1.1)
        if len(curves) <= _NAMED:
            _name_end(axes, name, curve, MUTED)
    mean = _mean(list(curves.values()))
    axes.plot(*mean, color=INK, linewidth=2.2)
    _name_end(axes, "mean of all", mean, INK)
    for label in policy.points:
        _draw_point(axes, _clock_mhz(label))


def _draw_point(axes: Axes, clock_mhz: float) -> None:
    axes.axvline(clock_mhz, color=BEST, linewidth=1.4, linestyle=(0, (4, 2)))
    axes.annotate(
        f"{clock_mhz:g} MHz", (clock_mhz, 1), xycoords=("data", "axes fraction"), xytext=(-2, -4),
        textcoords="offset points", color=BEST, ha="right", va="top", rotation=90, fontsize=8.5,
    )  # fmt: skip


def _mean(curves: Sequence[Curve]) -> Curve:
    shared = sorted(set.intersection(*(set(clocks.tolist()) for clocks, _ in curves)))
    rows = [dict(zip(clocks.tolist(), above.tolist(), strict=True)) for clocks, above in curves]
    logs = [[np.log1p(row[clock] / 100) for clock in shared] for row in rows]
    return np.array(shared), 100 * np.expm1(np.mean(logs, axis=0))


def _curve(application: Application) -> Curve:
    """Return clocks in MHz, ascending, and percent above the least cost of any of them."""
    fit = application.fit
    found = sorted(
        (_clock_mhz(label), float(fit.estimate[i]))
        for i, label in enumerate(fit.configurations)
        if label != application.default
    )
    clocks, costs = np.array(found).T
    return clocks, 100 * np.expm1(costs - costs.min())


def _name_end(axes: Axes, name: str, curve: Curve, color: str) -> None:
    """Write ``name`` where a curve ends, or where it leaves the picture."""
    clocks, above = curve
    last = int(np.flatnonzero(above <= axes.get_ylim()[1])[-1])
    axes.annotate(
        name, (clocks[last], above[last]), xytext=(5, 0), textcoords="offset points", color=color,
        fontsize=8, va="center",
    )  # fmt: skip


def _clock_mhz(label: str) -> float:
    return float(label.removesuffix("MHz"))
