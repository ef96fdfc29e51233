"""The recommended member: laws of physics, the mean curve and a forest, weighed by evidence.

What each is worth depends on the table: laws say most of applications whose activities were read,
the mean curve of many that are alike, trees of what no law holds for. So every member predicts
applications that it was not shown, without an anchor, with one and with two, and their logarithms
are averaged with the weights that err least there (stacking: Wolpert 1992; Breiman 1996; van der
Laan et al. 2007). Where the table has several boards, whole boards are left out too, and those
weights hold on boards that are none of its own.

Power and time have the same weights: a member that takes too much time for the work of a clock also
gives it too little power, and of different members such errors no longer cancel in the energy.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.objectives import EDP
from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import LEFT_OUT_AT, Calibration, Correction, Corrections
from joulelab.power_models.decision import CHOSEN_BY, FixedClock, best_fixed_ratios, ridge_mhz
from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.tabular import MeanModel, RandomForestModel
from joulelab.power_models.queries import Profile, Queries
from joulelab.power_models.runs import Array, Names, Pair, Runs

MEMBERS: tuple[type[PowerModel], ...] = (PhysicsModel, MeanModel, RandomForestModel)
_NUM_FOLDS = 5
_DOUBT = 2.0
"""Held-out groups that equal weights count for: with few, nothing is known to be better."""
_TAIL = 0.9
_LEAST_WIDENING = 2.0
"""Of intervals on boards of another kind, where a single one is known or those known are alike."""
_FEW_KINDS = 1.5
"""Wider still: of kinds left out, with all their sources, up to 39 % of powers were missed."""
_EQUAL = np.full((len(LEFT_OUT_AT), len(MEMBERS)), 1.0 / len(MEMBERS))
_BY_LAW = np.where(np.arange(len(LEFT_OUT_AT))[:, None] < 2, np.eye(len(MEMBERS))[0], _EQUAL)
"""Weights on kinds of GPU that were not trained on, which boards that are left out move: the mean
curve and trees have seen nothing of them, while `physics` has their catalogue entry. With equal
ones, powers of five kinds left out were 14.7 % off after one point, with these 12.9 %. After
two points levels are known, and no member is better than the others by more than luck.
"""
_HELD, _RIDGE = ", where its power limit is likely to have held it", ", above which voltage rises"
_HELD_SPREAD = 0.2
"""Nine of ten logs of clocks at which a limit held runs are within so much of the usual one, on an
H100 and an H200."""
_STEEPNESS = {"power_w": 2.0, "time_s": 1.0}
"""To which power of the clock it goes there, at most."""
_ROUNDS = 10
_LEAST_ERROR = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """Errors of all members for groups that were left out."""

    group: Names  # which group each row was left out with; shape (n,)
    log_ratio: Array  # log of the clock ratio
    errors: Array  # logs of measured over predicted, shape (members, anchor sets, n)

    def beside(self, time: "LeftOut") -> "LeftOut":
        """Return these errors of power, those of time, and those of the EDP of both."""
        a, b = EDP.energy_exponent, EDP.time_exponent
        edp = a * self.errors + (a + b) * time.errors
        return LeftOut(
            group=np.tile(self.group, 3),
            log_ratio=np.tile(self.log_ratio, 3),
            errors=np.concatenate([self.errors, time.errors, edp], axis=2),
        )


class StackedModel(PowerModel):
    """The weighted geometric mean of :data:`MEMBERS`."""

    name: ClassVar[str] = "stacked"
    learned_arrays: ClassVar[tuple[str, ...]] = (
        # Elsewhere on boards of kinds that were trained on, and of others, in this order.
        *("weights", "weights_elsewhere", "widening"),
        # By CHOSEN_BY, of clocks of profiles, and of where the voltage rises if that is known
        # of a GPU; empty where no model of time was fitted beside.
        "fixed_ratios",
    )

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        made = [kind(self.target, seed=self.seed, calibration_folds=0) for kind in MEMBERS]
        boards = np.array([profile.gpu for profile in queries.profiles])[queries.profile]
        self.left_out = _left_out(made, queries, values, groups)
        self.left_out_elsewhere = _left_out(made, queries, values, boards)
        self.weigh(self.left_out, self.left_out_elsewhere)
        self.members = [each.taught(queries, values, groups) for each in made]
        self.table, self._fixed_ratios = (queries, values), np.zeros(0)
        return self

    def weigh(self, left_out: LeftOut | None, elsewhere: LeftOut | None) -> None:
        """Take the weights that err least for applications and for boards that were left out."""
        self._weights = _weighed(left_out)
        self._weights_elsewhere = np.array([_weighed(elsewhere), _weighed(elsewhere, _BY_LAW)])
        known = np.maximum(_tails(self._weights, self.left_out), _LEAST_ERROR)
        there = np.array([_tails(w, self.left_out_elsewhere) for w in self._weights_elsewhere])
        self._widening = _FEW_KINDS * np.maximum(there / known, _LEAST_WIDENING)

    @override
    def fitted_beside(self, time: PowerModel) -> None:
        if not isinstance(time, StackedModel):
            return
        self._fixed_ratios = _fixed_ratios(*self.table, time.table[1])
        if self.left_out is None or time.left_out is None:
            return
        elsewhere = None
        if self.left_out_elsewhere is not None and time.left_out_elsewhere is not None:
            elsewhere = self.left_out_elsewhere.beside(time.left_out_elsewhere)
        for each in (self, time):
            each.weigh(self.left_out.beside(time.left_out), elsewhere)
            each.calibrate()

    @override
    def fixed_clock(self, profile: Profile, objective: str) -> FixedClock | None:
        """Return the table's on a board of another kind, unless two points there are known.

        It is a share of the clock above which the voltage rises, if that was measured: from there
        on each clock costs more, wherever the default is.
        """
        is_known = not self._is_other_kind(profile)
        if is_known or self._anchors_of(profile) > 1 or not len(self._fixed_ratios):
            return None
        number, of_mhz = CHOSEN_BY.index(objective), ridge_mhz(profile.spec)
        if len(self._fixed_ratios) > 1 and np.isfinite(of_mhz):
            return FixedClock(ratio=self._fixed_ratios[1, number], of_mhz=of_mhz, of=_RIDGE)
        of_mhz = self.held_mhz.get(profile.pair, profile.clock_mhz)
        of = _HELD if of_mhz < profile.clock_mhz else ""
        return FixedClock(ratio=self._fixed_ratios[0, number], of_mhz=of_mhz, of=of)

    @override
    def answer(self, queries: Queries) -> Array:
        logs = [
            np.log(each.answer(queries)) + each.corrections.log_factor(queries)
            for each in self.members
        ]
        weights = np.empty((len(queries.profiles), len(MEMBERS)))
        trained_on = self.members[0].domain.gpus
        for number, profile in enumerate(queries.profiles):
            elsewhere = self._weights_elsewhere[self._is_other_kind(profile)]
            table = self._weights if profile.gpu in trained_on else elsewhere
            weights[number] = table[self._anchors_of(profile)]
        return np.asarray(np.exp(np.einsum("nm,mn->n", weights[queries.profile], np.array(logs))))

    @override
    def holding(self, held_mhz: Mapping[Pair, float]) -> Self:
        aware = super().holding(held_mhz)
        aware.members = [each.holding(aware.held_mhz) for each in self.members]
        return aware

    @override
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model each of whose members knows some measured points."""
        adapted = copy.copy(self)
        adapted.members = [each.adapt(anchors, profiled=profiled) for each in self.members]
        found = adapted.members[-1].corrections.pairs
        pairs = {
            pair: Correction(offset=0.0, slope=0.0, anchors=c.anchors) for pair, c in found.items()
        }
        adapted.corrections = Corrections(pairs={**self.corrections.pairs, **pairs})
        return adapted

    @override
    def _half_width(self, queries: Queries, level: float) -> Array:
        """Return half widths, wider on other boards and where the clock of a run is not known."""
        trained_on = self.members[0].domain.gpus
        wider, unsure = np.ones(len(queries.profiles)), np.zeros(len(queries.profiles))
        for number, profile in enumerate(queries.profiles):
            num_anchors = self._anchors_of(profile)
            if profile.gpu not in trained_on:
                wider[number] = self._widening[self._is_other_kind(profile), num_anchors]
            if profile.pair in self.held_mhz and num_anchors == 1:
                unsure[number] = _HELD_SPREAD * _STEEPNESS[self.target]
        half = super()._half_width(queries, level) * wider[queries.profile]
        return np.hypot(half, unsure[queries.profile])

    def _is_other_kind(self, profile: Profile) -> int:
        """Return 1 where the kind of GPU was not trained on, and else 0: an index."""
        return int(profile.board not in self.domain.boards)

    def _anchors_of(self, profile: Profile) -> int:
        known = self.corrections.pairs.get(profile.pair)
        return 0 if known is None else min(len(known.anchors), len(LEFT_OUT_AT) - 1)

    def calibrate(self) -> None:
        """Take the errors for applications that were left out, as the weights leave them."""
        if self._calibration is not None:
            self._calibration = self._calibration_of_weights()

    @override
    def _calibrated(self, queries: Queries, values: Array, groups: Names) -> Calibration | None:
        if self.calibration_folds < 2 or len(np.unique(groups)) < 3:
            return None
        return self._calibration_of_weights()

    def _calibration_of_weights(self) -> Calibration | None:
        if self.left_out is None:
            return None
        errors = np.einsum("sm,msn->sn", self._weights, self.left_out.errors)
        return Calibration(
            group=self.left_out.group,
            log_ratio=self.left_out.log_ratio,
            log_error=errors[0],
            anchored_error=errors[1:],
        )

    @override
    def _save_native(self, folder: Path) -> None:
        for each in self.members:
            each.save(folder / each.name)

    @override
    def _load_native(self, folder: Path) -> None:
        self.members = [kind.load(folder / kind.name) for kind in MEMBERS]


