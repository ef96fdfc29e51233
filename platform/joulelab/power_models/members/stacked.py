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
from collections.abc import Mapping
from pathlib import Path
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import (
    FEW_KINDS,
    LEAST_WIDENING,
    LEFT_OUT_AT,
    Calibration,
    Correction,
    Corrections,
)
from joulelab.power_models.decision import (
    CHOSEN_BY,
    FixedClock,
    Sweep,
    best_fixed_ratios,
    ridge_mhz,
)
from joulelab.power_models.features import DOMAIN_FEATURES
from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.readings import scatter_of_applications
from joulelab.power_models.members.tabular import MeanModel, RandomForestModel
from joulelab.power_models.members.weighing import (
    LEAST_ERROR,
    LeftOut,
    fixed_is_as_good,
    left_out_by,
    tails,
    weighed,
)
from joulelab.power_models.queries import Profile, Queries
from joulelab.power_models.runs import Array, Names, Pair, Runs

MEMBERS: tuple[type[PowerModel], ...] = (PhysicsModel, MeanModel, RandomForestModel)
_EQUAL = np.full((len(LEFT_OUT_AT), len(MEMBERS)), 1.0 / len(MEMBERS))
_BY_LAW = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
"""Weights on kinds of GPU that were not trained on, which boards that are left out move: the mean
curve has seen nothing of them, while `physics` has their catalogue entry. With equal ones, powers
of five kinds left out were 14.7 % off after one point, with these 12.9 %. After two points levels
are known, and neither is better than the other by more than luck.
"""
_ALL = np.ones(len(MEMBERS), dtype=bool)
_HEARD = np.array([True, True, False])
"""Which members count there: trees know a board by its limit and bandwidth, and of others take the
branch of one that they saw. Of 33 programs on a V100 with the limit of an A40, which held its own,
their powers were 43 % off after two points."""
_HELD, _RIDGE = ", where its power limit is likely to have held it", ", above which voltage rises"
_NO_BETTER = "for its applications, each left out in turn, models have chosen no better"
_UNTRAINED = (
    "nothing was trained on {board}, and of applications that were measured at fewer than two "
    "clocks there models have on average chosen worse"
)
_HELD_SPREAD = 0.2
"""Nine of ten logs of clocks at which a limit held runs are within so much of the usual one, on an
H100 and an H200."""
_CATALOGUED = "catalogued"
_STEEPNESS = {"power_w": 2.0, "time_s": 1.0}
"""To which power of the clock it goes there, at most."""


