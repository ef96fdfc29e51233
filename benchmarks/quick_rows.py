"""Rows of quick points and of references beside each other, and what they come to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import Literal, get_args

import numpy as np

from joulelab.core.energy import relative_half_width
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.procedure import Pace, Procedure

Manner = Literal["quick", "going on", "reference"]
"""Quickly, by the reference's windows right after a quick point, or by the reference from rest."""
JITTER = 0.01
"""Scatter of the reference's window times, or change of pace from it to a quick point, relative,
above which the host is said to jitter."""
GOAL = 0.01
WARMER_C = 3.0
"""From so much on a temperature is named among reasons; 0.1 to 0.7 % a kelvin by power."""


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
    warmup_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One phase of one measurement; an invalid one has its reason instead of numbers."""

    case: str
    phase: str
    asked: Manner
    pace: Pace
    took_s: float
    reason: str
    numbers: Numbers | None
    is_cut: bool = False  # whether the reference would have gone on if there had been time


def row_of(
    case: str, asked: Manner, took_s: float, found: Measurement, procedure: Procedure
) -> Row:
    """Return the row of a measurement."""
    usual = Procedure()
    is_short = procedure.window_s < usual.window_s
    is_open = found.observed.warmup_steady is False or (
        bool(found.windows) and relative_half_width(found.windows) > procedure.relative_ci
    )
    return Row(
        case=case,
        phase=found.phase,
        asked=asked,
        pace=found.pace,
        took_s=took_s,
        reason=found.reason,
        numbers=numbers_of(found) if found.valid else None,
        is_cut=asked != "quick" and (is_short or (is_open and procedure.limit_s < usual.limit_s)),
    )


def all_again(rows: Iterable[Row]) -> list[Row]:
    """Return rows of configurations of which no phase was measured quickly when it was to be."""
    quick = grouped_by((row for row in rows if row.asked == "quick"), lambda row: row.case)
    return [
        row
        for of_case in quick.values()
        for row in of_case
        if all(each.pace == "reference" for each in of_case)
    ]


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
        warmup_s=found.observed.warmup_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One phase of one configuration: quick points beside the reference that went on from them.

    Where none did, as in files of before, beside the first from rest.

    Attributes:
        off: Relative difference in energy per unit of each quick point.
        paced_off: The same at the reference's pace: without what the board draws at rest for as
            long as the host took more; ``None`` where its power at rest is not known.
        u: Standard uncertainty of each, of both measurements together.
        itself: The same difference of the next reference; ``None`` where there is none.
        again: Whether it was measured from rest after all, so that nothing was gained.
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
    again: bool
    is_cut: bool

    @property
    def is_paced_alike(self) -> bool:
        """Whether the host kept one pace, within the reference and from it to quick points."""
        return self.jitter <= JITTER and abs(self.time_off) <= JITTER

    @property
    def why(self) -> str:
        """What may have made a quick point differ."""
        known_c = [each for each in self.temperatures_c if each is not None]
        warmer_c = known_c[1] - known_c[0] if len(known_c) == 2 else 0.0
        reasons = {
            f"times of the reference's windows scatter by {self.jitter:.1%}": self.jitter > JITTER,
            f"the host took {self.time_off:+.1%} of time": abs(self.time_off) > JITTER,
            f"at the power limit for {self.cap_share or 0:.0%} of the time": self.cap_share,
            f"{warmer_c:+.0f} C": abs(warmer_c) >= WARMER_C,
            f"its own interval is {1.96 * fmean(self.u):.1%}": 1.96 * fmean(self.u) > GOAL,
            "the reference had to end early": self.is_cut,
        }
        return ", ".join(reason for reason, holds in reasons.items() if holds) or "not known"

    def __str__(self) -> str:
        own = "" if self.itself is None else f", reference again {self.itself:+.2%}"
        paced = "" if self.paced_off is None else f", at its pace {self.paced_off.mean():+.2%}"
        return (
            f"{self.name}: {self.energy_j:.5g} J +- {self.energy_u_j / self.energy_j:.2%}, quick "
            f"{self.off.mean():+.2%} +- {1.96 * fmean(self.u):.2%} (95 %; "
            f"{', '.join(f'{each:+.2%}' for each in self.off)}){own}, "
            f"time {self.time_off:+.2%}{paced}, {self.temperatures_c} C, "
            f"jitter {self.jitter:.2%}, cap share {self.cap_share}"
            f"{', reference cut' if self.is_cut else ''}{', again from rest' if self.again else ''}"
        )


def report(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line per phase, and what the goals are about."""
    compared = []
    at_rest_w = [row.numbers.idle_w for row in rows if row.numbers and row.numbers.idle_w]
    idle_w = fmean(at_rest_w) if at_rest_w else None
    for name, of_phase in grouped_by(rows, lambda row: f"{row.case} {row.phase}").items():
        found = compared_of(name, of_phase, idle_w)
        if found:
            compared.append(found)
            yield str(found)
        else:
            told = (f"{row.asked}: {row.reason or 'valid'}" for row in of_phase)
            yield f"{name}: not compared: {'; '.join(told)}"
    for kind, cases in (
        ("steady host", [each for each in compared if each.is_paced_alike and not each.again]),
        ("jittering host", [each for each in compared if not (each.is_paced_alike or each.again)]),
    ):
        if cases:
            yield f"{kind}: {summary(cases)}"
            yield from (
                f"  further than {GOAL:.0%}: {each.name} {each.off.mean():+.2%}: {each.why}"
                for each in cases
                if abs(each.off.mean()) > GOAL
            )
    yield from seconds(rows)


