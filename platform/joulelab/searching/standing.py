"""Which measured configurations may be the best, by how much, and what they save."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from joulelab.core.additive import AdditiveFit, Interval, fit_additive
from joulelab.core.comparison import best_set
from joulelab.core.configuration import Configuration
from joulelab.core.lines import lines_of, scatter_of, with_scatter
from joulelab.searching.base import (
    BOARD_ENERGY_SD,
    BOARD_TIME_SD,
    Cost,
    Figures,
    board_cost_sd,
    cost_of,
    log_energy,
    log_time,
)
from joulelab.searching.evidence import Evidence, combined

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a search stands."""

    best: Configuration  # the configuration to choose now
    # Itself, those that are statistically indistinguishable from it, and those that may cost less
    # and of which it is open whether they keep to the constraints.
    members: tuple[Configuration, ...]
    possible_regret: float = 0.0  # by how much the best of them may cost less than best, relative
    # The same as far as more repeats can tell, were the quality exactly known.
    open_regret: float = 0.0
    is_feasible: bool  # whether best keeps to the constraints with the confidence asked for
    level: float  # confidence that the best measured configuration is among members
    # By how much the logarithm of a cost scatters between repeats; None without any. Of recordings
    # that do not repeat, about smooth curves.
    scatter: float | None = None
    # Whether nothing tells how recordings scatter, so that any may be the best.
    is_open: bool = False


def standing(evidence: Evidence, *, level: float = LEVEL) -> Standing | None:
    """Say which measured configurations may be the best; ``None`` before any was measured.

    Those that are likely not to keep to a constraint are none of them. As long as nothing keeps to
    all constraints, the best is what comes nearest to that, and has no equals. Raises
    MeasurementError if the cost or a bounded quantity was not measured.
    """
    ranked = evidence.ranked()
    if not ranked:
        return None
    first = ranked[0]
    if not evidence.judgement(first).is_feasible:
        return Standing(best=first, members=(first,), is_feasible=False, level=level)
    kept = [each for each in ranked if evidence.judgement(each).is_feasible]
    fit, _ = cost_fit(evidence, kept)
    space = evidence.problem.space
    best, *equals = (space[int(name)] for name in best_set(fit, level=level).members)
    doubtful = _doubtful(evidence, ranked, best, level)
    lows = _lows(evidence, fit, equals, best, level) | doubtful
    exact, _ = _fit_of_exact_quality(evidence, kept)
    open_lows = _lows(evidence, exact, equals, best, level) | doubtful
    return Standing(
        best=best,
        members=(best, *lows),
        possible_regret=_regret(lows),
        open_regret=_regret(open_lows),
        is_feasible=True,
        level=level,
        scatter=exact.residual_sd,
        is_open=exact.is_open,
    )


def fit_of(
    evidence: Evidence,
    configurations: Sequence[Configuration],
    quantity: Callable[[Figures], Cost],
    board_sd: float,
) -> tuple[AdditiveFit, list[Configuration]]:
    """Fit a quantity of the repeats of configurations, with the boards taken out.

    ``board_sd`` is by how much its logarithm differs between boards of one kind. Returns the fit,
    by :meth:`Evidence.name`, and the configurations in it: those of finite logarithms. Recordings
    state no uncertainty: where none of these repeats, all tell how they scatter.
    """
    fit, fitted = _fit_of_repeats(evidence, configurations, quantity, board_sd)
    if fit.dof or not evidence.is_replayed:
        return fit, fitted
    whole, every = _fit_of_repeats(evidence, evidence.measured, quantity, board_sd)
    lines = lines_of({evidence.name(each): each for each in every})
    return with_scatter(fit, scatter_of(whole, lines)), fitted


def _fit_of_repeats(
    evidence: Evidence,
    configurations: Sequence[Configuration],
    quantity: Callable[[Figures], Cost],
    board_sd: float,
) -> tuple[AdditiveFit, list[Configuration]]:
    rows = [
        (configuration, figures.board, quantity(figures))
        for configuration in configurations
        for figures in evidence.repeats(configuration)
    ]
    rows = [row for row in rows if isfinite(row[2].log)]
    fit = fit_additive(
        [evidence.name(configuration) for configuration, _, _ in rows],
        [board for _, board, _ in rows],
        [cost.log for _, _, cost in rows],
        [cost.u for _, _, cost in rows],
        board_sd=board_sd,
    )
    return fit, list(dict.fromkeys(configuration for configuration, _, _ in rows))


