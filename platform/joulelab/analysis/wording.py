"""Results and constraints in words, the same in the terminal, in plots and in the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, expm1, floor, isinf, log10

from joulelab.analysis.compared import Counts, Figures
from joulelab.analysis.quantities import counted, uncertain
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow
from joulelab.core.additive import Interval, more
from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.objectives import OBJECTIVES
from joulelab.provenance import UNKNOWN_VERSION
from joulelab.searching.constraints import AT_LEAST, Against, Constraint, Miss, Quantity

NOT_HARDWARE = {"simulated": "simulated ", "replay": "replayed "}
"""What to say before the name of a board of these backends."""


def percent(interval: Interval, *, sign: bool = True) -> str:
    """Write a share with its interval, ``"+2.1 % ± 0.3 %"``."""
    half = 100 * interval.half_width
    if isinf(half):
        return f"{100 * interval.value:{'+' if sign else ''}.1f} %"
    decimals = min(max(-floor(log10(half)), 1), 3) if half > 0 else 1
    plus = "+" if sign else ""
    return f"{100 * interval.value:{plus}.{decimals}f} % ± {half:.{decimals}f} %"


def change(ratio: Interval) -> str:
    """Write a ratio as what is added, with its interval."""
    return percent(more(ratio))


def boards_words(boards: Sequence[DeviceIdentity]) -> str:
    """Count boards of one product, ``"2 simulated NVIDIA H200 boards (driver 1.0)"``."""
    drivers = ", ".join(sorted({board.driver_version for board in boards}))
    return f"{counted(len(boards), f'{board_words(boards[0])} board')} (driver {drivers})"


def boards_counted(boards: Sequence[DeviceIdentity]) -> str:
    """Name the boards of one product and count them, ``"NVIDIA H200, 2 boards"``."""
    return f"{board_words(boards[0])}, {counted(len(boards), 'board')}"


def software_words(measurements: Iterable[Measurement]) -> str:
    """Say with what was measured, ``"joulelab 0.1.0 (commit e17541d6)"``; several with "and"."""
    origins = {(m.provenance.joulelab_version, m.provenance.git_sha) for m in measurements}
    return " and ".join(_software(*origin) for origin in sorted(origins, key=str))


def _software(version: str, git_sha: str | None) -> str:
    name = "joulelab" if version == UNKNOWN_VERSION else f"joulelab {version}"
    if git_sha is None:
        return name
    commit, _, changes = git_sha.partition("-")
    return f"{name} (commit {commit[:8]}{', with changes' if changes else ''})"


def point_name(point: OperatingPoint, *, limit: str = "W limit") -> str:
    """Write an operating point, ``"1095 MHz"`` or ``"the driver's default"``.

    ``limit`` stands behind the number of a power limit.
    """
    parts = [
        "" if point.sm_clock_mhz is None else f"{point.sm_clock_mhz} MHz",
        "" if point.mem_clock_mhz is None else f"memory {point.mem_clock_mhz} MHz",
        "" if point.power_limit_w is None else f"{point.power_limit_w:g} {limit}",
    ]
    return ", ".join(part for part in parts if part) or "the driver's default"


def clock_words(row: SweepRow) -> str:
    """Write the clock of a row, or its whole point where it sets more than that."""
    point = row.point
    if point.is_default:
        seen = row.observed_clock_mhz
        return "default" if seen is None else f"default ({seen:.0f})"
    only_clock = point.mem_clock_mhz is None and point.power_limit_w is None
    return f"{point.sm_clock_mhz}" if only_clock else point.label


def sentence(result: SweepResult | PhaseResult) -> str:
    """Say what a sweep recommends: one sentence per phase.

    The saving is claimed only where it is shown: a default indistinguishable from the
    best is said to be so.
    """
    if isinstance(result, PhaseResult):
        return _recommendation(result)
    if len(result.phases) == 1:
        return _recommendation(result.phases[0])
    names = phase_names(result)
    return "\n".join(
        f"{name}: {_recommendation(phase)}"
        for name, phase in zip(names, result.phases, strict=True)
    )


def replay_words(rows: Sequence[Counts], *, is_open: bool) -> str:
    """Say what replayed recordings are taken to scatter by; of nothing where it ``is_open``."""
    once = "replayed: a recording is one observation, however often it is played"
    if is_open:
        return f"{once}; none was repeated and few make a curve, so that there are no intervals"
    if all(row.num_valid <= 1 for row in rows):
        return f"{once}; scatter is that of the clocks about a smooth curve"
    return f"{once}; scatter is that of recorded repeats"


def phase_names(result: SweepResult) -> tuple[str, ...]:
    """Name each phase by what sets it apart from the others, ``"llama decode, batch=8"``."""
    products = [board_words(phase.boards[0]) for phase in result.phases]
    titles = [
        f"{phase.title} on {product}" if len(set(products)) > 1 else phase.title
        for phase, product in zip(result.phases, products, strict=True)
    ]
    return set_apart(titles, [dict(phase.knobs) for phase in result.phases])


def set_apart(titles: Sequence[str], settings: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return titles, each with those of its settings that differ between them."""
    names = varying(settings)
    return tuple(
        ", ".join([title, *(f"{name}={known.get(name)}" for name in names)])
        for title, known in zip(titles, settings, strict=True)
    )


