"""What a search found in words, the same in the terminal, in plots, in the report and in MLflow."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from joulelab.analysis.quantities import percent
from joulelab.analysis.templates import texts
from joulelab.analysis.wording import advice_words, constraint_words, miss_words
from joulelab.core.additive import Interval
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.hardware import GpuSpec
from joulelab.searching.answer import Answer
from joulelab.searching.base import Figures
from joulelab.searching.evidence import Problem
from joulelab.searching.scores import Scores
from joulelab.searching.space import Cell, SearchSpace
from joulelab.workloads import WORKLOADS

_AXES = {
    "sm_clock_mhz": " MHz",
    "mem_clock_mhz": " MHz memory",
    "power_limit_w": " W limit",
    "precision": "",
}
"""What to write behind the value of an axis, instead of its name before it."""

SETTLED = "the strategy"  # what ends a search that has nothing more to measure
UNDER_WAY = "nothing yet"  # what has ended a search that goes on


def configuration_name(configuration: Configuration, space: SearchSpace) -> str:
    """Name a configuration by its values on the axes: ``"1095 MHz, batch 32, bf16"``.

    Values that are the driver's own are left out, unless all of the GPU's knobs are.
    """
    named = zip(space.axes, space.values(configuration), strict=True)
    parts = [
        f"{_number(value)}{_AXES[name]}" if name in _AXES else f"{name} {value}"
        for name, value in named
        if value is not None
    ]
    if configuration.point.is_default:
        parts.insert(0, "the driver's clock")
    return ", ".join(parts)


def _number(value: KnobValue) -> KnobValue:
    return f"{value:g}" if isinstance(value, float) else value


def units_of(problem: Problem) -> str:
    """Return the workload's unit of work in the plural."""
    unit = WORKLOADS[problem.space.workload].unit
    return unit if unit.isupper() else f"{unit}s"


def sentence(found: Answer, problem: Problem, *, stopped_by: str = SETTLED) -> str:
    """Say which configuration to choose, what it saves, and how sure that is."""
    return " ".join(_sentences(found, problem, stopped_by))


def recommendation(found: Answer, problem: Problem) -> str:
    """Say which configuration to choose and what it saves, in one sentence."""
    return _sentences(found, problem, SETTLED)[0]


def remarks(found: Answer, problem: Problem, *, stopped_by: str = SETTLED) -> list[str]:
    """Say what is fastest, what the search took and when that pays, and what may be missed."""
    return _sentences(found, problem, stopped_by)[1:]


def _sentences(found: Answer, problem: Problem, stopped_by: str) -> list[str]:
    pays_after = None if found.missed else found.pays_after
    return texts(
        "search.txt.j2",
        found=found,
        problem=problem,
        name=partial(configuration_name, space=problem.space),
        bounds=[constraint_words(each.constraint) for each in found.missed],
        misses=map(miss_words, found.missed),
        advice=advice_words([each.constraint.quantity for each in found.missed]),
        kept=_kept(found),
        after=pays_after and f"{significant(pays_after.value)} {units_of(problem)}",
        stopped_by=stopped_by,
        settled=SETTLED,
        under_way=UNDER_WAY,
        ends=_ends(found, problem),
        has_scores=found.best.figures.retention is not None,
    )


def payback(found: Answer, problem: Problem, *, of: str = "") -> str:
    """Say after how many units of work a search has saved what it took; ``""`` if it may never.

    Nor does it where nothing keeps to the constraints. ``of`` stands before the interval's ends.
    """
    if found.pays_after is None or found.missed:
        return ""
    low, high = significant(found.pays_after.low), significant(found.pays_after.high)
    between = "" if low == high else f" ({of}{low} to {high})"
    return f"{significant(found.pays_after.value)} {units_of(problem)}{between}"


def significant(value: float) -> str:
    """Write a large count to three digits: ``"298,000"``."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _kept(found: Answer) -> str:
    kept, u = found.best.figures.retention, found.best.figures.retention_u
    if kept is None:
        return ""
    if not u:
        return f"{100 * kept:.1f} %"
    return percent(Interval(value=kept, low=kept - 2 * u, high=kept + 2 * u), sign=False)


def _ends(found: Answer, problem: Problem) -> list[str]:
    """Name the axes of numbers at whose end the choice lies, although there are values beyond."""
    space, own = problem.space, {} if problem.gpu is None else _own_ends(problem.gpu)
    values = zip(space.axes, space.values(found.best.configuration), strict=True)
    return [
        name
        for name, value in values
        if _is_at_end(value, space.axes[name])
        and value not in own.get(name, (_LEAST_COUNT,))
        and not (name == "power_limit_w" and _is_slack(value, found.best.figures))
    ]


_LEAST_COUNT = 1  # of a batch and whatever else is counted, there is nothing below it
_SLACK = 0.75
"""Share of a power limit below which the mean power leaves parts of a step their own, too."""


def _own_ends(gpu: GpuSpec) -> dict[str, tuple[KnobValue, ...]]:
    """Return beyond what the GPU itself has no values."""
    return {
        "sm_clock_mhz": (gpu.study_clocks_mhz[0], gpu.study_clocks_mhz[-1]),
        "mem_clock_mhz": (gpu.mem_clocks_mhz[0], gpu.mem_clocks_mhz[-1]),
        "power_limit_w": gpu.power_limits_w,
    }


def _is_slack(limit_w: KnobValue, figures: Figures) -> bool:
    """Whether a power limit is so far above the power that another one changes nothing."""
    return isinstance(limit_w, int | float) and figures.power_w < _SLACK * limit_w


def _is_at_end(value: KnobValue, values: Sequence[KnobValue]) -> bool:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) > 2 and value in (min(numbers), max(numbers))


Words = TypeVar("Words")


def score_words(space: SearchSpace, scores: Scores) -> str:
    """Say what each kind of outputs keeps, and what has no score or no interval, and why."""
    metric = scores.metric.replace("_", " ")
    shares = {cell: (kept.outputs, _share(scores, cell)) for cell, kept in scores.kept.items()}
    without = {cell: f"left out. {reason}" for cell, reason in scores.reasons.items()}
    return "\n".join(
        (
            f"What is kept of the baseline's {metric} on {scores.data}:",
            *(f"  {named}: {share}" for named, (_, share) in _grouped(space, shares)),
            *(f"  {named}: {text}" for named, text in _grouped(space, without)),
            *(f"  {note}" for note in dict.fromkeys(scores.notes.values())),
        )
    )


def _share(scores: Scores, cell: Cell) -> str:
    kept = scores.kept[cell]
    share = f"{100 * kept.retention:.2f} %"
    return share if kept.u is None else f"{share} ± {100 * kept.u:.2f} %"


def _grouped(space: SearchSpace, words: Mapping[Cell, Words]) -> list[tuple[str, Words]]:
    """Return the words of cells, once for all of which they are the same, with their name."""
    groups: dict[Words, list[Mapping[str, KnobValue]]] = {}
    for cell, each in words.items():
        groups.setdefault(each, []).append(dict(cell))
    return [(_name(space, cells), each) for each, cells in groups.items()]


def _name(space: SearchSpace, cells: Sequence[Mapping[str, KnobValue]]) -> str:
    """Name the searched knobs in which ``cells`` agree; those that agree in none one by one."""
    searched = [name for name in space.axes if name in cells[0]]
    shared = [name for name in searched if len({cell[name] for cell in cells}) == 1]
    if not searched:
        return "all"
    if not shared:
        return "; ".join(_name(space, [cell]) for cell in cells)
    return ", ".join(f"{name} {cells[0][name]}" for name in shared)