def compared_of(name: str, rows: Sequence[Row], idle_w: float | None) -> Compared | None:
    """Compare the valid rows of a phase; ``None`` without a reference and a quick point.

    ``idle_w`` is what the board draws at rest, where the reference had no idle window.
    """
    quick = [(row, row.numbers) for row in rows if row.asked == "quick" and row.numbers]
    whole = [(row, row.numbers) for row in rows if row.asked != "quick" and row.numbers]
    whole.sort(key=lambda each: each[0].asked)  # those that went on first
    if not (whole and quick):
        return None
    first_row, first = whole[0]
    scale_j = first.energy_j
    off = np.array([each.energy_j for _, each in quick]) / scale_j - 1
    later_s = np.array([each.time_s for _, each in quick]) - first.time_s
    rest_w = first.idle_w or idle_w
    return Compared(
        name=name,
        energy_j=scale_j,
        energy_u_j=first.energy_u_j,
        off=off,
        paced_off=None if rest_w is None else off - rest_w * later_s / scale_j,
        u=np.hypot([each.energy_u_j for _, each in quick], first.energy_u_j) / scale_j,
        itself=whole[1][1].energy_j / scale_j - 1 if len(whole) > 1 else None,
        time_off=fmean(each.time_s for _, each in quick) / first.time_s - 1,
        temperatures_c=(first.temperature_c, quick[-1][1].temperature_c),
        jitter=max(each.time_cv for _, each in whole),
        cap_share=first.power_cap_share,
        is_cut=first_row.is_cut,
        again=all(row.pace == "reference" for row, _ in quick),
    )


def summary(cases: Sequence[Compared]) -> str:
    """Return in words how far quick points are from the reference."""
    off, u = (np.concatenate([getattr(each, name) for each in cases]) for name in ("off", "u"))
    own = [each.itself for each in cases if each.itself is not None]
    itself = f" (reference from itself {_rms(np.array(own)):.2%} of {len(own)})" if own else ""
    paced_off = [each.paced_off for each in cases if each.paced_off is not None]
    paced = f", {_rms(np.concatenate(paced_off)):.2%} at its pace" if paced_off else ""
    num_cut = sum(each.is_cut for each in cases)
    return (
        f"{len(cases)} phases, rms {_rms(off):.2%}{itself}{paced}, mean {off.mean():+.2%}, 95 % "
        f"intervals hold the reference in {np.mean(np.abs(off) <= 1.96 * u):.1%} of {len(off)}"
        + (f"; {num_cut} references had to end early" if num_cut else "")
    )


def seconds(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what the manners took of the device, and how often less quick points did."""
    again = {row.case for row in all_again(rows)}
    trials = grouped_by(rows, lambda row: (row.asked, row.case))
    took_s = {key: fmean(row.took_s for row in found) for key, found in trials.items()}
    for manner in get_args(Manner):
        found_s = [took_s[key] for key in trials if key[0] == manner]
        if found_s:
            yield f"{manner}: {len(found_s)} configurations, {sum(found_s):.0f} s"
    if again:
        yield f"nothing gained, for it was not even quickly: {', '.join(sorted(again))}"
    pairs = [
        (took_s["reference", case], took_s["quick", case])
        for _, case in trials
        if {("reference", case), ("quick", case)} <= trials.keys() and case not in again
    ]
    pairs = list(dict.fromkeys(pairs))
    if pairs:
        total_s, quick_s = map(sum, zip(*pairs, strict=True))
        yield (
            f"{len(pairs)} configurations both ways: {total_s:.0f} s from rest, {quick_s:.0f} s "
            f"quickly, {total_s / quick_s:.1f}x, "
            f"{median(whole / quick for whole, quick in pairs):.1f}x in the median"
        )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
