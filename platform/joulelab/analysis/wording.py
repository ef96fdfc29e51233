"""Results and constraints in words, the same in the terminal, in plots and in the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, expm1

from joulelab.analysis.compared import Counts, Figures
from joulelab.analysis.quantities import counted, uncertain
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow
from joulelab.analysis.templates import text
from joulelab.core.device import DeviceIdentity, board_words
from joulelab.core.measurement import Measurement
from joulelab.objectives import OBJECTIVES
from joulelab.provenance import UNKNOWN_VERSION
from joulelab.searching.constraints import AT_LEAST, Against, Constraint, Miss, Quantity

FEW_BOARDS = (
    "measured on one board each, by which boards differ does not show: there are no intervals; "
    "take two repeats or more"
)
UNREPEATED = (
    "nothing was repeated: uncertainties and intervals hold what readings state, not how repeats "
    "scatter; take two repeats or more"
)


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


def scatter_words(phase: PhaseResult) -> list[str]:
    """Say what the scatter of a sweep is where it is not that of repeats; else nothing."""
    if phase.is_replayed:
        return [replay_words(phase.rows, is_open=phase.is_open)]
    if phase.is_open:
        return [FEW_BOARDS]
    if phase.dof == 0 and phase.measured:
        return [UNREPEATED]
    curve = "few points share a board with another: scatter is that of clocks about a smooth curve"
    return [curve] if phase.is_smoothed else []


def phase_names(result: SweepResult) -> tuple[str, ...]:
    """Name each phase by what sets it apart from the others, ``"llama decode, batch=8"``."""
    products = [board_words(phase.boards[0]) for phase in result.phases]
    titles = [
        f"{phase.title} on {product}" if len(set(products)) > 1 else phase.title
        for phase, product in zip(result.phases, products, strict=True)
    ]
    return set_apart(titles, result.phases)


def set_apart(titles: Sequence[str], phases: Sequence[PhaseResult]) -> tuple[str, ...]:
    """Return titles of phases, each with the settings that set its workload's programs apart."""
    named = []
    for title, phase in zip(titles, phases, strict=True):
        alike = varying([dict(each.knobs) for each in phases if each.workload == phase.workload])
        own = [f"{name}={value}" for name, value in phase.knobs if name in alike]
        named.append(", ".join([title, *own]))
    return tuple(named)


def varying(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names whose values differ, or that not all of ``settings`` have."""
    names = dict.fromkeys(name for known in settings for name in known)
    return [name for name in names if len({known.get(name) for known in settings}) > 1]


def _recommendation(phase: PhaseResult) -> str:
    has_clocks = all(r.point.sm_clock_mhz or r.point.is_default for r in phase.rows)
    aim = OBJECTIVES[phase.objective].label
    return text("sweep.txt.j2", phase=phase, aim=aim, has_clocks=has_clocks)


def energy_words(figures: Figures | None, unit: str) -> str:
    """Write energy per unit of work with its uncertainty; ``""`` without figures."""
    if figures is None:
        return ""
    return uncertain(figures.energy_per_unit_j, figures.energy_per_unit_u_j, f"J/{unit}")


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
_TWICE = 2.0  # ratio from which on a miss is stated as a factor


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
