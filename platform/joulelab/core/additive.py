"""A linear model of a sweep: logarithm = configuration + board + error.

Boards of one product differ by several percent, and a sweep over several boards measures no
configuration on all of them. In the logarithm a board is a constant that least squares takes out,
provided that configurations measured on more than one board tie the boards together (the
unbalanced two-way classification without interaction; Searle, "Linear Models", Wiley 1971).
Where it is known by how much boards of a kind differ, boards that nothing ties count as well, as
uncertain as that makes them (Henderson's mixed model; Searle, Casella, McCulloch, "Variance
Components", Wiley 1992, chapter 7).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.core.statistics import student_quantile
from joulelab.errors import ConfigError, MeasurementError

Array = NDArray[np.float64]

_LEAST_SD = 1e-4
"""Of measurements: what repeats show by luck, or nobody states, is not less."""
_EXPECTED = 4
"""Boards that what is expected of their differences counts as."""
_EM_STEPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with a confidence interval.

    Attributes:
        value: The estimate.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        """Whether ``value`` lies outside the interval."""
        return not self.low <= value <= self.high


def less(ratio: Interval) -> Interval:
    """Return a ratio as the share that is saved, or the other way round."""
    return Interval(value=1 - ratio.value, low=1 - ratio.high, high=1 - ratio.low)


def more(ratio: Interval) -> Interval:
    """Return a ratio as the share that is added."""
    return Interval(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AdditiveFit:
    """Effects of configurations, with boards taken out.

    Attributes:
        configurations: Names of the ``k`` configurations, in the order of the arrays.
        estimate: Logarithm for each configuration on the average board, shape ``(k,)``.
        scatter: Covariance of ``estimate`` as the repeats scatter, shape ``(k, k)``; all
            zero where ``dof`` is 0.
        stated: Covariance of ``estimate`` from the uncertainties that the measurements state
            for themselves, shape ``(k, k)``.
        dof: Degrees of freedom of the residuals, >= 0.
        residual_sd: Standard deviation of the residuals; ``None`` where ``dof`` is 0.
    """

    configurations: tuple[str, ...]
    estimate: Array
    scatter: Array
    stated: Array
    dof: int
    residual_sd: float | None

    def value(self, configuration: str) -> float:
        """Return the estimate for ``configuration``, no longer as a logarithm."""
        return exp(self.estimate[self.configurations.index(configuration)])

    def relative_u(self, configuration: str) -> float:
        """Return the relative standard uncertainty of :meth:`value`.

        It is the larger of what the scatter shows and what the measurements state.
        """
        i = self.configurations.index(configuration)
        return sqrt(max(self.scatter[i, i], self.stated[i, i]))

    def ratio(self, configuration: str, reference: str, *, level: float = 0.95) -> Interval:
        """Return ``configuration`` over ``reference`` with its two-sided confidence interval.

        Student's t on the scatter, or the normal distribution on the stated uncertainties,
        whichever is wider: neither lucky repeats nor a coarse sensor makes it too narrow.
        """
        i, j = (self.configurations.index(name) for name in (configuration, reference))
        probability = (1 + level) / 2
        margin = max(
            student_quantile(probability, self.dof) * self.scatter_u(i)[j] if self.dof else 0.0,
            student_quantile(probability, inf) * self.stated_u(i)[j],
        )
        difference = float(self.estimate[i] - self.estimate[j])
        return Interval(
            value=exp(difference), low=exp(difference - margin), high=exp(difference + margin)
        )

    def scatter_u(self, i: int) -> Array:
        """Return the standard uncertainty of ``i`` minus each, from the scatter, shape ``(k,)``."""
        return _difference_u(self.scatter, i)

    def stated_u(self, i: int) -> Array:
        """Return the standard uncertainty of ``i`` minus each, as stated, shape ``(k,)``."""
        return _difference_u(self.stated, i)


def fit_additive(
    configurations: Sequence[str],
    boards: Sequence[str],
    logarithms: Sequence[float],
    stated_u: Sequence[float],
    *,
    board_sd: float | None = None,
) -> AdditiveFit:
    """Fit effects of configurations and boards to ``n`` measurements by least squares.

    Args:
        configurations: What each measurement measured.
        boards: On which board.
        logarithms: Natural logarithm of what it found.
        stated_u: Its own standard uncertainty of that logarithm, >= 0.
        board_sd: Standard deviation of boards of this kind, which is corrected by how these
            differ; ``None`` if nothing is known, so that the boards must be tied.

    Raises:
        ConfigError: If the lengths differ or there are no measurements.
        MeasurementError: If some boards share no configuration with the others, see
            :func:`tied`, and ``board_sd`` is ``None``.
    """
    num = len(configurations)
    if not num or {len(boards), len(logarithms), len(stated_u)} != {num}:
        raise ConfigError(
            f"A fit needs measurements and equal lengths, got {num} configurations, "
            f"{len(boards)} boards, {len(logarithms)} values and {len(stated_u)} uncertainties."
        )
    if board_sd is None and not all(tied(configurations, boards, configurations[0])):
        raise MeasurementError(
            "Some boards share no configuration with the others, so nothing compares them; "
            "measure a common configuration on every board (sentinels do that)."
        )
    names = tuple(dict.fromkeys(configurations))
    design, y = _design(configurations, names, boards), np.asarray(logarithms, dtype=np.float64)
    effects, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    k, dof = len(names), num - int(rank)
    variance = float(np.sum((y - design @ effects) ** 2)) / dof if dof else 0.0
    u, drawn = np.asarray(stated_u, dtype=np.float64), design[:0]
    if board_sd is not None:
        error_sd = max(sqrt(variance if dof else float(np.mean(u**2))), _LEAST_SD)
        drawn = _drawn_together(design, y, k, error_sd, board_sd)
        u = np.append(u, np.full(len(drawn), error_sd))
    rows = np.vstack([design, drawn])  # of full column rank: tied, or drawn together
    solve = np.linalg.solve(rows.T @ rows, rows.T)
    return AdditiveFit(
        configurations=names,
        estimate=solve[:k, :num] @ y,
        scatter=variance * (solve @ solve.T)[:k, :k],
        stated=((solve * np.square(u)) @ solve.T)[:k, :k],
        dof=dof,
        residual_sd=sqrt(variance) if dof else None,
    )


def _drawn_together(
    design: Array, y: Array, num_configurations: int, error_sd: float, board_sd: float
) -> Array:
    """Return rows that say that each board is as the average, each as wrong as a measurement.

    How far boards lie apart is what they are expected to and what they show, taken together in a
    few steps of expectation and maximisation.
    """
    k, num_others = num_configurations, design.shape[1] - num_configurations
    coding = np.vstack([np.eye(num_others), np.full((1, num_others), -1.0)])
    rows, sd = np.hstack([np.zeros((len(coding), k)), coding]), board_sd
    measured, drawn, right = design.T @ design, rows.T @ rows, design.T @ y
    for _ in range(_EM_STEPS):
        inverse = np.linalg.inv(measured + (error_sd / sd) ** 2 * drawn)
        effects = coding @ (inverse @ right)[k:]
        left = error_sd**2 * np.einsum("bi,ij,bj->b", coding, inverse[k:, k:], coding)
        seen = float(np.sum(effects**2 + left))
        sd = sqrt((_EXPECTED * board_sd**2 + seen) / (_EXPECTED + num_others))
    return np.asarray(rows * (error_sd / sd))


def tied(configurations: Sequence[str], boards: Sequence[str], reference: str) -> list[bool]:
    """Return which measurements can be compared with ``reference``.

    They can if a chain of boards leads there, each sharing a configuration with the next.
    """
    reached_configurations, reached_boards = {reference}, set[str]()
    grown = True
    while grown:
        before = len(reached_configurations) + len(reached_boards)
        for configuration, board in zip(configurations, boards, strict=True):
            if configuration in reached_configurations or board in reached_boards:
                reached_configurations.add(configuration)
                reached_boards.add(board)
        grown = len(reached_configurations) + len(reached_boards) > before
    return [configuration in reached_configurations for configuration in configurations]


def _design(configurations: Sequence[str], names: Sequence[str], boards: Sequence[str]) -> Array:
    """Columns for configurations, then for all boards but the last; board effects sum to 0."""
    place = {name: i for i, name in enumerate(names)}
    board_place = {board: i for i, board in enumerate(dict.fromkeys(boards))}
    num_boards = len(board_place)
    design = np.zeros((len(configurations), len(names) + num_boards - 1))
    for row, configuration, board in zip(design, configurations, boards, strict=True):
        row[place[configuration]] = 1.0
        j = board_place[board]
        if j < num_boards - 1:
            row[len(names) + j] = 1.0
        else:
            row[len(names) :] = -1.0
    return design


def _difference_u(covariance: Array, i: int) -> Array:
    variance = covariance[i, i] + np.diag(covariance) - 2 * covariance[i]
    variance[i] = 0.0
    u: Array = np.sqrt(np.maximum(variance, 0.0))
    return u
