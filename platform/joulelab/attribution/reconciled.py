"""What profiles, prices and meter say together, board by board and of all boards."""

from collections.abc import Mapping, Sequence

from joulelab.attribution.attribution import Phase, PhaseAttribution, whole_weights
from joulelab.attribution.collectives import apart
from joulelab.attribution.estimated import EstimatedCall
from joulelab.attribution.metered import Metered, Readings
from joulelab.attribution.prices import Prices, Pricing, Run, reconcile
from joulelab.attribution.profile import PhaseProfile
from joulelab.attribution.shared import SharedPhase
from joulelab.core.measurement import Measurement
from joulelab.errors import MeasurementError
from joulelab.workloads.sums import waiting_figure


def with_waiting(
    ranks: Sequence[tuple[PhaseProfile, ...]], measured: Mapping[str, Measurement]
) -> list[tuple[PhaseProfile, ...]]:
    """Return the profiles of ranks with what each was metered to wait for the others."""
    phases = []
    for profiles in zip(*ranks, strict=True):
        read, work = measured[profiles[0].phase], profiles[0].work
        waits_s = [work * each_s for each_s in _waits_s(read, len(ranks))]
        phases.append(apart(profiles, waits_s, work * Metered.of(read, static_w=0.0).time_s))
    return list(zip(*phases, strict=True))


def _waits_s(read: Measurement, num_ranks: int) -> list[float]:
    """Return what each rank waited, in seconds per unit of work."""
    figures, names = dict(read.figures), list(map(waiting_figure, range(num_ranks)))
    if missing := [name for name in names if name not in figures]:
        raise MeasurementError(
            f"{read.phase} cannot be attributed on {num_ranks} GPUs without what each waited for "
            f"the others, but the measurement has no {', '.join(missing)}; measure it again."
        )
    return [figures[name] for name in names]


def board_phases(
    board: Readings,
    profiles: tuple[PhaseProfile, ...],
    pricing: Pricing,
    estimates: Mapping[str, tuple[EstimatedCall, ...]],
) -> tuple[PhaseAttribution, ...]:
    """Price the kernels of all phases on one board, and reconcile them with its meter."""
    prices = pricing.prices(profiles, board.measured)
    runs = tuple(_run(profile, board.metered[profile.phase], prices) for profile in profiles)
    prior = prices.with_static(board.static_w, board.static_u_w)
    found = reconcile(prior, runs)
    return tuple(
        PhaseAttribution(
            profile=profile,
            energy_j=run.energy_j,
            energy_u_j=run.energy_u_j,
            time_s=profile.work * board.metered[profile.phase].time_s,
            closure=prior.of(run.weights)[0] / run.energy_j - 1,
            deviation=deviation,
            prices=prices,
            prior=prior,
            solution=found.solution if is_used else prior,
            estimated=estimates.get(profile.phase, ()),
        )
        for profile, run, deviation, is_used in zip(
            profiles, runs, found.deviations, found.used, strict=True
        )
    )


def of_boards(boards: Sequence[PhaseAttribution]) -> Phase:
    """Return a phase of one board, or the sum of several."""
    return boards[0] if len(boards) == 1 else SharedPhase.of(boards)


def _run(profile: PhaseProfile, metered: Metered, prices: Prices) -> Run:
    return Run(
        weights=whole_weights(prices, profile, profile.work * metered.time_s),
        energy_j=profile.work * metered.energy_j,
        energy_u_j=profile.work * metered.energy_u_j,
    )