def _left_out(
    members: Sequence[PowerModel], queries: Queries, values: Array, held_out: Names
) -> LeftOut | None:
    """Return the errors of members for each group of ``held_out``; ``None`` if it is one alone."""
    if len(np.unique(held_out)) < 2:
        return None
    found = [each.errors_left_out(queries, values, held_out, _NUM_FOLDS) for each in members]
    rows = found[0][0]
    return LeftOut(
        group=held_out[rows],
        log_ratio=np.log(queries.clock_ratio[rows]),
        errors=np.array([errors for _, errors in found]),
    )


def _fixed_ratios(queries: Queries, power_w: Array, time_s: Array) -> Array:
    """Return the best ratios of the clocks of profiles, and of those above which voltages rise."""
    found = [best_fixed_ratios(queries, power_w, time_s)]
    ridges_mhz = queries.of_profiles([ridge_mhz(profile.spec) for profile in queries.profiles])
    known = np.isfinite(ridges_mhz)
    if known.any():
        asked, units_mhz = queries.select(known), ridges_mhz[known]
        found.append(best_fixed_ratios(asked, power_w[known], time_s[known], units_mhz))
    return np.array([[each[name] for name in CHOSEN_BY] for each in found])


def _weighed(left_out: LeftOut | None, expected: Array = _EQUAL) -> Array:
    """Return the weights of members after each set of anchors, none negative, of sum 1.

    They have the least sum over groups of the root mean square of what their mean leaves of the
    errors; those ``expected`` count for some groups more. Shape (anchor sets, members).
    """
    if left_out is None:
        return expected.copy()
    each = zip(left_out.errors.swapaxes(0, 1), expected, strict=True)
    return np.array([_least(errors, left_out.group, first) for errors, first in each])