def cost_fit(
    evidence: Evidence, configurations: Sequence[Configuration]
) -> tuple[AdditiveFit, list[Configuration]]:
    """Fit the cost as :func:`fit_of` does, with the quality's error, which repeats share.

    All configurations of the same outputs share it as well, so that it cancels between them.
    """
    fit, fitted = _fit_of_exact_quality(evidence, configurations)
    error = _quality_error(evidence, fitted)
    scatter = fit.scatter + error if fit.dof else fit.scatter
    return replace(fit, scatter=scatter, stated=fit.stated + error), fitted


def _fit_of_exact_quality(
    evidence: Evidence, configurations: Sequence[Configuration]
) -> tuple[AdditiveFit, list[Configuration]]:
    objective = evidence.problem.objective
    return fit_of(
        evidence,
        configurations,
        lambda figures: cost_of(objective, replace(figures, retention_u=None)),
        board_cost_sd(objective),
    )


def _quality_error(
    evidence: Evidence, configurations: Sequence[Configuration]
) -> NDArray[np.float64]:
    """Return the covariance of logarithms of cost from the errors of quality."""
    exponent, known = evidence.problem.objective.quality_exponent, evidence.problem.qualities
    outputs = [known[c.knobs].outputs if c.knobs in known else c.knobs for c in configurations]
    same = np.array([[one == other for other in outputs] for one in outputs], dtype=np.float64)
    means = [evidence.mean(each) for each in configurations]
    u = [figures.retention_relative_u if figures else 0.0 for figures in means]
    return np.asarray(exponent**2 * np.outer(u, u) * same)


def _lows(
    evidence: Evidence,
    fit: AdditiveFit,
    configurations: Sequence[Configuration],
    best: Configuration,
    level: float,
) -> dict[Configuration, float]:
    """Return the least that each may cost over ``best``."""
    return {
        each: fit.ratio(evidence.name(each), evidence.name(best), level=level).low
        for each in configurations
    }


def _regret(lows: Mapping[Configuration, float]) -> float:
    return max(0.0, 1.0 - min(lows.values(), default=1.0))


def _doubtful(
    evidence: Evidence, ranked: Sequence[Configuration], best: Configuration, level: float
) -> dict[Configuration, float]:
    """Return what may cost less than ``best`` and may keep to the constraints.

    The values are the least that each may cost over ``best``.
    """
    least = 1.0 - evidence.problem.confidence
    doubtful = [
        each
        for each in ranked
        if not evidence.judgement(each).is_feasible and evidence.judgement(each).probability > least
    ]
    fit, fitted = cost_fit(evidence, [best, *doubtful])
    lows = _lows(evidence, fit, fitted, best, level)
    return {each: low for each, low in lows.items() if each != best and low < 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A configuration, all its repeats together, with ratios to the baseline.

    An energy ratio of 0.73 saves 27 %. ``cost_ratio`` is ``None`` where the cost has no bound,
    because nothing of the quality is kept.
    """

    figures: Figures
    energy_ratio: Interval
    time_ratio: Interval
    cost_ratio: Interval | None


def compared(evidence: Evidence, *, level: float = LEVEL) -> dict[Configuration, Compared]:
    """Return everything measured against the baseline, which is, the first measured first."""
    baseline = evidence.problem.space.baseline
    energy, fitted = fit_of(evidence, evidence.measured, log_energy, BOARD_ENERGY_SD)
    time, _ = fit_of(evidence, evidence.measured, log_time, BOARD_TIME_SD)
    cost, costed = cost_fit(evidence, evidence.measured)

    def ratio(fit: AdditiveFit, configuration: Configuration) -> Interval:
        return fit.ratio(evidence.name(configuration), evidence.name(baseline), level=level)

    return {
        each: Compared(
            figures=_average(evidence, each, energy, time),
            energy_ratio=ratio(energy, each),
            time_ratio=ratio(time, each),
            cost_ratio=ratio(cost, each) if each in costed else None,
        )
        for each in fitted
    }


def _average(
    evidence: Evidence, configuration: Configuration, energy: AdditiveFit, time: AdditiveFit
) -> Figures:
    name = evidence.name(configuration)
    energy_j, time_s = energy.value(name), time.value(name)
    return replace(
        combined(evidence.repeats(configuration)),
        energy_j=energy_j,
        energy_u_j=energy_j * energy.relative_u(name),
        time_s=time_s,
        time_u_s=time_s * time.relative_u(name),
        power_w=energy_j / time_s,
    )
