"""How a study was measured and compared, as a paragraph that a paper may quote."""

from collections.abc import Mapping, Sequence
from math import floor
from statistics import median

from joulelab.analysis.knob_study import KnobPhase
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_wording import payback
from joulelab.analysis.sweep import PhaseResult
from joulelab.analysis.templates import text
from joulelab.analysis.wording import boards_words, constraint_words, software_words
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import LONGEST_FOLLOWING_S, Procedure
from joulelab.objectives import OBJECTIVES

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


def methods_paragraph(
    phase: PhaseResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
) -> str:
    """Describe how ``phase`` was measured, in sentences that a paper may quote.

    Of ``settings``, those of the procedure are used: ``"procedure.window_s"`` and its like.
    """
    facts = {"aim": OBJECTIVES[phase.objective].label}
    return _paragraph("sweep", phase, measurements, settings, facts)


def grid_paragraph(phase: KnobPhase, measurements: Sequence[Measurement]) -> str:
    """Describe how a phase of a study of knobs was measured, in sentences to quote."""
    return _paragraph("grid", phase, measurements, {}, {})


def search_paragraph(
    result: SearchResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
) -> str:
    """Describe how a search was done, likewise."""
    found, repeats_c = result.answer, _temperatures_c(measurements)
    facts = {
        "algorithms": _ALGORITHMS,
        "phases": sorted({m.phase for m in measurements}),
        "limits": [constraint_words(each) for each in result.problem.constraints],
        "heat_c": [value for values in repeats_c for value in values],
        "apart_k": max((max(values) - min(values) for values in repeats_c), default=0.0),
        "after": payback(found, result.problem, of=f"{found.standing.level:.0%} interval "),
    }
    procedure = {name.removeprefix("lab."): value for name, value in settings.items()}
    return _paragraph("search", result, measurements, procedure, facts)


def _paragraph(
    kind: str,
    found: PhaseResult | KnobPhase | SearchResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
    facts: Mapping[str, object],
) -> str:
    quick = [each for each in measurements if each.pace == "quick"]
    lengths_s = [window.duration_s for each in quick for window in each.windows]
    return text(
        "methods.txt.j2",
        kind=kind,
        found=found,
        software=software_words(measurements),
        boards=boards_words(found.boards),
        window_s=settings.get("procedure.window_s"),
        min_windows=settings.get("procedure.min_windows"),
        num_measurements=len(measurements),
        quick=quick,
        disturbed=_disturbed(measurements),
        shortest_s=floor(10 * min(lengths_s, default=0.0)) / 10,
        following=Procedure().following(),
        longest_following_s=LONGEST_FOLLOWING_S,
        **facts,
    )


def _disturbed(measurements: Sequence[Measurement]) -> tuple[float, float] | None:
    """Return for what share of a measurement others slowed the host: the median, and the most."""
    shares = [each.observed.host_disturbed_share for each in measurements if each.valid]
    known = [share for share in shares if share is not None]
    return (median(known), max(known)) if known else None


def _temperatures_c(measurements: Sequence[Measurement]) -> list[list[float]]:
    """Return the temperatures at the end of valid measurements, repeats together."""
    found: dict[str, list[float]] = {}
    for each in measurements:
        if each.valid and each.observed.temperature_stop_c is not None:
            name = f"{each.configuration.config_hash} {each.phase}"
            found.setdefault(name, []).append(each.observed.temperature_stop_c)
    return list(found.values())
