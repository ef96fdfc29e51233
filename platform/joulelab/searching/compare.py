"""Everything that a search measured against its baseline, with boards taken out."""

from dataclasses import dataclass, replace

from joulelab.core.additive import AdditiveFit, Interval
from joulelab.core.configuration import Configuration
from joulelab.searching.base import Figures
from joulelab.searching.cost import BOARD_ENERGY_SD, BOARD_TIME_SD, log_energy, log_time
from joulelab.searching.evidence import Evidence, combined
from joulelab.searching.standing import LEVEL, cost_fit, fit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A configuration against the baseline.

    Attributes:
        figures: Its energy and time on the average board and the rest as measured, repeats taken
            together, with standard uncertainties.
        energy_ratio: Its energy over the baseline's; 0.73 saves 27 %.
        time_ratio: Its time over the baseline's.
        cost_ratio: Its cost over the baseline's; ``None`` where its cost has no bound, because
            nothing of the quality is kept.
    """

    figures: Figures
    energy_ratio: Interval
    time_ratio: Interval
    cost_ratio: Interval | None


def compared(evidence: Evidence, *, level: float = LEVEL) -> dict[Configuration, Compared]:
    """Return everything measured against the baseline, the first measured first.

    Args:
        evidence: What was measured, the baseline included.
        level: Confidence of the intervals.
    """
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
    )
