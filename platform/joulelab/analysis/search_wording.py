"""What a search found in words, the same in the terminal, in plots, in the report and in MLflow."""

from joulelab.analysis.quantities import quantity
from joulelab.analysis.wording import OBJECTIVE_NAMES, percent
from joulelab.core.additive import Interval
from joulelab.core.configuration import Configuration
from joulelab.search.answer import Answer
from joulelab.search.constraints import Constraint, Quantity
from joulelab.search.evidence import Problem
from joulelab.search.space import SearchSpace
from joulelab.workloads import WORKLOADS

_AXES = {
    "sm_clock_mhz": " MHz",
    "mem_clock_mhz": " MHz memory",
    "power_limit_w": " W limit",
    "precision": "",
}
"""What to write behind the value of an axis, instead of its name before it."""

SETTLED = "the strategy"
"""What ends a search that has nothing more to measure."""

_BOUNDS: dict[Quantity, str] = {
    "quality": "at least {bound:.3g} of the reference's quality",
    "slowdown": "at most {percent:.3g} % more time than the baseline",
    "latency_s": "at most {bound:g} s for a unit of work",
    "power_w": "at most {bound:g} W",
    "temperature_c": "at most {bound:g} degrees Celsius",
    "memory_b": "at most {giga:.4g} GB of device memory",
}


def configuration_name(configuration: Configuration, space: SearchSpace) -> str:
    """Name a configuration by its values on the axes: ``"1095 MHz, batch 32, bf16"``.

    Values that are the driver's own are left out, unless all of the GPU's knobs are.
    """
    named = zip(space.axes, space.values(configuration), strict=True)
    parts = [
        f"{value}{_AXES[name]}" if name in _AXES else f"{name} {value}"
        for name, value in named
        if value is not None
    ]
    if configuration.point.is_default:
        parts.insert(0, "the driver's clock")
    return ", ".join(parts)


def goal_name(problem: Problem) -> str:
    """Name what was to be low: ``"EDP"``."""
    name = problem.goal.name
    return OBJECTIVE_NAMES.get(name, name.upper() if len(name) <= 4 else name)


def constraint_words(constraint: Constraint) -> str:
    """Say what a constraint asks for: ``"at most 5 % more time than the baseline"``."""
    bound = constraint.bound
    return _BOUNDS[constraint.quantity].format(bound=bound, percent=100 * bound, giga=bound / 1e9)


def units_of(problem: Problem) -> str:
    """Return the workload's unit of work in the plural."""
    unit = WORKLOADS[problem.space.workload].unit
    return unit if unit.isupper() else f"{unit}s"


def sentence(found: Answer, problem: Problem, *, stopped_by: str = SETTLED) -> str:
    """Say which configuration to choose, what it saves, and how sure that is.

    Args:
        found: The answer.
        problem: What was searched for.
        stopped_by: What ended the search.
    """
    return " ".join(
        (recommendation(found, problem), *remarks(found, problem, stopped_by=stopped_by))
    )


def recommendation(found: Answer, problem: Problem) -> str:
    """Say which configuration to choose and what it saves, in one sentence."""
    space, best = problem.space, found.best.configuration
    if best == space.baseline:
        advice = f"Stay with {configuration_name(best, space)}: nothing measured is better"
    else:
        energy, time = _change(found.energy_ratio), _change(found.time_ratio)
        advice = f"Choose {configuration_name(best, space)}: {energy} energy at {time} time"
    advice += _kept(found)
    if not found.standing.is_feasible:
        advice += ", although it is not sure to keep to every constraint; nothing measured is"
    return f"{advice}; {_equals(found)}."


def remarks(found: Answer, problem: Problem, *, stopped_by: str = SETTLED) -> list[str]:
    """Say what the search took and when that has paid, and what may be missed."""
    said = [_price(found, problem)]
    if stopped_by != SETTLED:
        said.append(
            f"It was ended by {stopped_by} before it was settled; a longer one may find better."
        )
    if found.capped:
        held = _count(len(found.capped))
        said.append(
            f"{held} ran slower than asked, held down by the power cap, and "
            f"{'is' if len(found.capped) == 1 else 'are'} the same as a lower clock."
        )
    if found.failed:
        said.append(
            f"{_count(len(found.failed))} could not be measured; were one of them better, the "
            "answer would be another."
        )
    return said


def significant(value: float) -> str:
    """Write a large count to three digits: ``"298,000"``."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _change(ratio: Interval) -> str:
    return percent(Interval(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1))


def _kept(found: Answer) -> str:
    kept, u = found.best.figures.retention, found.best.figures.retention_u
    if kept is None:
        return ""
    if not u:
        return f", quality {100 * kept:.1f} % of the reference's"
    kept_interval = Interval(value=kept, low=kept - 2 * u, high=kept + 2 * u)
    return f", quality {percent(kept_interval, sign=False)} of the reference's"


def _equals(found: Answer) -> str:
    num = len(found.standing.members) - 1
    if num == 0:
        return "every other configuration that was measured is worse"
    return f"{_count(num)} cannot be told apart from it"


def _price(found: Answer, problem: Problem) -> str:
    price = f"The search took {quantity(found.spent_j, 'J', digits=3)}"
    if found.pays_after is None:
        return f"{price}."
    after = significant(found.pays_after.value)
    return f"{price} and has paid for itself after {after} {units_of(problem)}."


def _count(num: int) -> str:
    return f"{num} configuration{'' if num == 1 else 's'}"
