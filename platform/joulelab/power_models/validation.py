"""Validation that cannot flatter: whole applications, GPUs or clock ranges are held out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from joulelab.power_models.baselines import best_fixed_ratio, measured_sweep
from joulelab.power_models.decision import Goal, Sweep, regret
from joulelab.power_models.interval import Interval
from joulelab.power_models.operating_model import OperatingModel, Quantity
from joulelab.power_models.queries import Queries, queries_of
from joulelab.power_models.runs import Array, Flags, Index, Runs
from joulelab.power_models.scores import (
    ErrorScores,
    IntervalScores,
    RegretScores,
    error_scores,
    interval_scores,
    regret_scores,
)
from joulelab.power_models.smoothing import smoothed_best_mhz, smoothed_regret
from joulelab.power_models.splits import splits

SCORED: tuple[Quantity, ...] = ("power_w", "time_s", "energy_j")
COLD: tuple[float, ...] = ()
WARM: tuple[float, ...] = (1.0,)
"""Anchors: clocks over that of the profile at which the application asked about was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """Scores of one model in one kind of split.

    Attributes:
        kind: What was held out.
        anchors: Clock ratios at which held-out applications were measured; they are not scored.
        errors: By quantity.
        intervals: By quantity; empty where the model gives none.
        regrets: By goal, against the best measured point; empty where a split holds out parts of
            applications.
        baselines: Regrets of clocks that need no model, by ``"maximum clock"``, ``"best fixed
            clock"`` and ``"measured, smoothed"``, what noise leaves of the best, then by goal.
        smoothed: The same by ``"model"`` and by baseline, against the best of the smoothed sweep:
            without what a lucky point gains by its scatter.
    """

    kind: str
    anchors: tuple[float, ...]
    errors: Mapping[Quantity, ErrorScores]
    intervals: Mapping[Quantity, IntervalScores] = field(default_factory=dict)
    regrets: Mapping[Goal, RegretScores] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[Goal, RegretScores]] = field(default_factory=dict)
    smoothed: Mapping[str, Mapping[Goal, RegretScores]] = field(default_factory=dict)


def validate(
    make: Callable[[], OperatingModel],
    runs: Runs,
    kind: str = "application",
    *,
    anchors: Sequence[Sequence[float]] = (COLD, WARM),
    level: float | None = 0.9,
) -> list[Validated]:
    """Score a model on what it was not shown, once per entry of ``anchors``.

    Args:
        make: Makes an unfitted model.
        runs: Everything that is known.
        kind: What to hold out: ``"application"``, ``"gpu"`` or ``"clocks"``.
        anchors: For each score, at which clock ratios held-out applications are measured.
        level: Of the intervals; ``None`` asks for none.

    Returns:
        One entry per entry of ``anchors``.

    Raises:
        ConfigError: If the model cannot learn from such a table.
    """
    collected = [_Collected(runs, tuple(each), level) for each in anchors]
    for split in splits(runs, kind):
        trained, tested = runs.select(split.trained), np.flatnonzero(split.tested)
        model = make().fit(trained, profiled=runs)
        fixed = {goal: best_fixed_ratio(trained, runs, goal) for goal in get_args(Goal)}
        for each in collected:
            each.add(model, fixed, tested)
    return [each.validated(kind) for each in collected]


class _Collected:
    """Predictions of every split for one choice of anchors."""

    def __init__(self, runs: Runs, anchors: tuple[float, ...], level: float | None) -> None:
        self._runs = runs
        self._anchors = anchors
        self._level = level
        self._scored: list[Index] = []
        self._predicted: dict[Quantity, list[Array]] = {name: [] for name in SCORED}
        self._intervals: dict[Quantity, list[Interval]] = {name: [] for name in SCORED}
        self._regrets: dict[str, dict[Goal, list[float]]] = {}
        self._smoothed: dict[str, dict[Goal, list[float]]] = {}

    def add(self, model: OperatingModel, fixed: Mapping[Goal, float], tested: Index) -> None:
        """Ask a fitted model about the rows ``tested``.

        Args:
            model: The model.
            fixed: For each goal the clock ratio that was best for the applications trained on.
            tested: Positions of the rows.
        """
        asked = self._runs.select(tested)
        queries = queries_of(asked, self._runs)
        anchored = anchor_rows(asked, queries, self._anchors)
        if anchored.any():
            model = model.adapt(asked.select(anchored), profiled=self._runs)
        self._add_regrets(model, fixed, asked)
        if anchored.all():
            return
        scored = queries.select(~anchored)
        self._scored.append(tested[~anchored])
        for name in SCORED:
            self._predicted[name].append(model.predict(scored, name))
            if self._level is not None:
                self._intervals[name].append(model.predict_interval(scored, name, self._level))

    def validated(self, kind: str) -> Validated:
        """Return the scores."""
        rows = np.concatenate(self._scored).astype(np.intp)
        truth = {name: getattr(self._runs, name)[rows] for name in SCORED}
        label = np.char.add(np.char.add(self._runs.gpu[rows], " "), self._runs.application[rows])
        scores, smoothed = (
            {
                who: {goal: regret_scores(values) for goal, values in goals.items()}
                for who, goals in regrets.items()
                if kind != "clocks"
            }
            for regrets in (self._regrets, self._smoothed)
        )
        return Validated(
            kind=kind,
            anchors=self._anchors,
            errors={
                name: error_scores(truth[name], np.concatenate(self._predicted[name]), label)
                for name in SCORED
            },
            intervals={
                name: interval_scores(truth[name], self._intervals[name], label)
                for name in SCORED
                if self._intervals[name]
            },
            regrets=scores.pop("model", {}),
            baselines=scores,
            smoothed=smoothed,
        )

    def _add_regrets(self, model: OperatingModel, fixed: Mapping[Goal, float], asked: Runs) -> None:
        for _, rows in asked.by_pair():
            one = asked.select(rows)
            queries = queries_of(one, self._runs)
            default_mhz = queries.profiles[0].clock_mhz
            predicted = Sweep(
                sm_clock_mhz=one.sm_clock_mhz,
                power_w=model.predict(queries, "power_w"),
                time_s=model.predict(queries, "time_s"),
            )
            truth = measured_sweep(one)
            for goal in get_args(Goal):
                chosen = {
                    "model": predicted.sm_clock_mhz[predicted.best(goal)],
                    "maximum clock": default_mhz,
                    "best fixed clock": fixed[goal] * default_mhz,
                    "measured, smoothed": smoothed_best_mhz(truth, goal),
                }
                for who, clock_mhz in chosen.items():
                    for kept, found in (
                        (self._regrets, regret(truth, float(clock_mhz), goal)),
                        (self._smoothed, smoothed_regret(truth, float(clock_mhz), goal)),
                    ):
                        kept.setdefault(who, {}).setdefault(goal, []).append(found)


def anchor_rows(asked: Runs, queries: Queries, anchors: Sequence[float]) -> Flags:
    """Return which rows are the measured ones nearest to the clock ratios ``anchors``."""
    found = np.zeros(len(asked), dtype=np.bool_)
    ratio = queries.clock_ratio
    for number in range(len(queries.profiles)):
        rows = np.flatnonzero(queries.profile == number)
        for anchor in anchors:
            found[rows[np.argmin(np.abs(ratio[rows] - anchor))]] = True
    return found
