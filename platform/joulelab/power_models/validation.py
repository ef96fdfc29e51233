"""Validation that cannot flatter: whole applications, GPUs or clock ranges are held out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.calibration import Interval
from joulelab.power_models.decision import (
    CHOSEN_BY,
    ErrorScores,
    IntervalScores,
    RegretScores,
    Sweep,
    best_fixed_ratios,
    error_scores,
    interval_scores,
    measured_sweep,
    regret,
    regret_scores,
)
from joulelab.power_models.operating_model import OperatingModel, Quantity
from joulelab.power_models.queries import queries_of
from joulelab.power_models.runs import Array, Flags, Index, Names, Runs
from joulelab.registry import unknown_name


def leave_clock_range_out(runs: Runs) -> Iterator[Flags]:
    """Hold out the lower, middle and upper third of the clocks below each default clock.

    Rows at the default clock are always trained on, for the profile is taken there.
    """
    default_mhz = np.array([runs.spec(gpu).default_clock_mhz for gpu in runs.gpu], dtype=float)
    lowest_mhz = np.array([runs.sm_clock_mhz[runs.gpu == gpu].min() for gpu in runs.gpu])
    span = np.maximum(default_mhz - lowest_mhz, 1e-9)
    height = (runs.sm_clock_mhz - lowest_mhz) / span
    profiles = [runs.profile_row(*pair) for pair in runs.pairs]
    for low, high in ((-np.inf, 1 / 3), (1 / 3, 2 / 3), (2 / 3, np.inf)):
        tested = (height >= low) & (height < high)
        tested[profiles] = False
        if tested.any() and (~tested).any():
            yield tested


SPLITS: Mapping[str, Callable[[Runs], Iterator[Flags]]] = {
    "application": lambda runs: _leave_one_out(runs.application, "application", least=3),
    "gpu": lambda runs: _leave_one_out(runs.gpu, "gpu"),
    "clocks": leave_clock_range_out,
}
"""Applications on all GPUs, GPUs with all their applications, or clocks are held out in turn."""


def splits(runs: Runs, kind: str) -> list[Flags]:
    """Return which rows each split of one kind holds out; all others are trained on.

    Raises UnknownNameError if there is no such kind; ConfigError if there is nothing to hold out.
    """
    if kind not in SPLITS:
        raise unknown_name("split", kind, SPLITS)
    return list(SPLITS[kind](runs))


def _leave_one_out(names: Names, column: str, least: int = 2) -> Iterator[Flags]:
    """Hold out each of ``names``; a model learns from two applications or more, or one GPU."""
    known = sorted(set(names.tolist()))
    if len(known) < least:
        raise ConfigError(
            f"Column {column!r} must hold at least {least} values to hold one out, got {known}."
        )
    for name in dict.fromkeys(names.tolist()):
        yield names == name


MODEL = "model"
"""Who chose, among the rules that need no model."""
SCORED: tuple[Quantity, ...] = ("power_w", "time_s", "energy_j")
COLD: tuple[float, ...] = ()
WARM: tuple[float, ...] = (1.0,)
"""Anchors: clocks over that of the profile at which the application asked about was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The clock that a model, or a rule without one, chose for an application.

    ``regret`` is how much more it costs than the best measured point, relative.
    """

    gpu: str
    application: str
    who: str
    objective: str
    sm_clock_mhz: float
    regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """Scores of one model in one kind of split."""

    kind: str  # what was held out
    # Clock ratios at which held-out applications were measured; they are not scored.
    anchors: tuple[float, ...]
    errors: Mapping[Quantity, ErrorScores]  # by quantity
    # By quantity; empty where the model gives none.
    intervals: Mapping[Quantity, IntervalScores] = field(default_factory=dict)
    # By objective, against the best measured point; empty for parts of applications.
    regrets: Mapping[str, RegretScores] = field(default_factory=dict)
    # Of clocks that need no model, then by objective.
    baselines: Mapping[str, Mapping[str, RegretScores]] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()  # the clocks that those regrets are of


def validate(
    make: Callable[[], OperatingModel],
    runs: Runs,
    kind: str = "application",
    *,
    anchors: Sequence[Sequence[float]] = (COLD, WARM),
    level: float | None = 0.9,
) -> list[Validated]:
    """Score a model on what it was not shown, once per entry of ``anchors``.

    ``make`` makes an unfitted one. ``"application"``, ``"gpu"`` or ``"clocks"`` are held out,
    applications measured at the clock ratios of the entry; without a ``level`` there are no
    intervals. Raises ConfigError if the model cannot learn from such a table.
    """
    collected = [_Collected(runs, tuple(each), level) for each in anchors]
    for held_out in splits(runs, kind):
        trained, tested = runs.select(~held_out), np.flatnonzero(held_out)
        model = make().fit(trained, profiled=runs)
        fixed = best_fixed_ratios(queries_of(trained, runs), trained.power_w, trained.time_s)
        for each in collected:
            each.add(model, fixed, tested)
    return [each.validated(kind) for each in collected]


class _Collected:
    """Predictions of every split for one choice of anchors."""

    def __init__(self, runs: Runs, anchors: tuple[float, ...], level: float | None) -> None:
        self._runs = runs
        self._anchors = anchors
        self._level = level
        self._scored: dict[Quantity, list[Index]] = {name: [] for name in SCORED}
        self._predicted: dict[Quantity, list[Array]] = {name: [] for name in SCORED}
        self._intervals: dict[Quantity, list[Interval]] = {name: [] for name in SCORED}
        self._choices: list[Choice] = []

    def add(self, model: OperatingModel, fixed: Mapping[str, float], tested: Index) -> None:
        """Ask a fitted model about the rows ``tested``.

        ``fixed`` is the clock ratio that was best for the applications trained on, by objective.
        """
        asked = self._runs.select(tested)
        anchors = self._nearest(asked, self._anchors)
        if len(anchors):
            model = model.adapt(self._runs.select(anchors), profiled=self._runs)
        self._choose(model, fixed, asked)
        profiled = [self._runs.profile_row(*pair) for pair in asked.pairs]
        for name in SCORED:
            given = np.append(anchors, profiled) if name == "time_s" else anchors
            scored = np.setdiff1d(tested, given)
            if len(scored):
                self._score(model, name, scored)

    def _nearest(self, asked: Runs, ratios: Sequence[float]) -> Index:
        """Return the rows at which the applications of ``asked`` were measured nearest to these."""
        rows = np.concatenate([self._runs.of_pair(*pair) for pair in asked.pairs])
        near = queries_of(self._runs.select(rows), self._runs).nearest(ratios)
        return rows[near]

    def _score(self, model: OperatingModel, name: Quantity, rows: Index) -> None:
        queries = queries_of(self._runs.select(rows), self._runs)
        self._scored[name].append(rows)
        self._predicted[name].append(model.predict(queries, name))
        if self._level is not None:
            interval = model.predict_interval(queries, name, self._level)
            self._intervals[name].append(interval)

    def validated(self, kind: str) -> Validated:
        """Return the scores."""
        rows = {name: np.concatenate(each) for name, each in self._scored.items() if each}
        truth = {name: getattr(self._runs, name)[own] for name, own in rows.items()}
        label = {name: self._labels(own) for name, own in rows.items()}
        choices = () if kind == "clocks" else tuple(self._choices)
        scores = _regret_scores(choices)
        return Validated(
            kind=kind,
            anchors=self._anchors,
            errors={
                name: error_scores(truth[name], np.concatenate(self._predicted[name]), label[name])
                for name in rows
            },
            intervals={
                name: interval_scores(truth[name], self._intervals[name], label[name])
                for name in rows
                if self._intervals[name]
            },
            regrets=scores.pop(MODEL, {}),
            baselines=scores,
            choices=choices,
        )

    def _labels(self, rows: Index) -> Names:
        label = np.char.add(np.char.add(self._runs.gpu[rows], " "), self._runs.application[rows])
        return np.asarray(label)

    def _choose(self, model: OperatingModel, fixed: Mapping[str, float], asked: Runs) -> None:
        for (gpu, application), rows in asked.by_pair():
            one = asked.select(rows)
            queries = queries_of(one, self._runs)
            default_mhz = queries.profiles[0].clock_mhz
            predicted = Sweep(
                sm_clock_mhz=one.sm_clock_mhz,
                power_w=model.predict(queries, "power_w"),
                time_s=model.predict(queries, "time_s"),
            )
            truth = measured_sweep(one)
            for objective in CHOSEN_BY:
                chosen_mhz = {
                    MODEL: one.sm_clock_mhz[
                        model.choose(queries, objective, predicted=predicted).row
                    ],
                    "maximum clock": default_mhz,
                    "best fixed clock": fixed[objective] * default_mhz,
                }
                self._choices += [
                    Choice(
                        gpu=gpu,
                        application=application,
                        who=who,
                        objective=objective,
                        sm_clock_mhz=float(clock_mhz),
                        regret=regret(truth, float(clock_mhz), objective),
                    )
                    for who, clock_mhz in chosen_mhz.items()
                ]


def _regret_scores(choices: Sequence[Choice]) -> dict[str, dict[str, RegretScores]]:
    regrets: dict[str, dict[str, list[float]]] = {}
    for each in choices:
        regrets.setdefault(each.who, {}).setdefault(each.objective, []).append(each.regret)
    return {
        who: {name: regret_scores(values) for name, values in by_name.items()}
        for who, by_name in regrets.items()
    }