def varying(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names whose values differ, or that not all of ``settings`` have."""
    names = dict.fromkeys(name for known in settings for name in known)
    return [name for name in names if len({known.get(name) for known in settings}) > 1]


def board_words(board: DeviceIdentity) -> str:
    """Name a board, and say so where it is no hardware."""
    return NOT_HARDWARE.get(board.backend, "") + board.name


def _recommendation(phase: PhaseResult) -> str:
    aim = OBJECTIVES[phase.objective].label
    best, default = phase.best, phase.default
    if best is None:
        return f"No recommendation: {_why_none(phase)}."
    lowest, use = phase.least or best, upper(point_name(best.point))
    if len(phase.measured) == 1:
        return f"{use}: {_cost(phase, best)}; no other point was measured."
    if default is None or default.figures is None:
        return (
            f"{use}: {_cost(phase, best)}; there is no valid measurement of "
            f"the driver's default to compare it with{_choice(phase)}."
        )
    if lowest.point.is_default:
        return f"The driver's default has the lowest {aim}, {_cost(phase, best)}{_others(phase)}."
    if best.point.is_default:
        return (
            f"No saving is shown: {point_name(lowest.point)} has the lowest {aim} "
            f"({_change(lowest)}), but the driver's default is among the {len(phase.members) - 1} "
            "points that are statistically indistinguishable from it."
        )
    return f"{use}: {_change(best)} against the default clock{_choice(phase)}."


def _why_none(phase: PhaseResult) -> str:
    if phase.least is None:
        return f"none of {len(phase.exclusions)} measurements is valid"
    lowest = f"{point_name(phase.least.point)} has the lowest {OBJECTIVES[phase.objective].label}"
    return f"{lowest}, but so few points, each recorded once, do not show how recordings scatter"


def _change(row: SweepRow) -> str:
    figures = row.figures
    if figures is None or figures.saving is None or figures.slowdown is None:
        return ""
    saving = figures.saving
    energy = Interval(value=-saving.value, low=-saving.high, high=-saving.low)
    return f"{percent(energy)} energy at {percent(figures.slowdown)} time"


def energy_words(figures: Figures | None, unit: str) -> str:
    """Write energy per unit of work with its uncertainty; ``""`` without figures."""
    if figures is None:
        return ""
    return uncertain(figures.energy_per_unit_j, figures.energy_per_unit_u_j, f"J/{unit}")


def _cost(phase: PhaseResult, row: SweepRow) -> str:
    figures = row.figures
    if figures is None:
        return ""
    time = uncertain(figures.time_per_unit_s, figures.time_per_unit_u_s, f"s/{phase.unit}")
    return f"{energy_words(figures, phase.unit)} in {time}"


def _choice(phase: PhaseResult) -> str:
    aim, points, num = OBJECTIVES[phase.objective].label, _points(phase), len(phase.members)
    if phase.least is None or num == 1:
        return f"; every other {points} is worse"
    if phase.least.is_recommended:
        return (
            f"; the lowest {aim}, and the fastest of {num} {points}s that are statistically "
            "indistinguishable from it"
        )
    return (
        f"; the fastest of {num} {points}s that are statistically indistinguishable from the "
        f"lowest {aim}, at {point_name(phase.least.point)}"
    )


def _others(phase: PhaseResult) -> str:
    num, points = len(phase.members) - 1, _points(phase)
    if num == 0:
        return f"; every other {points} is worse"
    are = "is" if num == 1 else "are"
    return f"; {counted(num, f'other {points}')} {are} statistically indistinguishable from it"


def _points(phase: PhaseResult) -> str:
    has_clocks = all(r.point.sm_clock_mhz or r.point.is_default for r in phase.rows)
    return "clock" if has_clocks else "point"


def upper(text: str) -> str:
    """Begin ``text`` with a capital."""
    return text[0].upper() + text[1:]


_USUAL: dict[Against, str] = {
    "cell": "the driver's clock at the same knobs",
    "baseline": "the baseline",
}
_BOUNDS: dict[Quantity, str] = {
    "quality": "{bound:.3g} of the reference's quality",
    "slowdown": "{percent:.3g} % more time than {usual}",
    "latency_s": "{bound:g} s for a request",
    "ttft_s": "{bound:g} s to the first token",
    "tpot_s": "{bound:g} s for each further token",
    "throughput_per_s": "{bound:g} units of work per second",
    "power_w": "{bound:g} W",
    "temperature_c": "{bound:g} degrees Celsius",
    "memory_b": "{giga:.4g} GB of device memory",
}
_FASTER = "smaller batches, narrower formats, shorter requests"
_CHANGES: dict[Quantity, str] = {
    "quality": "wider formats",
    "slowdown": "higher clocks",
    "latency_s": _FASTER,
    "ttft_s": _FASTER,
    "tpot_s": _FASTER,
    "throughput_per_s": "larger batches, narrower formats",
    "power_w": "lower clocks, smaller batches",
    "temperature_c": "lower clocks, smaller batches",
    "memory_b": "smaller batches, narrower formats",
}
"""What is searched to keep to a bound, besides another GPU."""
_TWICE = 2.0  # ratio from which on a miss is told as a factor


def constraint_words(constraint: Constraint) -> str:
    """Say what a constraint asks for: ``"at most 300 W"``."""
    side = "at least" if constraint.quantity in AT_LEAST else "at most"
    return f"{side} {_value_words(constraint)}"


def miss_words(miss: Miss) -> str:
    """Say what a configuration takes where that is too much: ``"412 W (37 % too much)"``."""
    is_low = miss.constraint.quantity in AT_LEAST
    ratio, too = exp(miss.excess), "little" if is_low else "much"
    value = _value_words(replace(miss.constraint, bound=float(f"{miss.value:.4g}")))
    if ratio >= _TWICE:
        return f"{value} (too {too} by a factor of {float(f'{ratio:.3g}'):,g})"
    share = -expm1(-miss.excess) if is_low else expm1(miss.excess)
    return f"{value} ({100 * share:.2g} % too {too})"


def advice_words(missed: Sequence[Quantity]) -> str:
    """Say what to change where nothing keeps to bounds on some quantities."""
    changes = ", ".join(dict.fromkeys(", ".join(_CHANGES[each] for each in missed).split(", ")))
    return f"Ask for less, or search what was not: {changes}, another GPU."


def _value_words(constraint: Constraint) -> str:
    bound = constraint.bound
    usual = _USUAL[constraint.against]
    return _BOUNDS[constraint.quantity].format(
        bound=bound, percent=100 * bound, giga=bound / 1e9, usual=usual
    )
