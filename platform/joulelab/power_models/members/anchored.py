"""Members that are a law with parameters of the application, which anchors tell better than guess.

A law scaled as a whole at one clock is wrong at others: idle power does not grow with the load.
So an anchor moves the parameters of its application, and only what the law cannot follow is scaled.
Two anchors or more are readings that scatter: see ``readings``.
"""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import ANCHOR_SETS, Calibration
from joulelab.power_models.correction import Corrections
from joulelab.power_models.members.readings import READING_ERROR, fitted_to
from joulelab.power_models.queries import Queries, queries_of
from joulelab.power_models.runs import Array, Index, Names, Runs
from joulelab.power_models.splits import group_folds
from joulelab.power_models.state import State
from joulelab.power_models.targets import measured, scale
from joulelab.power_models.worth import Drawn, drawn_from


class AnchoredModel(PowerModel):
    """A law whose parameters of an application are guessed from its profile, or told by anchors."""

    num_parameters: ClassVar[int]
    """How many parameters an application has."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.known: Mapping[tuple[str, str], Array] = {}
        self.scatters = np.zeros(0)
        """Relative scatter of single readings of each application that it learned from."""

    @abstractmethod
    def guess(self, queries: Queries) -> Array:
        """Return the parameters of each profile without anchors, shape (profiles, parameters)."""

    @abstractmethod
    def law(self, queries: Queries, parameters: Array) -> Array:
        """Return the values of ``queries``, whose profiles have ``parameters``."""

    @abstractmethod
    def doubt(self) -> Array:
        """Return the standard error of each guessed parameter."""

    @override
    def answer(self, queries: Queries) -> Array:
        parameters = self.guess(queries)
        for number, profile in enumerate(queries.profiles):
            if profile.pair in self.known:
                parameters[number] = self.known[profile.pair]
        return self.law(queries, parameters)

    @override
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model that knows some measured points; this one stays as it is.

        They tell the parameters of their applications, as far as they can; what is left is
        scaled away as for every model.

        Args:
            anchors: The points.
            profiled: Where profiles are taken from; ``None`` takes ``anchors`` itself.

        Raises:
            ConfigError: Before ``fit``, or if a profile is missing.
        """
        queries = queries_of(anchors, profiled)
        self._check_inside(queries)
        values = measured(anchors, self.target) / scale(queries, self.target)
        boards = super().adapt(anchors, profiled=profiled).corrections.boards
        adapted = copy.copy(self)
        parameters, scatter = self._read(queries, values)
        told = {p.pair: row for p, row in zip(queries.profiles, parameters, strict=True)}
        adapted.known = {**self.known, **told}
        log_error = np.log(values / adapted.answer(queries))
        found = self.corrections.with_anchors(queries, log_error, self.domain.gpus, scatter)
        adapted.corrections = Corrections(pairs=found.pairs, boards=boards)
        return adapted

    def solved(self, queries: Queries, values: Array) -> Array:
        """Return the parameters of each profile that meet ``values``, near the guessed ones."""
        parameters = self.guess(queries)
        for number in range(len(queries.profiles)):
            rows = np.flatnonzero(queries.profile == number)
            if len(rows):
                parameters[number] = self._solved(
                    queries.select(rows), values[rows], parameters, number
                )
        return parameters

    def drawn(self, queries: Queries, num_curves: int, *, seed: int = 0) -> Drawn:
        """Draw curves that an application may have, its anchors being known.

        Args:
            queries: One profile at the clocks of the curves.
            num_curves: How many.
            seed: Of the draws.
        """
        profile = queries.profiles[0]
        center = self.known.get(profile.pair, self.guess(queries)[0])
        correction = self.corrections.pairs.get(profile.pair)
        anchors = np.zeros(1 if self.target == "time_s" else 0)
        if correction is not None:
            anchors = np.array(correction.anchors)
        everywhere = replace(
            queries,
            profile=np.zeros(len(queries) + len(anchors), dtype=np.intp),
            sm_clock_mhz=np.append(queries.sm_clock_mhz, profile.clock_mhz * np.exp(anchors)),
        )

        def law(moved: Array) -> Array:
            return np.log(self.law(everywhere, (center + moved * self.doubt())[None, :]))

        scatter = float(np.median(self.scatters)) if len(self.scatters) else READING_ERROR
        return drawn_from(
            law,
            self.num_parameters,
            np.log(everywhere.clock_ratio),
            num_anchors=len(anchors),
            scatter=scatter,
            num_curves=num_curves,
            seed=seed,
        )

    @override
    def _state(self) -> State:
        pairs = list(self.known)
        rows = [self.known[pair] for pair in pairs]
        known = np.array(rows).reshape(len(pairs), self.num_parameters)
        return State(
            values={"known": [list(pair) for pair in pairs]},
            arrays={"known": known, "scatters": self.scatters},
        )

    @override
    def _restore(self, state: State) -> None:
        pairs = [(gpu, application) for gpu, application in state.values["known"]]
        self.known = dict(zip(pairs, state.arrays["known"], strict=True))
        self.scatters = state.arrays["scatters"]

    @override
    def _calibrated(self, queries: Queries, values: Array, groups: Names) -> Calibration | None:
        """Predict every group with a model that was not shown it, without and with anchors."""
        self.known = {}
        if self.calibration_folds < 2 or len(np.unique(groups)) < 3:
            return None
        cold = np.empty(len(queries))
        anchored = np.full((len(ANCHOR_SETS), len(queries)), np.nan)
        for held_out in group_folds(groups, self.calibration_folds, self.seed):
            kept = ~held_out
            fold = self.unfitted(calibration_folds=0).learn(
                queries.select(kept), values[kept], groups[kept]
            )
            asked, rows = queries.select(held_out), np.flatnonzero(held_out)
            cold[rows] = np.log(values[rows] / fold.answer(asked))
            for number, ratios in enumerate(ANCHOR_SETS):
                anchored[number, rows] = fold.anchored_errors(asked, values[rows], ratios)
        return Calibration(
            group=groups,
            pair=queries.profile,
            log_ratio=np.log(queries.clock_ratio),
            log_error=cold,
            anchored_error=anchored,
        )

    def anchored_errors(self, queries: Queries, values: Array, ratios: tuple[float, ...]) -> Array:
        """Return the logs of measured over predicted once each profile is anchored.

        Not a number at the anchors themselves.
        """
        anchors = _nearest(queries, ratios)
        measured_at = queries.select(anchors)
        parameters, scatter = self._read(measured_at, values[anchors])
        errors = np.log(values / self.law(queries, parameters))
        corrections = self.corrections.with_anchors(measured_at, errors[anchors], (), scatter)
        left = errors - corrections.log_factor(queries)
        left[anchors] = np.nan
        return left

    def _read(self, queries: Queries, values: Array) -> tuple[Array, Array]:
        """Return the parameters that readings tell of each profile, and the scatter of these.

        The scatter is 0 where a profile was read once: that is met.
        """
        parameters, scatter = self.solved(queries, values), np.zeros(len(queries.profiles))
        for number in range(len(queries.profiles)):
            rows = np.flatnonzero(queries.profile == number)
            if len(rows) > 1:
                parameters[number], scatter[number] = self._read_often(
                    queries.select(rows), values[rows], number
                )
        return parameters, scatter

    def _read_often(self, queries: Queries, values: Array, number: int) -> tuple[Array, float]:
        parameters, doubt = self.guess(queries), self.doubt()
        guess = parameters[number].copy()

        def law(moved: Array) -> Array:
            parameters[number] = guess + moved * doubt
            return np.log(self.law(queries, parameters))

        fit = fitted_to(
            law,
            np.log(values),
            len(guess),
            scatters=self.scatters,
            free_level=self.target == "time_s",
        )
        return guess + fit.moved * doubt, fit.scatter

    def _solved(self, queries: Queries, values: Array, guesses: Array, number: int) -> Array:
        guess, doubt = guesses[number], self.doubt()
        parameters = guesses.copy()

        def misfit(moved: Array) -> Array:
            parameters[number] = guess + moved * doubt
            errors = np.log(self.law(queries, parameters) / values) / READING_ERROR
            return np.concatenate([errors, moved])

        found = least_squares(misfit, np.zeros(len(guess)), max_nfev=50)
        return np.asarray(guess + found.x * doubt)


def _nearest(queries: Queries, ratios: tuple[float, ...]) -> Index:
    """Return the positions of the queries nearest to ``ratios``, for each profile."""
    found: set[int] = set()
    for number in np.unique(queries.profile):
        rows = np.flatnonzero(queries.profile == number)
        distance = np.abs(queries.clock_ratio[rows][:, None] - np.array(ratios)[None, :])
        found.update(rows[np.argmin(distance, axis=0)].tolist())
    return np.array(sorted(found), dtype=np.intp)
