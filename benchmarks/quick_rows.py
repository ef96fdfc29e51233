"""Rows of quick points and of references beside each other, and what they come to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev

import numpy as np

from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Pace

JITTER = 0.01
"""Scatter of the reference's window times, or change of pace from it to a quick point, relative,
above which the host is said to jitter."""
GOAL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a valid measurement found, per unit of work.

    Attributes:
        time_cv: Scatter of the times of windows, relative.
        idle_w: What the board draws at rest; ``None`` where no idle window was due.
        windows_w: Mean power of each window; empty in files of before.
    """

    energy_j: float
    energy_u_j: float
    time_s: float
    time_cv: float
    temperature_c: float | None
    power_cap_share: float | None
    idle_w: float | None = None
    windows_w: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One phase of one measurement; an invalid one has its reason instead of numbers."""

    case: str
    phase: str
    asked: Pace
    pace: Pace
    took_s: float
    reason: str
    numbers: Numbers | None
    is_cut: bool = False  # whether a budget cut the reference's warm-up and windows


def row_of(
    case: str, asked: Pace, took_s: float, found: Measurement, *, is_cut: bool = False
) -> Row:
    """Return the row of a measurement."""
    return Row(
        case=case,
        phase=found.phase,
        asked=asked,
        pace=found.pace,
        took_s=took_s,
        reason=found.reason,
        numbers=numbers_of(found) if found.valid else None,
        is_cut=is_cut,
    )


def numbers_of(found: Measurement) -> Numbers:
    """Return what a valid measurement found."""
    each_s = [window.duration_s / window.work for window in found.windows]
    return Numbers(
        energy_j=found.energy_per_unit_j,
        energy_u_j=found.energy_per_unit_u_j,
        time_s=found.time_per_unit_s,
        time_cv=pstdev(each_s) / found.time_per_unit_s,
        temperature_c=found.observed.temperature_stop_c,
        power_cap_share=found.observed.power_cap_share,
        idle_w=found.idle_power_w,
        windows_w=tuple(window.energy_j / window.duration_s for window in found.windows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One phase of one configuration: quick points beside the first reference.

    Attributes:
        off: Relative difference in energy per unit of each quick point.
        paced_off: The same at the reference's pace: without what the board draws at rest for as
            long as the host took more; ``None`` where its power at rest is not known.
        u: Standard uncertainty of each, of both measurements together.
        itself: The same difference of the second reference; ``None`` where there is none.
        again: Quick points that were measured again from rest.
    """

    name: str
    energy_j: float
    energy_u_j: float
    off: np.ndarray
    paced_off: np.ndarray | None
    u: np.ndarray
    itself: float | None
    time_off: float
    temperatures_c: tuple[float | None, float | None]
    jitter: float
    cap_share: float | None
    took_s: tuple[float, float]
    again: int
    is_cut: bool

    @property
    def is_paced_alike(self) -> bool:
        """Whether the host kept one pace, within the reference and from it to quick points."""
        return self.jitter <= JITTER and abs(self.time_off) <= JITTER

    def __str__(self) -> str:
        own = "" if self.itself is None else f", reference again {self.itself:+.2%}"
        paced = "" if self.paced_off is None else f", at its pace {self.paced_off.mean():+.2%}"
        return (
            f"{self.name}: {self.energy_j:.5g} J +- {self.energy_u_j / self.energy_j:.2%}, quick "
            f"{self.off.mean():+.2%} +- {1.96 * fmean(self.u):.2%} (95 %; "
            f"{', '.join(f'{each:+.2%}' for each in self.off)}){own}, "
            f"time {self.time_off:+.2%}{paced}, {self.temperatures_c} C, "
            f"jitter {self.jitter:.2%}, cap share {self.cap_share}, "
            f"{self.took_s[0]:.1f} -> {self.took_s[1]:.1f} s, {self.again} again from rest"
        )


def report(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a line per phase, the worse ones again, and what the goals are about."""
    kept = grouped_by(rows, lambda row: f"{row.case} {row.phase}")
    compared = []
    for name, of_phase in kept.items():
        found = compared_of(name, of_phase)
        yield str(found or f"{name}: not compared: {[row.reason for row in of_phase]}")
        compared += [found] if found else []
    for kind, cases in (
        ("steady host", [each for each in compared if each.is_paced_alike]),
        ("jittering host", [each for each in compared if not each.is_paced_alike]),
    ):
        if cases:
            yield f"{kind}: {summary(cases)}"


def compared_of(name: str, rows: Sequence[Row]) -> Compared | None:
    """Compare the valid rows of a phase; ``None`` without a reference and a quick point."""
    whole = [(row, row.numbers) for row in rows if row.asked == "reference" and row.numbers]
    quick = [(row, row.numbers) for row in rows if row.asked == "quick" and row.numbers]
    if not (whole and quick):
        return None
    first_row, first = whole[0]
    scale_j = first.energy_j
    off = np.array([each.energy_j for _, each in quick]) / scale_j - 1
    later_s = np.array([each.time_s for _, each in quick]) - first.time_s
    return Compared(
        name=name,
        energy_j=scale_j,
        energy_u_j=first.energy_u_j,
        off=off,
        paced_off=None if first.idle_w is None else off - first.idle_w * later_s / scale_j,
        u=np.hypot([each.energy_u_j for _, each in quick], first.energy_u_j) / scale_j,
        itself=whole[1][1].energy_j / scale_j - 1 if len(whole) > 1 else None,
        time_off=fmean(each.time_s for _, each in quick) / first.time_s - 1,
        temperatures_c=(first.temperature_c, quick[-1][1].temperature_c),
        jitter=max(each.time_cv for _, each in whole),
        cap_share=first.power_cap_share,
        took_s=(first_row.took_s, fmean(row.took_s for row, _ in quick)),
        is_cut=first_row.is_cut,
        again=sum(row.pace == "reference" for row, _ in quick),
    )


def summary(cases: Sequence[Compared]) -> str:
    """Return in words how far quick points are from the reference, and how much they save."""
    off, u = (np.concatenate([getattr(each, name) for each in cases]) for name in ("off", "u"))
    ratios = [each.took_s[0] / each.took_s[1] for each in cases]
    own = [each.itself for each in cases if each.itself is not None]
    worse = [each.name for each in cases if abs(each.off.mean()) > GOAL]
    itself = f" (reference from itself {_rms(np.array(own)):.2%})" if own else ""
    saved = (
        "references cut by the budget"
        if any(each.is_cut for each in cases)
        else f"time a tenth or less in {sum(each >= 10 for each in ratios)}, "
        f"{median(ratios):.1f}x in the median"
    )
    paced_off = [each.paced_off for each in cases if each.paced_off is not None]
    paced = f", {_rms(np.concatenate(paced_off)):.2%} at its pace" if paced_off else ""
    return (
        f"{len(cases)} phases, rms {_rms(off):.2%}{itself}{paced}, 95 % intervals hold the "
        f"reference in {np.mean(np.abs(off) <= 1.96 * u):.1%} of {len(off)}, {saved}; "
        f"further than {GOAL:.0%}: {', '.join(worse) or 'none'}"
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
