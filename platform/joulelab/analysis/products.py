"""Products beside each other: what work costs on each at its own clocks, and on which it is least.

Operating points are compared within a product, by ratios. Between products there are only absolute
figures, which carry the class of the sensors of each.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf

from rich.table import Table

from joulelab.analysis.listing import Closing, scaled
from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.quantities import PLUS_MINUS, point_name, uncertain
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow, Values, cost_of
from joulelab.analysis.table import (
    BEST,
    EQUAL,
    NONE,
    Columns,
    Frame,
    frame,
    interval_columns,
    numbers,
    quiet_table,
    words,
)
from joulelab.analysis.wording import boards_counted, clock_words, set_apart
from joulelab.core.additive import Interval
from joulelab.core.device import board_words
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.statistics import student_quantile
from joulelab.objectives import EDP, ENERGY, OBJECTIVES, TIME

PRODUCTS = "products.csv"
_SOURCES = {"counter": "the energy counter", "samples": "power samples", "": "nothing valid"}
_COLUMNS: Columns = {
    "workload": "phase.workload",
    "phase": "phase.phase",
    "knobs": "phase.knobs",
    "device": "phase.device_name",
    "is_best": "at.is_best",
    "may_be_least": "may_be_least",
    **{f"{name}_clock_mhz": f"at.row.point.{name}_clock_mhz" for name in ("sm", "mem")},
    "observed_sm_clock_mhz": "at.row.observed_clock_mhz",
    **interval_columns("energy_per_unit_j", "energy"),
    **interval_columns("time_per_unit_s", "time"),
    **interval_columns("edp_js", "edp"),
    **interval_columns("cost", "cost"),
    "power_limit_w": "limits_w",
    "num_boards": "num_boards",
    **{name: f"phase.{name}" for name in ("source", "unit", "objective", "level")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """A product at one of its operating points."""

    phase: PhaseResult
    row: SweepRow | None  # None where none of the product's may be chosen
    is_best: bool  # whether it is the product's best point; else it is the driver's default

    def interval(self, values: Values) -> Interval | None:
        """Return a quantity with its interval at the level of the study; ``None`` without figures.

        It holds the scatter of repeats and what the readings explain, on the boards that were
        measured, and not the class of their sensors.
        """
        if self.row is None or self.row.figures is None:
            return None
        value, u = values(self.row.figures)
        half = student_quantile((1 + self.phase.level) / 2, self.phase.dof or inf) * u
        return Interval(value=value, low=value - half, high=value + half)

    @property
    def energy_j(self) -> Interval | None:
        """Energy per unit, likewise."""
        return self.interval(cost_of(ENERGY, self.phase.unit)[2])

    @property
    def words(self) -> str:
        """Product and point, ``"NVIDIA H200 at 1095 MHz"``."""
        point = "no point" if self.row is None else point_name(self.row.point)
        return f"{board_words(self.phase.boards[0])} at {point}"


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One phase of one workload on several products, of each what was found."""

    phases: tuple[PhaseResult, ...]

    @cached_property
    def points(self) -> tuple[Operated, ...]:
        """Each product at the driver's default, and at its best point where that is another."""
        found = []
        for phase in self.phases:
            best = phase.best or phase.least
            if best is None or not best.point.is_default:
                found.append(Operated(phase=phase, row=phase.default, is_best=False))
            found.append(Operated(phase=phase, row=best, is_best=True))
        return tuple(found)

    @property
    def costs(self) -> list[tuple[str, str, Values]]:
        """Energy, time, EDP and the objective, as :func:`cost_of` has them."""
        first = self.phases[0]
        aims = dict.fromkeys((ENERGY, TIME, EDP, OBJECTIVES[first.objective]))
        return [cost_of(aim, first.unit) for aim in aims]

    @cached_property
    def least(self) -> tuple[Operated, ...]:
        """The products that may take the least energy per unit, each at its best; lowest first.

        One is left out where it takes more even if the sensors of both err by their whole class.
        """
        most_j = min((found.high for _, found in self.best), default=0.0) * (1 + SENSOR_CLASS)
        return tuple(each for each, found in self.best if found.low * (1 - SENSOR_CLASS) <= most_j)

    @cached_property
    def best(self) -> tuple[tuple[Operated, Interval], ...]:
        """The products at their best, with their energy where it is known; lowest first."""
        found = [(each, e) for each in self.points if each.is_best and (e := each.energy_j)]
        return tuple(sorted(found, key=lambda pair: pair[1].value))


def side_by_side(result: SweepResult) -> tuple[SideBySide, ...]:
    """Put what several products were measured at beside each other; nothing for one product."""
    groups = grouped_by(result.phases, lambda each: (each.workload, each.knobs, each.phase))
    return tuple(SideBySide(phases=tuple(group)) for group in groups.values() if len(group) > 1)


def power_limits_w(phase: PhaseResult, measurements: Sequence[Measurement]) -> list[float | None]:
    """Return the board power limits that were in force where none was set; ``None`` if unread."""
    boards = {board.uuid for board in phase.boards}
    seen = {
        m.observed.power_limit_w
        for m in measurements
        if m.windows and m.device.uuid in boards and m.configuration.point.power_limit_w is None
    }
    return sorted(seen, key=lambda limit_w: limit_w or 0.0)


def closings(
    groups: Sequence[SideBySide], measurements: Sequence[Measurement]
) -> tuple[Closing, ...]:
    """Return what a report ends with: a table for each phase of each workload."""
    return tuple(
        Closing(
            name=f"{name}: products side by side",
            answer=products_sentence(each),
            lay=partial(products_table, each, measurements),
            notes=tuple(products_notes(each, measurements)),
            minor=(EDP.label, TIME.label),
        )
        for name, each in zip(_names(groups), groups, strict=True)
    )


