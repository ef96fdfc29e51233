"""Predictions for one application as rows of a table."""

from collections.abc import Mapping, Sequence
from typing import get_args

from rich.markup import escape
from rich.table import Table

from joulelab.cli.estimator.terminal import terminal
from joulelab.power_models.interval import Interval
from joulelab.power_models.operating_model import OperatingModel, Quantity
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array

_SHOWN: tuple[Quantity, ...] = ("power_w", "time_s", "energy_j", "edp_js")


def predictions(model: OperatingModel, queries: Queries) -> dict[str, Array]:
    """Return clocks and every quantity, as columns."""
    columns = {"sm_clock_mhz": queries.sm_clock_mhz}
    return columns | {name: model.predict(queries, name) for name in get_args(Quantity)}


def intervals(model: OperatingModel, queries: Queries, level: float) -> dict[str, Interval]:
    """Return the interval of every quantity."""
    return {name: model.predict_interval(queries, name, level) for name in get_args(Quantity)}


def as_rows(columns: Mapping[str, Array], ends: Mapping[str, Interval]) -> list[dict[str, float]]:
    """Return one mapping per clock, with the ends of intervals as ``_lower`` and ``_upper``."""
    bounds = {f"{name}_lower": each.lower for name, each in ends.items()}
    bounds |= {f"{name}_upper": each.upper for name, each in ends.items()}
    whole = {**columns, **bounds}
    return [
        {name: float(values[row]) for name, values in whole.items()}
        for row in range(len(columns["sm_clock_mhz"]))
    ]


def show(
    title: str, columns: Mapping[str, Array], ends: Mapping[str, Interval], marks: Sequence[str]
) -> None:
    """Print a table with the half width of each interval; ``marks`` end each row."""
    table = Table("MHz", *_SHOWN, "", title=escape(title))
    for row, clock_mhz in enumerate(columns["sm_clock_mhz"]):
        cells = [
            f"{columns[name][row]:.4g}" + (_half(ends[name], row) if name in ends else "")
            for name in _SHOWN
        ]
        table.add_row(f"{clock_mhz:g}", *cells, marks[row])
    console = terminal()
    console.print(table)
    outside = dict.fromkeys(text for each in ends.values() for text in each.outside)
    for text in outside:
        said = escape(f"Outside the training domain, intervals widened: {text}")
        console.print(said, style="yellow")


def _half(interval: Interval, row: int) -> str:
    ratio = float((interval.upper[row] / interval.lower[row]) ** 0.5)
    return f" +-{100 * (ratio - 1):.0f} %"
