"""What profiles, prices and meter say together, board by board and of all boards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from typing_extensions import override

from joulelab.attribution.attribution import (
    GAPS,
    UNEXPLAINED,
    Phase,
    PhaseAttribution,
    Share,
    whole_weights,
)
from joulelab.attribution.collectives import apart
from joulelab.attribution.estimated import EstimatedCall
from joulelab.attribution.metered import Metered, Readings
from joulelab.attribution.prices import Prices, Pricing, Run, reconcile
from joulelab.attribution.profile import KernelCall, PhaseProfile
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.errors import MeasurementError
from joulelab.tracing.program import Operator
from joulelab.workloads.sums import waiting_figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedPhase(Phase):
    """Where the energy of a phase went on all of its boards.

    What a kernel takes in a program beyond what it takes alone is alike on all boards, so the
    uncertainties of its parts are added; those of the readings are independent.
    """

    @classmethod
    def of(cls, boards: Sequence[PhaseAttribution]) -> Self:
        """Return the sum of boards, all of one phase."""
        priced = [board.prior.of(board.weights) for board in boards]
        energy_j = sum(board.energy_j for board in boards)
        energy_u_j = float(np.linalg.norm([board.energy_u_j for board in boards]))
        notes = dict.fromkeys(note for board in boards for note in board.profile.notes)
        parts_j, parts_u_j = (sum(column) for column in zip(*priced, strict=True))
        return cls(
            profile=replace(boards[0].profile, notes=tuple(notes)),
            energy_j=energy_j,
            energy_u_j=energy_u_j,
            time_s=boards[0].time_s,
            closure=parts_j / energy_j - 1,
            deviation=(energy_j - parts_j) / float(np.hypot(parts_u_j, energy_u_j)),
            boards=tuple(boards),
        )

    @property
    @override
    def is_reconciled(self) -> bool:
        return all(board.is_reconciled for board in self.boards)

    @property
    @override
    def gaps(self) -> Share:
        return self._sum([board.gaps for board in self.boards])

    @override
    def parts(self, key: Callable[[Operator], str]) -> tuple[Share, ...]:
        found = self._summed([board.parts(key) for board in self.boards])
        last = {share.name: share for share in found if share.name in (GAPS, UNEXPLAINED)}
        return (*(share for share in found if share.name not in last), *last.values())

    @override
    def shares(self, key: Callable[[KernelCall], str]) -> tuple[Share, ...]:
        return self._summed([board.shares(key) for board in self.boards])

    def _summed(self, boards: Sequence[Sequence[Share]]) -> tuple[Share, ...]:
        by_name = grouped_by(
            (share for board in boards for share in board), lambda share: share.name
        )
        found = [self._sum(own) for own in by_name.values()]
        return tuple(sorted(found, key=lambda share: -share.energy_j))

    def _sum(self, shares: Sequence[Share]) -> Share:
        """Return the sum of a part over boards; its time is the mean over all of them."""
        us_j = [share.energy_u_j for share in shares]
        times_s = [share.time_s for share in shares if share.time_s is not None]
        estimates_j = [share.estimated_j for share in shares if share.estimated_j is not None]
        is_read = shares[0].name == UNEXPLAINED and self.is_reconciled
        return Share(
            name=shares[0].name,
            energy_j=sum(share.energy_j for share in shares),
            energy_u_j=float(np.linalg.norm(us_j)) if is_read else sum(us_j),
            time_s=sum(times_s) / len(self.boards) if times_s else None,
            calls=sum(share.calls for share in shares),
            estimated_j=sum(estimates_j) if estimates_j else None,
            is_supposed=all(share.is_supposed for share in shares),
        )


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
