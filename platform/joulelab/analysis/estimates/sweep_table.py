"""Predicted optimum over clocks, precisions and batch sizes, in words and tables."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from joulelab.analysis.quantities import quantity
from joulelab.analysis.wording import OBJECTIVE_NAMES
from joulelab.estimator.clock_sweep import Curve

_STEPS = 4


def sweep_sentence(curves: Sequence[Curve], objective: str) -> str:
    """Say which combination has the lowest objective per unit of work, and what it saves."""
    best = best_curve(curves, objective)
    place = best.best(objective)
    aim = OBJECTIVE_NAMES[objective]
    said = (
        f"Lowest predicted {aim} per {best.unit}{_of_phase(best, curves)}: {best.precision}, "
        f"batch {best.batch}, {best.clocks_mhz[place]} MHz on {best.processor.product_name}, "
        f"{quantity(best.energy_j[place] / best.work, f'J/{best.unit}', digits=3)} in "
        f"{quantity(best.latency_s[place] / best.work, f's/{best.unit}', digits=3)}"
    )
    return f"{said}; {_change(best, place)}{_flat(best, objective)}."


def best_curve(curves: Sequence[Curve], objective: str) -> Curve:
    """Return the curve with the lowest objective per unit of work, of the last phase."""
    last = [curve for curve in curves if curve.phase == curves[-1].phase]
    return min(last, key=lambda curve: cost_per_work(curve, curve.best(objective), objective))


def cost_per_work(curve: Curve, place: int, objective: str) -> float:
    """Return the objective at one clock, of energy and time per unit of work."""
    degree = 1 if objective in ("energy", "time") else 2 if objective == "edp" else 3
    return curve.costs(objective)[place] / curve.work**degree


def optima_table(curves: Sequence[Curve], objective: str) -> Table:
    """Lay out the best clock of each precision, batch size and phase."""
    aim = OBJECTIVE_NAMES[objective]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title, table.title_justify = f"Clock of lowest {aim}", "left"
    named = [n for n in _NAMES if n == "batch" or len({_named(c, n) for c in curves}) > 1]
    for name in named:
        table.add_column(name, no_wrap=True)
    for head in ("best\nMHz", "within 1 %\nMHz", "energy", "time", "saved", "longer", "power\nW"):
        table.add_column(head, justify="right", no_wrap=True)
    winner = best_curve(curves, objective)
    for curve in curves:
        cells = [_named(curve, name) for name in named]
        style = "bold green" if curve is winner else ""
        table.add_row(*cells, *_optimum(curve, objective), style=style)
    return table


def around_table(curve: Curve, objective: str) -> Table:
    """Lay out the clocks around the best of one curve, with the default and both ends."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title = f"Around it: {curve.precision}, batch {curve.batch}, {curve.phase}"
    table.title_justify = "left"
    table.add_column("", no_wrap=True)
    aim = OBJECTIVE_NAMES[objective]
    for head in (
        "clock\nMHz",
        "power\nW",
        "energy",
        "time",
        f"{aim}\nover best",
        "saved",
        "longer",
    ):
        table.add_column(head, justify="right", no_wrap=True)
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    for place in shown(curve, objective):
        mark = "*" if place == best else "=" if first <= place <= last else " "
        style = "bold green" if place == best else "green" if mark == "=" else ""
        table.add_row(mark, *_point(curve, place, objective), style=style)
    table.caption_justify = "left"
    table.caption = f"* lowest {aim}   = within 1 % of it, less than an estimate can tell apart"
    return table


def shown(curve: Curve, objective: str) -> list[int]:
    """Return the places that tell the story: ends, default, and even steps around the best."""
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    end = len(curve.clocks_mhz) - 1
    reach = max(last - first, _STEPS)
    steps = [best + round(reach * i / _STEPS) for i in range(-_STEPS, _STEPS + 1)]
    return sorted({0, end, curve.default, first, last, *(s for s in steps if 0 <= s <= end)})


_NAMES = ("model", "device", "precision", "batch", "phase")


def _named(curve: Curve, name: str) -> str:
    return curve.processor.key if name == "device" else str(getattr(curve, name))


def _optimum(curve: Curve, objective: str) -> list[str]:
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    clocks = curve.clocks_mhz
    near = f"{clocks[first]} to {clocks[last]}"
    return [
        str(clocks[best]),
        near,
        *_figures(curve, best),
        *_shares(curve, best),
        _power(curve, best),
    ]


def _point(curve: Curve, place: int, objective: str) -> list[str]:
    costs = curve.costs(objective)
    clock = f"{curve.clocks_mhz[place]}"
    return [
        f"default {clock}" if place == curve.default else clock,
        _power(curve, place),
        *_figures(curve, place),
        f"{costs[place] / min(costs):.3f}",
        *_shares(curve, place),
    ]


def _figures(curve: Curve, place: int) -> list[str]:
    return [
        quantity(curve.energy_j[place] / curve.work, f"J/{curve.unit}", digits=3),
        quantity(curve.latency_s[place] / curve.work, f"s/{curve.unit}", digits=3),
    ]


def _shares(curve: Curve, place: int) -> list[str]:
    """Return the energy saved and the time added against the default clock."""
    saved, longer = changes(curve, place)
    return [f"{saved:+.1%}", f"{longer:+.1%}"]


def changes(curve: Curve, place: int) -> tuple[float, float]:
    """Return energy saved and time added against the default clock, as shares."""
    saved = 1 - curve.energy_j[place] / curve.energy_j[curve.default]
    return saved, curve.latency_s[place] / curve.latency_s[curve.default] - 1


def _power(curve: Curve, place: int) -> str:
    return f"{curve.energy_j[place] / curve.latency_s[place]:.0f}"


def _change(curve: Curve, place: int) -> str:
    if place == curve.default:
        return "the default clock is best"
    saved, longer = changes(curve, place)
    return f"{saved:.1%} less energy and {longer:+.1%} time against the default clock"


def _flat(curve: Curve, objective: str) -> str:
    first, last = curve.near_best(objective)
    if first == last:
        return ""
    return f"; from {curve.clocks_mhz[first]} to {curve.clocks_mhz[last]} MHz it is within 1 %"


def _of_phase(curve: Curve, curves: Sequence[Curve]) -> str:
    return f" of {curve.phase}" if len({each.phase for each in curves}) > 1 else ""
