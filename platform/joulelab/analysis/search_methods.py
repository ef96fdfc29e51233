"""How a search was done, as a paragraph that a paper may quote."""

from collections.abc import Mapping, Sequence

from joulelab.analysis.methods import SENSOR_CLASS, SOURCES
from joulelab.analysis.quantities import quantity
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_wording import constraint_words, goal_name, significant, units_of
from joulelab.analysis.wording import board_words, software_words
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement

_ALGORITHMS = {
    "front-guided": "expected growth of the front on the same model as model-guided",
    "gp": "expected improvement on a Gaussian process (Optuna's, through Ray Tune) of the cost",
    "grid": "every configuration in turn",
    "model-guided": "expected improvement under the constraints on a physical model of time and "
    "power that is fitted to what was measured so far",
    "nsga2": "NSGA-II (Deb et al. 2002; Optuna's, through Ray Tune) on energy and time",
    "random": "configurations drawn at random without return",
    "ridge": "the ridge frequency and its neighbourhood (after Schoonhoven et al. 2022)",
    "tpe": "the tree-structured Parzen estimator (Bergstra et al. 2011; Optuna's, through Ray "
    "Tune) on the cost",
}
"""What each algorithm chooses; others go by their names alone."""

_MODELS = ("front-guided", "model-guided")
_ALLOWING = ", and it is the physical model alone that allows for temperature"


def search_paragraph(
    result: SearchResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
) -> str:
    """Describe how a search was done, in sentences that a paper may quote.

    Args:
        result: What was found.
        measurements: All that the search measured.
        settings: Settings of the study, by name; those of the procedure are told if known.
    """
    said = [
        _what(result, measurements),
        _how(result),
        _repeats(result),
        _windows(result, settings),
        _comparison(result),
        _temperatures(result, measurements),
        _price(result),
    ]
    return " ".join(text for text in said if text)


def _what(result: SearchResult, measurements: Sequence[Measurement]) -> str:
    num, space = len(result.boards), result.problem.space
    drivers = ", ".join(sorted({board.driver_version for board in result.boards}))
    phases = sorted({m.phase for m in measurements})
    summed = f", {' and '.join(phases)} together," if len(phases) > 1 else ""
    limits = [constraint_words(each) for each in result.problem.constraints]
    kept = (
        f", subject to {' and '.join(limits)}, each kept to with a probability of at least "
        f"{result.problem.confidence:.0%}"
        if limits
        else ""
    )
    boards = f"{num} {board_words(result.boards[0])} board{'s' if num > 1 else ''}"
    return (
        f"The configuration of {space.workload} with the lowest {goal_name(result.problem)} per "
        f"{result.unit}{summed} was searched for with {software_words(measurements)} among "
        f"{len(space)} ({space.summary}, and the driver's own clock) on {boards} (driver "
        f"{drivers}){kept}."
    )


def _how(result: SearchResult) -> str:
    method = result.method
    chosen = _ALGORITHMS.get(method.algorithm)
    by = f"{method.algorithm}{f': {chosen}' if chosen else ''} (seed {method.seed})"
    last, tried = result.steps[-1], len(result.rows)
    budget = f" The budget was {method.budget}." if method.budget else ""
    lost = [
        f"{last.num_capped} ran at a lower clock than asked because of the power cap"
        if last.num_capped
        else "",
        f"{last.num_failed} gave no valid figures" if last.num_failed else "",
    ]
    without = " and ".join(part for part in lost if part)
    return (
        f"New configurations were chosen by {by}.{budget} {last.number} trials of {tried} "
        f"configurations were made{f'; {without}' if without else ''}. "
        f"The search was ended by {method.stopped_by}."
    )


def _repeats(result: SearchResult) -> str:
    num = result.method.num_confirming
    last = (
        f" With the last {num} trials of the budget the best and the knee of the front were "
        "repeated where they had been measured once."
        if num
        else ""
    )
    return (
        "What could not be told apart from the best was repeated, up to "
        f"{result.method.most_repeats} times, and every board measured the baseline first and "
        f"again between the others.{last}"
    )


def _windows(result: SearchResult, settings: Mapping[str, KnobValue]) -> str:
    source = f"Energy was taken from {SOURCES[result.source]}." if result.source else ""
    window_s = settings.get("lab.procedure.window_s", settings.get("procedure.window_s"))
    windows = settings.get("lab.procedure.min_windows", settings.get("procedure.min_windows"))
    if window_s is None or windows is None:
        return source
    return (
        f"{source} After a warm-up until power and temperature were steady, each trial took at "
        f"least {windows} windows of at least {window_s:g} s."
    ).lstrip()


def _comparison(result: SearchResult) -> str:
    level = result.answer.standing.level
    return (
        "An additive model of configurations and boards was fitted to the logarithms by least "
        f"squares; ratios to the baseline have {level:.0%} confidence intervals (Student's t, or "
        "the stated uncertainties where these are wider), and those that cannot be told apart "
        "from the best were found by multiple comparisons with the best (Hsu 1984). Absolute "
        f"energies carry the calibration class of the boards' power sensors (some "
        f"{SENSOR_CLASS:.0%}), which cancels in ratios."
    )


def _temperatures(result: SearchResult, measurements: Sequence[Measurement]) -> str:
    """Say at which temperatures energies are: they are compared as measured."""
    heat_c: dict[str, list[float]] = {}
    for each in measurements:
        if each.valid and each.observed.temperature_stop_c is not None:
            name = f"{each.configuration.config_hash} {each.phase}"
            heat_c.setdefault(name, []).append(each.observed.temperature_stop_c)
    if not heat_c:
        return ""
    every = [value for values in heat_c.values() for value in values]
    apart_k = max(max(values) - min(values) for values in heat_c.values())
    return (
        f"Boards were at {min(every):g} to {max(every):g} degrees Celsius, in repeats of one "
        f"configuration at most {apart_k:g} K apart; energies are as measured"
        f"{_ALLOWING if result.method.algorithm in _MODELS else ''}."
    )


def _price(result: SearchResult) -> str:
    found = result.answer
    spent = f"The search took {quantity(found.spent_j, 'J', digits=3)} of the boards' energy"
    if found.pays_after is None:
        return f"{spent}; it is not certain that its answer saves energy."
    low, high = significant(found.pays_after.low), significant(found.pays_after.high)
    between = "" if low == high else f" ({found.standing.level:.0%} interval {low} to {high})"
    return (
        f"{spent}, which its answer has saved after {significant(found.pays_after.value)} "
        f"{units_of(result.problem)}{between}."
    )
