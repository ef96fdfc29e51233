"""Phases that several boards share: each board apart, and the whole as their sum."""

from collections.abc import Callable, Sequence
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
)
from joulelab.attribution.profile import KernelCall
from joulelab.core.grouping import grouped_by
from joulelab.tracing.program import Operator


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
