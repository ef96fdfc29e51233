"""How a study was measured and compared, as a paragraph that a paper may quote."""

from collections.abc import Mapping, Sequence
from math import floor

from joulelab.analysis.knob_study import KnobPhase
from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.quantities import brief, counted
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_wording import payback
from joulelab.analysis.sweep import PhaseResult
from joulelab.analysis.wording import boards_words, constraint_words, software_words
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import LONGEST_FOLLOWING_S, Procedure
from joulelab.objectives import OBJECTIVES

SOURCES = {
    "counter": "the hardware energy counter, interpolated between its ticks and cross-checked "
    "against the driver's power samples",
    "samples": "the integral of the driver's power samples",
}
"""Where energies come from, in words."""

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
_SENSORS = (
    f"Absolute energies carry the calibration class of the boards' power sensors (some "
    f"{SENSOR_CLASS:.0%}), which cancels in ratios."
)
_ALLOWING = ", and it is the physical model alone that allows for temperature"


def uncertainty_statement(level: float) -> str:
    """Say what the error bars hold, at a confidence level of intervals, and what they do not."""
    return (
        "Uncertainties of energy and time are standard uncertainties (k=1): the larger of the "
        "scatter of repeats about the fit and of what the readings alone explain. Savings and "
        f"slowdowns have {level:.0%} confidence intervals, each by itself. All of them leave "
        f"out the calibration class of the boards' power sensors, some {SENSOR_CLASS:.0%}: it is "
        "common to every window of a board, so it cancels in savings and in the choice of a "
        "clock, and it must be added to any absolute energy or power."
    )


def methods_paragraph(
    phase: PhaseResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
) -> str:
    """Describe how ``phase`` was measured, in sentences that a paper may quote.

    Of ``settings``, those of the procedure are used: ``"procedure.window_s"`` and its like.
    """
    sentences = [
        _what(phase, measurements),
        _how(phase, settings),
        _quickly(measurements),
        _validity(phase),
        _comparison(phase),
        phase.temperature.words if phase.temperature else "",
        _SENSORS,
    ]
    return " ".join(text for text in sentences if text)


def grid_paragraph(phase: KnobPhase, measurements: Sequence[Measurement]) -> str:
    """Describe how a phase of a study of knobs was measured, in sentences to quote."""
    num_invalid = sum(bool(exclusion.findings) for exclusion in phase.exclusions)
    num = sum(row.num_valid + row.num_invalid for row in phase.rows)
    return (
        f"Energy and time per {phase.unit} of {phase.title} were measured with "
        f"{software_words(measurements)} on {boards_words(phase.boards)} at the driver's own "
        f"clocks for {len(phase.rows)} combinations of "
        f"{' and '.join(axis.knob for axis in phase.axes)}, in randomised blocks. {num_invalid} of "
        f"{num} measurements broke the validity contract or could not be made, and were excluded. "
        f"{_fitted('combinations')}; {_ratios('the first row', phase.level)}. {_SENSORS}"
    )


def search_paragraph(
    result: SearchResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
) -> str:
    """Describe how a search was done, likewise."""
    procedure = {name.removeprefix("lab."): value for name, value in settings.items()}
    sentences = [
        _search_what(result, measurements),
        _search_how(result),
        _repeats(result),
        _windows(result.source, procedure, "trial"),
        _quickly(measurements),
        _search_comparison(result),
        _temperatures(result, measurements),
        _price(result),
    ]
    return " ".join(text for text in sentences if text)


def _what(phase: PhaseResult, measurements: Sequence[Measurement]) -> str:
    knobs = ", ".join(f"{name} {value}" for name, value in phase.knobs)
    num = sum(not row.point.is_default for row in phase.rows)
    return (
        f"Energy and time per {phase.unit} of {phase.title}{f' ({knobs})' if knobs else ''} were "
        f"measured with {software_words(measurements)} on {boards_words(phase.boards)} at the "
        f"driver's default and at {counted(num, 'other operating point')}."
    )


def _how(phase: PhaseResult, settings: Mapping[str, KnobValue]) -> str:
    sentinel = ", with the default repeated between them as a sentinel" if phase.drifts else ""
    how = (
        ", each a whole number of units of work, at an operating point that had been read back. "
        "Operating points ran in random order in blocks, each block holding every point once"
    )
    return _windows(phase.source, settings, "measurement", f"{how}{sentinel}")


