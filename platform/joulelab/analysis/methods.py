"""How a sweep was measured and compared, as a paragraph that a paper may quote."""

from collections.abc import Mapping, Sequence

from joulelab.analysis.knob_study import KnobPhase
from joulelab.analysis.sweep import PhaseResult
from joulelab.analysis.wording import OBJECTIVE_NAMES, board_words, device_words, software_words
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement

SENSOR_CLASS = 0.05
"""Calibration class of a board's power sensor, relative (Yang, Adamek and Armour, SC24)."""

SOURCES = {
    "counter": "the hardware energy counter, interpolated between its ticks and cross-checked "
    "against the driver's power samples",
    "samples": "the integral of the driver's power samples",
}
"""Where energies come from, in words."""


def uncertainty_statement(level: float) -> str:
    """Say what the error bars hold and what they do not.

    Args:
        level: Confidence level of intervals.
    """
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

    Args:
        phase: What was found.
        measurements: The measurements behind it.
        settings: The study's settings; ``"procedure.window_s"`` and its like are used.
    """
    said = [
        _what(phase, measurements),
        _how(phase, settings),
        _validity(phase),
        _comparison(phase),
        f"Absolute energies carry the calibration class of the boards' power sensors (some "
        f"{SENSOR_CLASS:.0%}), which cancels in ratios.",
    ]
    return " ".join(text for text in said if text)


def grid_paragraph(phase: KnobPhase, measurements: Sequence[Measurement]) -> str:
    """Describe how a phase of a study of knobs was measured, in sentences to quote."""
    num_boards = len(phase.boards)
    boards = f"{num_boards} {board_words(phase.boards[0])} board{'s' if num_boards > 1 else ''}"
    drivers = ", ".join(sorted({board.driver_version for board in phase.boards}))
    num_invalid = sum(bool(exclusion.findings) for exclusion in phase.exclusions)
    num = sum(row.num_valid + row.num_invalid for row in phase.rows)
    return (
        f"Energy and time per {phase.unit} of {phase.title} were measured with "
        f"{software_words(measurements)} on {boards} (driver {drivers}) at the driver's own clocks "
        f"for {len(phase.rows)} combinations of "
        f"{' and '.join(axis.knob for axis in phase.axes)}, in randomised blocks. {num_invalid} of "
        f"{num} measurements broke the validity contract or could not be made, and were excluded. "
        "An additive model of combinations and boards was fitted to the logarithms by least "
        f"squares; ratios to the first row have {phase.level:.0%} confidence intervals (Student's "
        "t, or the stated uncertainties where these are wider). Absolute energies carry the "
        f"calibration class of the boards' power sensors (some {SENSOR_CLASS:.0%}), which cancels "
        "in ratios."
    )


def _what(phase: PhaseResult, measurements: Sequence[Measurement]) -> str:
    num = len(phase.boards)
    boards = f"{num} {device_words(phase)} board{'s' if num > 1 else ''}"
    drivers = ", ".join(sorted({board.driver_version for board in phase.boards}))
    knobs = ", ".join(f"{name} {value}" for name, value in phase.knobs)
    points = len([row for row in phase.rows if not row.point.is_default])
    return (
        f"Energy and time per {phase.unit} of {phase.title}{f' ({knobs})' if knobs else ''} were "
        f"measured with {software_words(measurements)} on {boards} (driver {drivers}) at the "
        f"driver's default and at {points} other operating point{'' if points == 1 else 's'}."
    )


def _how(phase: PhaseResult, settings: Mapping[str, KnobValue]) -> str:
    source = f"Energy was taken from {SOURCES[phase.source]}. " if phase.source else ""
    window_s, windows = settings.get("procedure.window_s"), settings.get("procedure.min_windows")
    if window_s is None or windows is None:
        return source.rstrip()
    return (
        f"{source}After a warm-up until power and temperature were steady, each measurement took "
        f"at least {windows} windows of at least {window_s:g} s, each a whole number of units of "
        f"work, at an operating point that had been read back. Operating points ran in "
        f"random order in blocks, each block holding every point once"
        + (", with the default repeated between them as a sentinel." if phase.drifts else ".")
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
    if phase.best is None or len(phase.measured) < 2:
        return ""
    aim = OBJECTIVE_NAMES[phase.objective]
    scatter = (
        f"; one measurement scatters by {phase.repeat_sd:.2%} about it"
        if phase.repeat_sd is not None
        else ""
    )
    return (
        "An additive model of operating points and boards was fitted to the logarithms by least "
        f"squares ({phase.dof} residual degrees of freedom{scatter}). Savings are ratios to the "
        f"driver's default with {phase.level:.0%} confidence intervals (Student's t). The points "
        f"that cannot be told apart from the lowest {aim} were found by multiple comparisons with "
        f"the best (Hsu 1984; one-sided Dunnett margins), so that the set holds the truly lowest "
        f"with at least {phase.level:.0%} confidence."
    )