def products_sentences(groups: Sequence[SideBySide]) -> list[str]:
    """Say for each phase of each workload which product takes the least energy, a line each."""
    found = zip(_names(groups), map(products_sentence, groups), strict=True)
    return [f"{name}: {stated}" for name, stated in found]


def products_sentence(group: SideBySide) -> str:
    """Say which product takes the least energy per unit, each at its own best point."""
    if not group.least:
        return "No product has a point to compare."
    phase, ((_, least), *_) = group.phases[0], group.best
    unit = f"J/{phase.unit}"
    first, *others = (
        f"{each.words}, {uncertain(energy.value, energy.half_width, unit)}"
        for each, energy in group.best
        if each in group.least
    )
    stated = f"The least energy per {phase.unit} is that of {first} ({phase.level:.0%} interval)"
    if others:
        near = " and ".join(others)
        return (
            f"{stated}, but that of {near} is indistinguishable from it: with the class of the "
            f"boards' sensors (some {SENSOR_CLASS:.0%} each) their intervals overlap."
        )
    ratios = [
        f"{each.words} takes {energy.value / least.value:.2f} times as much"
        for each in group.points
        if each.is_best and each not in group.least and (energy := each.energy_j)
    ]
    return f"{'; '.join([stated, *ratios])}."


def products_table(
    group: SideBySide, measurements: Sequence[Measurement], without: Collection[str] = ()
) -> Table:
    """Lay out each product at the driver's clock and at its own best one, but some columns."""
    columns = []
    for name, unit, values in (cost for cost in group.costs if cost[0] not in without):
        known = {each: each.interval(values) for each in group.points}
        pairs = {each: (i.value, i.half_width) for each, i in known.items() if i is not None}
        columns.append(scaled(name, unit, pairs.get, list(pairs.values())))
    heads = [f"{each.name}\n{each.unit}" for each in columns]
    table = quiet_table(
        *words("", "product"), *numbers("clock\nMHz", *heads, "limit\nW"), padding=(0, 0)
    )
    for each in group.points:
        cells = [column.cell(each) for column in columns]
        if each.energy_j is None:
            reasons = ("none to choose",) if each.row is None else each.row.reasons
            cells[0] = next(iter(reasons), "not compared")
        limits = _limit_words(power_limits_w(each.phase, measurements), unit="")
        mark, style = _mark(group, each) if each.energy_j else (" ", NONE)
        product = each.phase.device_name.removeprefix("NVIDIA ")
        clock = "" if each.row is None else clock_words(each.row)
        table.add_row(mark, product, clock, *cells, limits, style=style)
    return table


def products_notes(group: SideBySide, measurements: Sequence[Measurement]) -> list[str]:
    """Say what the marks mean, and what stands between the products besides their clocks."""
    first = group.phases[0]
    return [
        "of each product the driver's default clock, then its own best by "
        f"{OBJECTIVES[first.objective].label}, where that is another",
        f"* least energy per {first.unit} at best   = indistinguishable from it",
        f"{PLUS_MINUS} {first.level:.0%} interval of repeats and readings on the boards that were "
        f"measured. Between products the class of the boards' power sensors (some "
        f"{SENSOR_CLASS:.0%} each) comes on top, which * allows for; so does how boards of a "
        "product differ, which it does not.",
        *_differences(
            group,
            "Board power limits differ",
            lambda phase: _limit_words(power_limits_w(phase, measurements)),
        ),
        *_differences(group, "Energy is not measured alike", _method),
    ]


def products_frame(groups: Sequence[SideBySide], measurements: Sequence[Measurement]) -> Frame:
    """List every product at both of its points."""
    entries = [
        {
            "phase": each.phase,
            "at": each,
            "may_be_least": each in group.least,
            "energy": each.energy_j,
            "time": each.interval(cost_of(TIME, each.phase.unit)[2]),
            "edp": each.interval(cost_of(EDP, each.phase.unit)[2]),
            "cost": each.interval(cost_of(OBJECTIVES[each.phase.objective], each.phase.unit)[2]),
            "limits_w": tuple(w for w in power_limits_w(each.phase, measurements) if w),
            "num_boards": len(each.phase.boards),
        }
        for group in groups
        for each in group.points
    ]
    return frame(_COLUMNS, entries)


def _names(groups: Sequence[SideBySide]) -> tuple[str, ...]:
    firsts = [group.phases[0] for group in groups]
    return set_apart([each.title for each in firsts], firsts)


def _mark(group: SideBySide, each: Operated) -> tuple[str, str]:
    if not each.is_best or each not in group.least:
        return " ", ""
    return ("*", BEST) if each is group.least[0] else ("=", EQUAL)


def _limit_words(limits_w: Sequence[float | None], *, unit: str = " W") -> str:
    known = [f"{limit_w:.0f}{unit}" for limit_w in limits_w if limit_w is not None]
    return " and ".join(known) if len(known) == len(limits_w) > 0 else "unread"


def _method(phase: PhaseResult) -> str:
    backends = " and ".join(sorted({board.backend for board in phase.boards}))
    drivers = " and ".join(sorted({board.driver_version for board in phase.boards}))
    return f"{_SOURCES[phase.source]}, read by {backends}, driver {drivers}"


def _differences(group: SideBySide, what: str, words_of: Callable[[PhaseResult], str]) -> list[str]:
    """Say how products differ in something; nothing if they do not."""
    if len(set(map(words_of, group.phases))) == 1:
        return []
    each = (f"{boards_counted(phase.boards)}: {words_of(phase)}" for phase in group.phases)
    return [f"{what}: {'; '.join(each)}."]
