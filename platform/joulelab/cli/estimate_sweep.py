"""``joulelab estimate-sweep``: the best predicted clock."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from joulelab.analysis.estimates.export import SUFFIXES
from joulelab.analysis.estimates.wording import asked, differing, value_of
from joulelab.analysis.page import Output
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import BEST, EQUAL, Frame, check_target, numbers, quiet_table, words
from joulelab.cli.estimate import Asking, in_bold
from joulelab.cli.terminal import progress
from joulelab.cli.words import Ceilings, check_limits, over
from joulelab.cli.words import numbers as whole_numbers
from joulelab.core.bounds import MOST_MHZ, check_range
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import Curve, sweep
from joulelab.objectives import OBJECTIVES, without_quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Asking):
    """Predict over core clocks, and say which clock has the lowest EDP; nothing is run.

    `experiments/dvfs_sweep.py` measures the same.
    """

    out: Path | None = None  # Write a file as well: .json, .csv, .md or .html.
    objective: str = "edp"  # What is to be low: edp, ed2p, energy, time, or that of a plug-in.
    # Core clocks: 600,1200 or 600:1980:15 for first, last and step. By default the whole range of
    # each device.
    clock_mhz: Annotated[str | None, tyro.conf.arg(metavar="MHZ[,MHZ...]")] = None
    mode: Mode = "eager"  # How kernels are launched.
    power_limit_w: float | None = None  # Power limit of each device; by default its own.
    max_latency_s: float | None = None  # Longest time of one execution of a phase.
    max_energy_j: float | None = None  # Most energy of one execution of a phase.
    max_power_w: float | None = None  # Most mean power of all devices together.

    def run(self) -> int:
        """Predict, print and write; 1 if no clock of any combination keeps to the limits."""
        limits = {
            "latency": self.max_latency_s,
            "energy": self.max_energy_j,
            "power": self.max_power_w,
        }
        check_limits(limits)
        check_target(self.out, *SUFFIXES)
        without_quality(self.objective)
        question = self.question(
            mode=self.mode, point=OperatingPoint(power_limit_w=self.power_limit_w)
        )
        clocks = () if self.clock_mhz is None else clock_list(self.clock_mhz)
        with progress() as report:
            every = [within(e, limits) for e in sweep(question, clocks_mhz=clocks, progress=report)]
        for curve in every:
            if not any(curve.keeps):
                print(f"{_named(curve, every)}: no clock keeps to the limits.", file=sys.stderr)
        curves, aim = [curve for curve in every if any(curve.keeps)], self.objective
        if not curves:
            return 1
        answer = Output(
            content={"curves": [_curve_fields(curve, aim) for curve in curves]},
            frame=Frame.of([row for curve in curves for row in _curve_rows(curve, aim)]),
            sentences=[sweep_sentence(curves, aim)],
            tables=[optima_table(curves, aim), around_table(best_curve(curves, aim), aim)],
        )
        self.give(answer, [*in_bold(answer.sentences), *answer.tables], self.out)
        return 0


def clock_list(words: str) -> tuple[int, ...]:
    """Read ``"600,1200"`` or ``"600:1980:15"``; ConfigError if it is neither."""
    if ":" not in words:
        return whole_numbers(words, "clock-mhz")
    parts = whole_numbers(words.replace(":", ","), "clock-mhz")
    if len(parts) != 3 or parts[2] < 1 or parts[0] > parts[1]:
        raise ConfigError(f"--clock-mhz takes first:last:step, ascending, got {words!r}.")
    for part in parts:
        check_range("--clock-mhz", part, 1, MOST_MHZ)
    return tuple(range(parts[0], parts[1] + 1, parts[2]))


def within(curve: Curve, limits: Ceilings) -> Curve:
    """Return a curve whose best clock is looked for among those that keep to ``limits``."""
    pairs = zip(curve.latency_s, curve.energy_j, strict=True)
    figures = ({"latency": s, "energy": j, "power": j / s} for s, j in pairs)
    return replace(curve, keeps=tuple(not over(each, limits) for each in figures))


def _named(curve: Curve, others: Sequence[Curve]) -> str:
    named = (value_of(curve, name) for name in differing(others, always="batch"))
    return f"{', '.join(named)}, {curve.phase}"


def _curve_fields(curve: Curve, objective: str) -> dict[str, object]:
    content = {**asdict(curve), "device": curve.processor.key}
    del content["processor"]
    return {**content, "best_mhz": curve.clocks_mhz[curve.best(objective)]}


def _curve_rows(curve: Curve, objective: str) -> Iterator[Mapping[str, object]]:
    best, costs = curve.best(objective), curve.costs(objective)
    for place, clock_mhz in enumerate(curve.clocks_mhz):
        yield {
            **asked(curve),
            "phase": curve.phase,
            "work": curve.work,
            "unit": curve.unit,
            "clock_mhz": clock_mhz,
            "latency_s": curve.latency_s[place],
            "energy_j": curve.energy_j[place],
            "power_w": curve.energy_j[place] / curve.latency_s[place],
            "cost_over_best": costs[place] / costs[best],
            "is_default": int(place == curve.default),
            "is_best": int(place == best),
            "keeps": int(curve.keeps[place]),
        }


_STEPS = 4


def sweep_sentence(curves: Sequence[Curve], objective: str) -> str:
    """Say which combination has the lowest objective per unit of work, and what it saves."""
    best = best_curve(curves, objective)
    place = best.best(objective)
    aim = OBJECTIVES[objective].label
    phase = f" of {best.phase}" if len({each.phase for each in curves}) > 1 else ""
    sentence = (
        f"Lowest predicted {aim} per {best.unit}{phase}: {best.precision}, "
        f"batch {best.batch}, {best.clocks_mhz[place]} MHz on {best.processor.product_name}, "
        f"{brief(best.energy_j[place] / best.work, f'J/{best.unit}')} in "
        f"{brief(best.latency_s[place] / best.work, f's/{best.unit}')}"
    )
    return f"{sentence}; {_change(best, place)}{_flat(best, objective)}."


def best_curve(curves: Sequence[Curve], objective: str) -> Curve:
    """Return the curve with the lowest objective per unit of work, of the last phase."""
    last = [curve for curve in curves if curve.phase == curves[-1].phase]
    return min(last, key=lambda curve: cost_per_work(curve, curve.best(objective), objective))


def cost_per_work(curve: Curve, place: int, objective: str) -> float:
    """Return the objective at one clock, of energy and time per unit of work."""
    aim = OBJECTIVES[objective]
    degree = aim.energy_exponent + aim.time_exponent
    return float(curve.costs(objective)[place] / curve.work**degree)


def optima_table(curves: Sequence[Curve], objective: str) -> Table:
    """Lay out the best clock of each precision, batch size and phase."""
    aim = OBJECTIVES[objective].label
    several = len({curve.phase for curve in curves}) > 1
    named = [*differing(curves, always="batch"), *["phase"] * several]
    heads = ("best\nMHz", "within 1 %\nMHz", "energy", "time", "saved", "longer", "power\nW")
    table = quiet_table(*words(*named), *numbers(*heads), title=f"Clock of lowest {aim}")
    winner = best_curve(curves, objective)
    for curve in curves:
        best, near = curve.best(objective), curve.near_best(objective)
        first, last = (curve.clocks_mhz[place] for place in near)
        table.add_row(
            *(value_of(curve, name) for name in named),
            f"{curve.clocks_mhz[best]}",
            f"{first} to {last}",
            *_costs(curve, best),
            style=BEST if curve is winner else "",
        )
    return table


def around_table(curve: Curve, objective: str) -> Table:
    """Lay out the clocks around the best of one curve, with the default and both ends."""
    aim = OBJECTIVES[objective].label
    heads = ("clock\nMHz", "power\nW", "energy", "time", f"{aim}\nover best", "saved", "longer")
    table = quiet_table(
        *words(""),
        *numbers(*heads),
        title=f"Around it: {curve.precision}, batch {curve.batch}, {curve.phase}",
        caption=f"* lowest {aim}   = within 1 % of it, less than an estimate resolves"
        + ("" if all(curve.keeps) else "   ! breaks a limit"),
    )
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    costs = curve.costs(objective)
    for place in shown(curve, objective):
        usual = " " if curve.keeps[place] else "!"
        mark = "*" if place == best else "=" if first <= place <= last else usual
        clock = f"{'default ' * (place == curve.default)}{curve.clocks_mhz[place]}"
        energy, time, saved, longer, power = _costs(curve, place)
        ratio = f"{costs[place] / costs[best]:.3f}"
        style = {"*": BEST, "=": EQUAL}.get(mark, "")
        table.add_row(mark, clock, power, energy, time, ratio, saved, longer, style=style)
    return table


def shown(curve: Curve, objective: str) -> list[int]:
    """Return the places that tell the story: ends, default, and even steps around the best."""
    best, (first, last) = curve.best(objective), curve.near_best(objective)
    end = len(curve.clocks_mhz) - 1
    reach = max(last - first, _STEPS)
    steps = [best + round(reach * i / _STEPS) for i in range(-_STEPS, _STEPS + 1)]
    return sorted({0, end, curve.default, first, last, *(s for s in steps if 0 <= s <= end)})


def _costs(curve: Curve, place: int) -> list[str]:
    """Write energy, time, energy saved, time added and power at one clock."""
    saved, longer = changes(curve, place)
    return [
        brief(curve.energy_j[place] / curve.work, f"J/{curve.unit}"),
        brief(curve.latency_s[place] / curve.work, f"s/{curve.unit}"),
        f"{saved:+.1%}",
        f"{longer:+.1%}",
        f"{curve.energy_j[place] / curve.latency_s[place]:.0f}",
    ]


def changes(curve: Curve, place: int) -> tuple[float, float]:
    """Return energy saved and time added against the default clock, as shares."""
    saved = 1 - curve.energy_j[place] / curve.energy_j[curve.default]
    return saved, curve.latency_s[place] / curve.latency_s[curve.default] - 1


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
