"""What members are worth, by groups that were left out: weights, tails, and choices of clocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from joulelab.objectives import EDP
from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import LEFT_OUT_AT
from joulelab.power_models.decision import CHOSEN_BY, Sweep, fixed_regrets, is_tried, regret
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Flags, Index, Names

_NUM_FOLDS = 5
_DOUBT = 2.0
"""Held-out groups that equal weights count for: with few, nothing is known to be better."""
_TAIL = 0.9
_ROUNDS = 10
LEAST_ERROR = 1e-3
_SURE = 1.0  # standard errors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """Errors of all members for groups that were left out."""

    group: Names  # which group each row was left out with; shape (n,)
    row: Index  # which row of the table it is, as often as that was left out
    log_ratio: Array  # log of the clock ratio
    errors: Array  # logs of measured over predicted, shape (members, anchor sets, n)

    def beside(self, time: "LeftOut") -> "LeftOut":
        """Return these errors of power, those of time, and those of the EDP of both."""
        a, b = EDP.energy_exponent, EDP.time_exponent
        edp = a * self.errors + (a + b) * time.errors
        return LeftOut(
            group=np.tile(self.group, 3),
            row=np.tile(self.row, 3),
            log_ratio=np.tile(self.log_ratio, 3),
            errors=np.concatenate([self.errors, time.errors, edp], axis=2),
        )

    def of_rows(self, weights: Array) -> Array:
        """Return the weighed errors of each row of the table, 0 at anchors.

        Shape (sets, rows, how often each was left out).
        """
        errors = np.nan_to_num(np.einsum("sm,msn->sn", weights, self.errors))
        in_order = errors[:, np.argsort(self.row, kind="stable")]
        return np.asarray(in_order.reshape(len(weights), len(np.unique(self.row)), -1))


def left_out_by(
    members: Sequence[PowerModel], queries: Queries, values: Array, held_out: Names
) -> LeftOut | None:
    """Return the errors of members for each group of ``held_out``; ``None`` if it is one alone."""
    if len(np.unique(held_out)) < 2:
        return None
    found = [each.errors_left_out(queries, values, held_out, _NUM_FOLDS) for each in members]
    rows = found[0][0]
    return LeftOut(
        group=held_out[rows],
        row=rows,
        log_ratio=np.log(queries.clock_ratio[rows]),
        errors=np.array([errors for _, errors in found]),
    )


def weighed(left_out: LeftOut | None, expected: Array, heard: Flags) -> Array:
    """Return the weights of members after each set of anchors, none negative, of sum 1.

    They have the least sum over groups of the root mean square of what their mean leaves of the
    errors; those ``expected``, shape (anchor sets, members), count for some groups more. Who is not
    ``heard``, shape (members,), has none.
    """
    if left_out is None:
        return expected.copy()
    weights = np.zeros(expected.shape)
    for number, usual in enumerate(expected):
        errors = left_out.errors[heard, number]
        weights[number, heard] = _least(errors, left_out.group, usual[heard])
    return weights


def tails(weights: Array, left_out: LeftOut | None) -> Array:
    """Return what nine of ten errors stay below after each set of anchors; 0 if none is known."""
    if left_out is None:
        return np.zeros(len(weights))
    errors = np.abs(np.einsum("sm,msn->sn", weights, left_out.errors))
    known = [each[~np.isnan(each)] for each in errors]
    return np.array([np.quantile(each, _TAIL) if len(each) else 0.0 for each in known])


def fixed_is_as_good(queries: Queries, measured: Sweep, power: Array, time: Array) -> Flags:
    """Say where one clock ratio for all would have cost no more than the clocks that models choose.

    Each application is left out: models have not seen it, and the ratio is the best of the others.
    It has to be as good for each, where models have nothing to tell them apart by and add but their
    luck, or better by more than noise.

    Args:
        queries: All rows of a table.
        measured: Their ratios of clocks, power, and time over that of the profile.
        power: Logs of measured over predicted power, as :meth:`LeftOut.of_rows` returns them.
        time: The same of time.

    Returns:
        For each set of anchors, by :data:`CHOSEN_BY`; shape (sets, objectives).
    """
    names = np.array([profile.application for profile in queries.profiles])
    rows = [own for _, own in queries.by_profile()]
    sweeps, groups = [measured.rows(own) for own in rows], names[np.unique(queries.profile)]
    found = np.zeros((len(LEFT_OUT_AT), len(CHOSEN_BY)), dtype=bool)
    if len(np.unique(groups)) < 2:
        return found
    for column, objective in enumerate(CHOSEN_BY):
        fixed = _regrets_of_fixed(sweeps, groups, objective)
        for number, anchors in enumerate(LEFT_OUT_AT):
            tried = is_tried(np.log(measured.sm_clock_mhz), np.log(anchors).tolist())
            asked = [own[tried[own]] if tried[own].any() else own for own in rows]
            chosen = [
                _regrets_of(_predicted(measured, *off), sweeps, asked, objective)
                for off in zip(power[number].T, time[number].T, strict=True)
            ]
            more = np.mean(chosen, axis=0) - fixed
            noise = more.std(ddof=1) / np.sqrt(len(more))
            found[number, column] = more.mean() + LEAST_ERROR >= _SURE * noise
    return found


def _predicted(measured: Sweep, power: Array, time: Array) -> Sweep:
    """Return what was predicted, by the logs of what was measured over it."""
    return Sweep(
        sm_clock_mhz=measured.sm_clock_mhz,
        power_w=measured.power_w * np.exp(-power),
        time_s=measured.time_s * np.exp(-time),
    )


def _regrets_of(
    predicted: Sweep, sweeps: Sequence[Sweep], asked: Sequence[Index], objective: str
) -> list[float]:
    """Return the regret of the least predicted cost of some rows, for each sweep."""
    chosen = [own[predicted.rows(own).best(objective)] for own in asked]
    ratios = predicted.sm_clock_mhz[chosen]
    return [regret(s, float(r), objective) for s, r in zip(sweeps, ratios, strict=True)]


def _regrets_of_fixed(sweeps: Sequence[Sweep], groups: Names, objective: str) -> Array:
    """Return the regret of the ratio that is best for all others, for each sweep."""
    _, regrets = fixed_regrets(sweeps, objective)
    found = np.zeros(len(groups))
    for group in np.unique(groups):
        own = groups == group
        found[own] = regrets[own, int(np.argmin(regrets[~own].mean(axis=0)))]
    return found


def _least(errors: Array, groups: Names, expected: Array) -> Array:
    num_members, weights = len(errors), expected
    known = ~np.isnan(errors).any(axis=0)
    if not known.any():  # all clocks that were measured are anchors
        return weights
    _, which, counts = np.unique(groups[known], return_inverse=True, return_counts=True)
    rows = errors[:, known].T / np.sqrt(counts)[which, None]
    one = 1e3 * np.ones((1, num_members))
    for _ in range(_ROUNDS):
        left = np.sqrt(np.bincount(which, (rows @ weights) ** 2)) + LEAST_ERROR
        tamed = rows / np.sqrt(left)[which, None]
        size = np.sqrt(_DOUBT * np.mean(left))
        system = np.vstack([tamed, size * np.eye(num_members), one])
        aim = np.concatenate([np.zeros(len(rows)), size * expected, one[0, :1]])
        weights = nnls(system, aim)[0]
        weights = weights / weights.sum()
    return np.asarray(weights)
