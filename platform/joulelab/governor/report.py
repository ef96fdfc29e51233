"""What a governor did, and what that saved."""

from dataclasses import dataclass

from joulelab.core.point import OperatingPoint
from joulelab.errors import MeasurementError
from joulelab.governor.comparison import Comparison, compare
from joulelab.governor.governor import Governor
from joulelab.governor.phase import Phase
from joulelab.governor.rules import Rules
from joulelab.objectives import without_quality

UNSTEADY = (
    "The load never became steady: most of the time belongs to no phase, since phases are shorter "
    "than a look or no two are alike. It was left to the driver's own clock."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseReport:
    """A phase, and what was chosen for it."""

    name: str  # what its counters look like, and its number
    share: float  # share of the time
    point: OperatingPoint  # what was set for it last
    default_sm_clock_mhz: float | None  # SM clock that the driver chose; None if that was not seen
    default_power_w: float | None  # power there
    power_w: float | None  # power at the point; None if that was never in force long enough
    # Time of its work there over that at the driver's clock, less 1, by its counters; None if they
    # tell nothing of it.
    slowdown: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorReport:
    """What a governor did."""

    uuid: str
    gpu: str
    strategy: str
    rules: Rules
    duration_s: float
    # What that changed; None where reason says why it is not known.
    comparison: Comparison | None
    reason: str  # why not; empty if it is
    observing_only: str  # why nothing was set, or nothing more; empty if clocks were
    phases: tuple[PhaseReport, ...]  # what was recognised, the longest first
    num_changes: int  # how often the point was changed
    throttled_s: float  # time in which a power limit or heat held the clock down
    cpu_share: float  # share of one core that it took
    notes: tuple[str, ...]  # what else a reader must know


def report(governor: Governor) -> GovernorReport:
    """Return what a governor, which must have been stopped, did."""
    identity, rules = governor.device.identity(), governor.rules
    comparison, reason = _compared(governor)
    duration_s = governor.watched_s
    if governor.steadiness.is_unsteady:
        governor.notes.append(UNSTEADY)
    phases = sorted(governor.recogniser.phases, key=lambda each: -each.duration_s)
    return GovernorReport(
        uuid=identity.uuid,
        gpu=identity.name,
        strategy=governor.strategy.name,
        rules=rules,
        duration_s=duration_s,
        comparison=comparison,
        reason=reason,
        observing_only=governor.observing_only,
        phases=tuple(_phase_report(governor, phase, duration_s) for phase in phases),
        num_changes=governor.num_changes,
        throttled_s=governor.throttled_s,
        cpu_share=governor.cpu_s / duration_s if duration_s else 0.0,
        notes=tuple(governor.notes),
    )


def _compared(governor: Governor) -> tuple[Comparison | None, str]:
    """Return what governing changed, or why that is not known."""
    if not governor.rules.off_share:
        return None, (
            "No block was left to the driver, so there is nothing to compare with; give "
            "--off-share."
        )
    if not governor.num_changes:
        return None, "The point was never changed, so there is nothing to compare."
    try:
        objective = without_quality(governor.rules.objective)
        return compare(governor.schedule.blocks, objective), ""
    except MeasurementError as error:
        return None, str(error)


def _phase_report(governor: Governor, phase: Phase, duration_s: float) -> PhaseReport:
    point = governor.chooser.chosen.get(phase.number, OperatingPoint())
    reference, there = phase.reference, phase.tallies.get(point)
    slowdown = None
    if phase.is_idle:
        slowdown = 0.0
    elif reference is not None and there is not None and phase.is_countable:
        slowdown = reference.speed.mean / there.speed.mean - 1.0
    return PhaseReport(
        name=phase.name,
        share=phase.duration_s / duration_s if duration_s else 0.0,
        point=point,
        default_sm_clock_mhz=None if reference is None else reference.sm_clock_mhz.mean,
        default_power_w=None if reference is None else reference.power_w.mean,
        power_w=None if there is None else there.power_w.mean,
        slowdown=slowdown,
    )