class StackedModel(PowerModel):
    """The weighted geometric mean of :data:`MEMBERS`."""

    name: ClassVar[str] = "stacked"
    learned_arrays: ClassVar[tuple[str, ...]] = (
        # Elsewhere on boards of kinds that were trained on, and of others, in this order.
        *("weights", "weights_elsewhere", "widening"),
        # By CHOSEN_BY, of clocks of profiles, and of where the voltage rises if that is known
        # of a GPU; empty where no model of time was fitted beside.
        "fixed_ratios",
        # After each set of anchors, by CHOSEN_BY, whether the first of these chose as well for
        # applications that were left out.
        "fixed_is_as_good",
    )
    catalogued: PowerModel | None = None
    """The law without what was measured of boards; ``None`` where that is nothing."""
    learned_values: ClassVar[tuple[str, ...]] = ("scatter",)  # of single values, by application

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        made = [kind(self.target, seed=self.seed, calibration_folds=0) for kind in MEMBERS]
        boards = np.array([profile.gpu for profile in queries.profiles])[queries.profile]
        self.left_out = left_out_by(made, queries, values, groups)
        self.left_out_elsewhere = left_out_by(made, queries, values, boards)
        self.weigh(self.left_out, self.left_out_elsewhere)
        self.members = [each.taught(queries, values, groups) for each in made]
        self.table, self._fixed_ratios = (queries, values), np.zeros(0)
        self._fixed_is_as_good = np.zeros((len(LEFT_OUT_AT), len(CHOSEN_BY)), dtype=bool)
        self._scatter = scatter_of_applications(queries, values)
        return self

    def weigh(self, left_out: LeftOut | None, elsewhere: LeftOut | None) -> None:
        """Take the weights that err least for applications and for boards that were left out."""
        self._weights = weighed(left_out, _EQUAL, _ALL)
        other_kind = weighed(elsewhere, _BY_LAW, _HEARD)
        self._weights_elsewhere = np.array([weighed(elsewhere, _EQUAL, _ALL), other_kind])
        known = np.maximum(tails(self._weights, self.left_out), LEAST_ERROR)
        there = np.array([tails(w, self.left_out_elsewhere) for w in self._weights_elsewhere])
        self._widening = np.maximum(FEW_KINDS * there / known, LEAST_WIDENING)

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
        queries, power_w = self.table
        errors = [each.of_rows(self._weights) for each in (self.left_out, time.left_out)]
        measured = Sweep(sm_clock_mhz=queries.clock_ratio, power_w=power_w, time_s=time.table[1])
        self._fixed_is_as_good = fixed_is_as_good(queries, measured, *errors)

    @override
    def fixed_clock(self, profile: Profile, objective: str) -> FixedClock | None:
        """Return the table's until two points are known, where models have chosen no better.

        So they may have for its own applications, which says nothing of one whose activities were
        read where theirs were not, and have on boards of other kinds. There it is a
        share of the clock above which the voltage rises, if that was measured: from there on each
        clock costs more, wherever the default is.
        """
        number, anchors = CHOSEN_BY.index(objective), self._anchors_of(profile)
        is_known = not self._is_other_kind(profile)
        if anchors > 1 or not len(self._fixed_ratios):
            return None
        tells_more = not set(profile.activity) & set(DOMAIN_FEATURES) <= set(self.domain.ranges)
        if is_known and (tells_more or not self._fixed_is_as_good[anchors, number]):
            return None
        why = _NO_BETTER if is_known else _UNTRAINED.format(board=profile.board)
        of_mhz = ridge_mhz(profile.spec)
        if not is_known and len(self._fixed_ratios) > 1 and np.isfinite(of_mhz):
            ratio = self._fixed_ratios[1, number]
            return FixedClock(ratio=ratio, of_mhz=of_mhz, of=_RIDGE, why=why)
        of_mhz = self.held_mhz.get(profile.pair, profile.clock_mhz)
        of = _HELD if of_mhz < profile.clock_mhz else ""
        return FixedClock(ratio=self._fixed_ratios[0, number], of_mhz=of_mhz, of=of, why=why)

    @override
    def answer(self, queries: Queries) -> Array:
        logs = [_log_answer(each, queries) for each in self.members]
        if self.catalogued is not None:
            moved = logs[0] - _log_answer(self.catalogued, queries)
            logs[1:] = [log + moved for log in logs[1:]]
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
        if self.catalogued is not None:
            aware.catalogued = self.catalogued.holding(aware.held_mhz)
        return aware

    @override
    def on_board(self, gpu: str, spec: GpuSpec) -> Self:
        """Return a new model whose law knows a board; others follow by how that moves the law."""
        aware = copy.copy(self)
        law = self.members[0]
        aware.catalogued = self.catalogued or law
        aware.members = [law.on_board(gpu, spec), *self.members[1:]]
        return aware

    @override
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model each of whose members knows some measured points."""
        adapted = copy.copy(self)
        adapted.members = [each.adapt(anchors, profiled=profiled) for each in self.members]
        if self.catalogued is not None:
            adapted.catalogued = self.catalogued.adapt(anchors, profiled=profiled)
        found = adapted.members[-1].corrections.pairs
        pairs = {
            pair: Correction(offset=0.0, slope=0.0, anchors=c.anchors) for pair, c in found.items()
        }
        adapted.corrections = Corrections(pairs={**self.corrections.pairs, **pairs})
        return adapted

    @override
    def _half_width(self, queries: Queries, level: float) -> Array:
        """Return half widths, wider on other boards and where the clock of a run is not known.

        There single values of an application scatter as they did elsewhere, measured ones as well,
        which nothing measured tells: next to others, or by repeats, they look as good as any.
        """
        trained_on, inside = self.members[0].domain.gpus, NormalDist().inv_cdf((1.0 + level) / 2.0)
        unsure = np.zeros(len(queries.profiles))
        for number, profile in enumerate(queries.profiles):
            num_anchors = self._anchors_of(profile)
            if profile.gpu not in trained_on:
                scatter = self._scatter.get(profile.application, 0.0)
                unsure[number] = inside * scatter * np.sqrt(1.0 + 1.0 / max(num_anchors, 1))
            if profile.pair in self.held_mhz and num_anchors == 1:
                held = _HELD_SPREAD * _STEEPNESS[self.target]
                unsure[number] = np.hypot(unsure[number], held)
        return np.hypot(super()._half_width(queries, level), unsure[queries.profile])

    @override
    def _wider(self, profile: Profile) -> float:
        """Return how much more errors for boards left out of the table are, and for few kinds."""
        return float(self._widening[self._is_other_kind(profile), self._anchors_of(profile)])

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
        if self.catalogued is not None:
            self.catalogued.save(folder / _CATALOGUED)

    @override
    def _load_native(self, folder: Path) -> None:
        self.members = [kind.load(folder / kind.name) for kind in MEMBERS]
        if (folder / _CATALOGUED).is_dir():
            self.catalogued = MEMBERS[0].load(folder / _CATALOGUED)


def _log_answer(member: PowerModel, queries: Queries) -> Array:
    return np.asarray(np.log(member.answer(queries)) + member.corrections.log_factor(queries))


def _fixed_ratios(queries: Queries, power_w: Array, time_s: Array) -> Array:
    """Return the best ratios of the clocks of profiles, and of those above which voltages rise."""
    found = [best_fixed_ratios(queries, power_w, time_s)]
    ridges_mhz = queries.of_profiles([ridge_mhz(profile.spec) for profile in queries.profiles])
    known = np.isfinite(ridges_mhz)
    if known.any():
        asked, units_mhz = queries.select(known), ridges_mhz[known]
        found.append(best_fixed_ratios(asked, power_w[known], time_s[known], units_mhz))
    return np.array([[each[name] for name in CHOSEN_BY] for each in found])