def _tails(weights: Array, left_out: LeftOut | None) -> Array:
    """Return what nine of ten errors stay below after each set of anchors; 0 if none is known."""
    if left_out is None:
        return np.zeros(len(weights))
    errors = np.abs(np.einsum("sm,msn->sn", weights, left_out.errors))
    known = [each[~np.isnan(each)] for each in errors]
    return np.array([np.quantile(each, _TAIL) if len(each) else 0.0 for each in known])


def _least(errors: Array, groups: Names, expected: Array) -> Array:
    num_members, weights = len(errors), expected
    known = ~np.isnan(errors).any(axis=0)
    if not known.any():  # all clocks that were measured are anchors
        return weights
    _, which, counts = np.unique(groups[known], return_inverse=True, return_counts=True)
    rows = errors[:, known].T / np.sqrt(counts)[which, None]
    one = 1e3 * np.ones((1, num_members))
    for _ in range(_ROUNDS):
        left = np.sqrt(np.bincount(which, (rows @ weights) ** 2)) + _LEAST_ERROR
        tamed = rows / np.sqrt(left)[which, None]
        size = np.sqrt(_DOUBT * np.mean(left))
        system = np.vstack([tamed, size * np.eye(num_members), one])
        aim = np.concatenate([np.zeros(len(rows)), size * expected, one[0, :1]])
        weights = nnls(system, aim)[0]
        weights = weights / weights.sum()
    return np.asarray(weights)