def _windows(source: str, settings: Mapping[str, KnobValue], each: str, how: str = "") -> str:
    """Say where energies are from, and how long was measured where that is known."""
    of = f"Energy was taken from {SOURCES[source]}." if source else ""
    window_s, windows = settings.get("procedure.window_s"), settings.get("procedure.min_windows")
    if window_s is None or windows is None:
        return of
    return (
        f"{of} After a warm-up until power and temperature were steady, each {each} took at least "
        f"{windows} windows of at least {window_s:g} s{how}."
    ).lstrip()


def _quickly(measurements: Sequence[Measurement]) -> str:
    """Say how many measurements began without a rest; nothing of none."""
    quick = [each for each in measurements if each.pace == "quick"]
    if not quick:
        return ""
    lengths_s = [window.duration_s for each in quick for window in each.windows]
    least_s = floor(10 * min(lengths_s, default=0.0)) / 10
    how = Procedure().following()
    return (
        f"{len(quick)} of {len(measurements)} were made otherwise: they followed another point of "
        "the same program without an idle window, warmed up until unit times and power alone were "
        f"steady ({how.warmup_min_s:g} s and more, and as long as the board had rested, up to "
        f"{LONGEST_FOLLOWING_S:g} s), and took at least {how.min_windows} windows of at "
        f"least {least_s:g} s."
    )


def _validity(phase: PhaseResult) -> str:
    num_broken = sum(bool(exclusion.findings) for exclusion in phase.exclusions)
    num_apart = len(phase.exclusions) - num_broken
    total = sum(row.num_valid for row in phase.rows) + len(phase.exclusions)
    apart = f" {num_apart} more could not be compared with the rest." if num_apart else ""
    return (
        f"{num_broken} of {total} measurements broke the validity contract (clock held, no "
        "throttling, no foreign process, steady temperature, gap-free readings, agreeing sources) "
        f"and were excluded.{apart}"
    )


def _comparison(phase: PhaseResult) -> str:
    if phase.recommended is None or len(phase.measured) < 2:
        return ""
    aim = OBJECTIVES[phase.objective].label
    sd = phase.repeat_sd
    scatter = "" if sd is None else f"; one measurement scatters by {sd:.2%} about it"
    return (
        f"{_fitted('operating points')} ({phase.dof} residual degrees of "
        f"freedom{scatter}). Savings are ratios to the driver's default with {phase.level:.0%} "
        "confidence intervals (Student's t). The points that are statistically indistinguishable "
        f"from the lowest {aim} were found by multiple "
        f"comparisons with the best (Hsu 1984; one-sided Dunnett margins), so that the set holds "
        f"the truly lowest with at least {phase.level:.0%} confidence. Of that set the fastest "
        f"point is recommended, or the driver's default if that is in it."
    )


def _fitted(of: str) -> str:
    return f"An additive model of {of} and boards was fitted to the logarithms by least squares"


def _ratios(to: str, level: float) -> str:
    return (
        f"ratios to {to} have {level:.0%} confidence intervals (Student's t, or the stated "
        "uncertainties where these are wider)"
    )


def _search_what(result: SearchResult, measurements: Sequence[Measurement]) -> str:
    space = result.problem.space
    phases = sorted({m.phase for m in measurements})
    summed = f", {' and '.join(phases)} together," if len(phases) > 1 else ""
    limits = " and ".join(constraint_words(each) for each in result.problem.constraints)
    sure = f"each kept to with a probability of at least {result.problem.confidence:.0%}"
    kept = f", subject to {limits}, {sure}" if limits else ""
    return (
        f"The configuration of {space.workload} with the lowest "
        f"{result.problem.objective.label} per {result.unit}{summed} was searched for with "
        f"{software_words(measurements)} among {len(space)} ({space.summary}, and the driver's own "
        f"clock) on {boards_words(result.boards)}{kept}."
    )


def _search_how(result: SearchResult) -> str:
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
    last = f" With the last {num} trials of the budget the best and the knee of the front were "
    last = f"{last}repeated where they had been measured once." if num else ""
    return (
        "What was statistically indistinguishable from the best was repeated, up to "
        f"{result.method.most_repeats} times, and every board measured the baseline first and "
        f"again between the others.{last}"
    )


def _search_comparison(result: SearchResult) -> str:
    level = result.answer.standing.level
    return (
        f"{_fitted('configurations')}; {_ratios('the baseline', level)}, and those statistically "
        "indistinguishable from the best were found by multiple comparisons with the best (Hsu "
        f"1984). {_SENSORS}"
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
    spent = f"The search took {brief(found.spent_j, 'J')} of the boards' energy"
    after = payback(found, result.problem, of=f"{found.standing.level:.0%} interval ")
    if not after:
        return f"{spent}; it is not certain that its answer saves energy."
    return f"{spent}, which its answer has saved after {after}."
