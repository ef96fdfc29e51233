"""The answer of a search in words, and in the results folder."""

from joulelab.analysis.wording import percent
from joulelab.core.additive import Interval
from joulelab.core.configuration import Configuration
from joulelab.search.answer import Answer as Found
from joulelab.search.answer import answer
from joulelab.search.evidence import Evidence
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer
from joulelab_actors.search.outcomes import spent_j


def conclude_search(store: ResultStore, evidence: Evidence) -> Found:
    """Work out the answer of a search and write it into the results folder.

    Raises:
        MeasurementError: If the baseline was not measured, or nothing ties it to the best.
    """
    found = answer(evidence, spent_j=sum(map(spent_j, store.read())))
    ratios = {
        "energy_ratio": found.energy_ratio,
        "time_ratio": found.time_ratio,
        "cost_ratio": found.cost_ratio,
    }
    summary = [(name, ratio.value) for name, ratio in ratios.items()]
    summary.append(("search_energy_j", found.spent_j))
    store.write_answer(Answer(note=sentence(found, evidence), summary=tuple(summary)))
    return found


def sentence(found: Found, evidence: Evidence) -> str:
    """Say which configuration to choose, what it saves, and how sure that is."""
    space, best = evidence.problem.space, found.best.configuration
    if best == space.baseline:
        advice = f"Stay with {_words(best, evidence)}: nothing measured is better"
    else:
        energy, time = _change(found.energy_ratio), _change(found.time_ratio)
        advice = f"Choose {_words(best, evidence)}: {energy} energy at {time} time"
    if not found.standing.is_feasible:
        advice += ", although it is not sure to keep to every constraint; nothing measured is"
    return f"{advice}; {_equals(found)}.{_price(found)}{_caveat(found)}"


def _words(configuration: Configuration, evidence: Evidence) -> str:
    """Name what the search chose: values of its axes, those that are the driver's left out."""
    units = {"sm_clock_mhz": " MHz", "mem_clock_mhz": " MHz memory", "power_limit_w": " W limit"}
    space = evidence.problem.space
    named = zip(space.axes, space.values(configuration), strict=True)
    parts = [
        f"{value}{units[name]}" if name in units else f"{name} {value}"
        for name, value in named
        if value is not None
    ]
    if configuration.point.is_default:
        parts.insert(0, "the driver's clock")
    return ", ".join(parts)


def _change(ratio: Interval) -> str:
    return percent(Interval(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1))


def _equals(found: Found) -> str:
    num = len(found.standing.members) - 1
    if num == 0:
        return "every other configuration that was measured is worse"
    return f"{_count(num)} cannot be told apart from it"


def _price(found: Found) -> str:
    price = f" The search took {found.spent_j / 1e3:,.3g} kJ"
    if found.pays_after is None:
        return f"{price}."
    return f"{price} and has paid for itself after {found.pays_after.value:,.0f} units of work."


def _caveat(found: Found) -> str:
    if not found.failed:
        return ""
    return (
        f" {_count(len(found.failed))} could not be measured; were one of them better, the answer "
        "would be another."
    )


def _count(num: int) -> str:
    return f"{num} configuration{'' if num == 1 else 's'}"
