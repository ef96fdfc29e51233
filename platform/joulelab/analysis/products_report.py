"""Products beside each other as a table, in words, and as numbers in SI units."""

from collections.abc import Collection, Sequence
from functools import partial

from rich.table import Table

from joulelab.analysis.listing import Closing, Quantity
from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.products import Operated, SideBySide, power_limits_w
from joulelab.analysis.quantities import PLUS_MINUS, common_scale, uncertain
from joulelab.analysis.sweep import PhaseResult, Values, cost_of
from joulelab.analysis.table import (
    BEST,
    EQUAL,
    NONE,
    Columns,
    Frame,
    frame,
    interval_columns,
    numbers,
    plus_minus,
    quiet_table,
    words,
)
from joulelab.analysis.wording import board_words, boards_counted, point_name, set_apart
from joulelab.core.measurement import Measurement
from joulelab.objectives import EDP, ENERGY, OBJECTIVES, TIME

PRODUCTS = "products.csv"
_SOURCES = {"counter": "the energy counter", "samples": "power samples"}
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
    first, *others = group.least
    stated = (
        f"The least energy per {group.unit} is that of {_at(first)}, {_energy(first)}"
        f" ({first.phase.level:.0%} interval)"
    )
    if others:
        near = " and ".join(f"{_at(each)}, {_energy(each)}" for each in others)
        return (
            f"{stated}, but that of {near} is indistinguishable from it: with the class of the "
            f"boards' sensors (some {SENSOR_CLASS:.0%} each) their intervals overlap."
        )
    more = [each for each in group.points if each.is_best and each not in group.least]
    ratios = [f"{_at(each)} takes {_ratio(each, first)} times as much" for each in more]
    return f"{'; '.join([stated, *(ratio for ratio in ratios if ratio)])}."


def products_table(
    group: SideBySide, measurements: Sequence[Measurement], without: Collection[str] = ()
) -> Table:
    """Lay out each product at the driver's clock and at its own best one, but some columns."""
    columns = [_column(group, *cost) for cost in _costs(group) if cost[0] not in without]
    heads = [f"{each.name}\n{each.unit}" for each in columns]
    table = quiet_table(
        *words("", "product"), *numbers("clock\nMHz", *heads, "limit\nW"), padding=(0, 0)
    )
    for each in group.points:
        cells = [column.cell(each) for column in columns]
        if each.energy_j is None:
            cells[0] = _why(each)
        limits = _limit_words(power_limits_w(each.phase, measurements), unit="")
        mark, style = _mark(group, each) if each.energy_j else (" ", NONE)
        product = each.phase.device_name.removeprefix("NVIDIA ")
        table.add_row(mark, product, _clock(each), *cells, limits, style=style)
    return table


def products_notes(group: SideBySide, measurements: Sequence[Measurement]) -> list[str]:
    """Say what the marks mean, and what stands between the products besides their clocks."""
    first = group.phases[0]
    aim = OBJECTIVES[first.objective].label
    return [
        f"of each product the driver's default clock, then its own best by {aim}, where that is "
        "another",
        f"* least energy per {group.unit} at best   = indistinguishable from it",
        f"{PLUS_MINUS} {first.level:.0%} interval of repeats and readings on the boards that were "
        f"measured. Between products the class of the boards' power sensors (some "
        f"{SENSOR_CLASS:.0%} each) comes on top, which * allows for; so does how boards of a "
        "product differ, which it does not.",
        *_differences(
            "Board power limits differ",
            [(p, _limit_words(power_limits_w(p, measurements))) for p in group.phases],
        ),
        *_differences("Energy is not measured alike", [(p, _method(p)) for p in group.phases]),
    ]


def products_frame(groups: Sequence[SideBySide], measurements: Sequence[Measurement]) -> Frame:
    """List every product at both of its points."""
    entries = [
        {
            "phase": each.phase,
            "at": each,
            "may_be_least": each in group.least,
            "energy": each.energy_j,
            "time": each.interval(cost_of(TIME, group.unit)[2]),
            "edp": each.interval(cost_of(EDP, group.unit)[2]),
            "cost": each.interval(cost_of(OBJECTIVES[each.phase.objective], group.unit)[2]),
            "limits_w": tuple(w for w in power_limits_w(each.phase, measurements) if w),
            "num_boards": len(each.phase.boards),
        }
        for group in groups
        for each in group.points
    ]
    return frame(_COLUMNS, entries)


def _column(group: SideBySide, name: str, unit: str, values: Values) -> Quantity[Operated]:
    """Write a quantity with the prefix and the decimals that suit all products."""
    found = [value for each in group.points if (value := each.interval(values))]
    halves = [each.half_width for each in found]
    factor, prefix, decimals = common_scale([each.value for each in found], halves)

    def cell(each: Operated) -> str:
        if (value := each.interval(values)) is None:
            return ""
        return plus_minus(value.value * factor, value.half_width * factor, decimals)

    return Quantity(name, f"{prefix}{unit}", cell)


def _costs(group: SideBySide) -> list[tuple[str, str, Values]]:
    aims = dict.fromkeys((ENERGY, TIME, EDP, OBJECTIVES[group.phases[0].objective]))
    return [cost_of(aim, group.unit) for aim in aims]


def _names(groups: Sequence[SideBySide]) -> tuple[str, ...]:
    firsts = [group.phases[0] for group in groups]
    return set_apart([each.title for each in firsts], [dict(each.knobs) for each in firsts])


def _at(each: Operated) -> str:
    return f"{board_words(each.phase.boards[0])} at {_point(each)}"


def _point(each: Operated) -> str:
    return "no point" if each.row is None else point_name(each.row.point)


def _energy(each: Operated) -> str:
    found = each.energy_j
    unit = f"J/{each.phase.unit}"
    return "" if found is None else uncertain(found.value, found.half_width, unit)


def _ratio(each: Operated, least: Operated) -> str:
    if each.energy_j is None or least.energy_j is None:
        return ""
    return f"{each.energy_j.value / least.energy_j.value:.2f}"


def _mark(group: SideBySide, each: Operated) -> tuple[str, str]:
    if not each.is_best or each not in group.least:
        return " ", ""
    return ("*", BEST) if each is group.least[0] else ("=", EQUAL)


def _clock(each: Operated) -> str:
    if each.row is None:
        return ""
    seen = each.row.observed_clock_mhz
    if not each.row.point.is_default:
        return each.row.point.label.removesuffix("MHz")
    return "default" if seen is None else f"default ({seen:.0f})"


def _why(each: Operated) -> str:
    if each.row is None:
        return "none to choose"
    return each.row.reasons[0] if each.row.reasons else "not compared"


def _limit_words(limits_w: Sequence[float | None], *, unit: str = " W") -> str:
    known = [f"{limit_w:.0f}{unit}" for limit_w in limits_w if limit_w is not None]
    return " and ".join(known) if len(known) == len(limits_w) > 0 else "unread"


def _method(phase: PhaseResult) -> str:
    backends = " and ".join(sorted({board.backend for board in phase.boards}))
    drivers = " and ".join(sorted({board.driver_version for board in phase.boards}))
    source = _SOURCES.get(phase.source, "nothing valid")
    return f"{source}, read by {backends}, driver {drivers}"


def _differences(what: str, known: Sequence[tuple[PhaseResult, str]]) -> list[str]:
    """Say how products differ in something; nothing if they do not."""
    if len({stated for _, stated in known}) == 1:
        return []
    each = "; ".join(f"{boards_counted(phase.boards)}: {stated}" for phase, stated in known)
    return [f"{what}: {each}."]
