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
Index = NDArray[np.intp]

_LEAST_SD = 1e-4
"""Of measurements: what repeats show by luck, or nobody states, is not less."""
_EXPECTED = 4
"""Boards that what is expected of their differences counts as."""
_EM_STEPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with a confidence interval."""

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
    """Effects of configurations, with boards taken out."""

    configurations: tuple[str, ...]  # names of the k configurations, in the order of the arrays
    estimate: Array  # logarithm for each configuration on the average board, shape (k,)
    # Covariance of estimate as the repeats scatter, shape (k, k); all zero where dof is 0.
    scatter: Array
    # Covariance of estimate from the uncertainties that the measurements state for themselves,
    # shape (k, k).
    stated: Array
    dof: int  # degrees of freedom of the residuals, >= 0
    residual_sd: float | None  # standard deviation of the residuals; None where dof is 0
    # Whether nothing tells how the estimates scatter, so that intervals have no end.
    is_open: bool = False
    # Whether boards' factors change along lines, apart from those of the rest.
    is_along_lines: bool = False
    is_smoothed: bool = False  # whether the scatter is that of estimates about smooth curves

    def value(self, configuration: str) -> float:
        """Return the estimate for ``configuration``, no longer as a logarithm."""
        return exp(self.estimate[self.configurations.index(configuration)])

    def relative_u(self, configuration: str) -> float:
        """Return the relative standard uncertainty of :meth:`value`.

        It is the larger of what scatter shows and measurements state; infinite if neither does.
        """
        if self.is_open:
            return inf
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
        if self.is_open and i != j:
            return Interval(value=exp(difference), low=0.0, high=inf)
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
    places, on = _numbered(configurations, names), _numbered(boards, tuple(dict.fromkeys(boards)))
    u = np.asarray(stated_u, dtype=np.float64)
    found = _Solved(places, on, np.asarray(logarithms, dtype=np.float64), u, board_sd)
    return AdditiveFit(
        configurations=names,
        estimate=found.estimate,
        scatter=found.variance * found.inverse(),
        stated=found.stated(),
        dof=found.dof,
        residual_sd=sqrt(found.variance) if found.dof else None,
    )


def estimates(
    configuration: Index, board: Index, logarithms: Array, stated_u: Array, board_sd: float
) -> tuple[Array, Array]:
    """Return the estimates of :func:`fit_additive` and the effects of boards, without errors.

    Args:
        configuration: Numbers of what each measurement measured, from 0 on without a gap.
        board: Numbers of the boards, likewise.
        logarithms: What each found.
        stated_u: Its standard uncertainty.
        board_sd: Standard deviation of boards of this kind.
    """
    found = _Solved(configuration, board, logarithms, stated_u, board_sd)
    return found.estimate, found.board_effect


class _Solved:
    """The least squares of :func:`fit_additive`, solved for the boards first.

    Of each configuration only its means count: the equations that are left are as many as boards.
    """

    def __init__(
        self, configuration: Index, board: Index, y: Array, u: Array, board_sd: float | None
    ) -> None:
        self._num_boards = int(board.max()) + 1
        self._configuration, self._board = configuration, board
        num_others = self._num_boards - 1  # board effects sum to 0
        self._coding = np.vstack([np.eye(num_others), np.full((1, num_others), -1.0)])
        self._count = np.bincount(configuration).astype(np.float64)
        self._across = self._table(np.ones_like(y)) @ self._coding / self._count[:, None]
        means = np.bincount(configuration, y) / self._count
        own = self._coding.T @ (np.bincount(board)[:, None] * self._coding)
        equations = own - self._across.T @ (self._count[:, None] * self._across)
        right = self._coding.T @ np.bincount(board, y) - self._across.T @ (self._count * means)
        effects = np.linalg.lstsq(equations, right, rcond=None)[0]
        missed = (
            y - (means - self._across @ effects)[configuration] - (self._coding @ effects)[board]
        )
        # Counted, for the rank of the equations rounds up where boards are tied by single readings.
        num_tied = self._num_boards - _groups(configuration, board)[0]
        self.dof = len(y) - len(means) - num_tied
        self.variance = float(np.sum(missed**2)) / self.dof if self.dof else 0.0
        self._u, self._drawn = u, np.zeros((num_others, num_others))
        if board_sd is not None:
            spread = sqrt(self.variance if self.dof else float(np.mean(u**2)))
            self._error_sd = max(spread, _LEAST_SD)
            self._drawn = self._drawn_together(equations, right, board_sd)
        self._solve = np.linalg.inv(equations + self._drawn)  # tied, or drawn together
        self._effects = self._solve @ right
        self.estimate: Array = means - self._across @ self._effects
        self.board_effect: Array = self._coding @ self._effects

    def inverse(self) -> Array:
        """Return the inverse of the equations, of the configurations alone."""
        by_boards = self._across @ self._solve @ self._across.T
        return np.asarray(np.diag(1.0 / self._count) + by_boards)

    def stated(self) -> Array:
        """Return the covariance of the estimates that follows from the stated uncertainties."""
        squared, by_board = self._u**2, self._across @ self._solve
        own = np.bincount(self._configuration, squared)
        across = self._table(squared) @ self._coding
        boards = self._coding.T @ (np.bincount(self._board, squared)[:, None] * self._coding)
        if self._drawn.any():
            boards += self._error_sd**2 * self._drawn
        by_mean = (own[:, None] * self._across - across) / self._count[:, None]
        together = self._across.T @ (own[:, None] * self._across - across)
        together += boards - across.T @ self._across
        found = by_mean @ by_board.T
        found += found.T + by_board @ together @ by_board.T
        return np.asarray(np.diag(own / self._count**2) + found)

    def _table(self, values: Array) -> Array:
        at = self._configuration * self._num_boards + self._board
        size = len(self._count) * self._num_boards
        sums = np.bincount(at, values, minlength=size).astype(np.float64)
        return sums.reshape(-1, self._num_boards)

    def _drawn_together(self, equations: Array, right: Array, board_sd: float) -> Array:
        """Return equations that say that each board is as the average, as measurements say it.

        How far boards lie apart is what they are expected to and what they show, taken together in
        a few steps of expectation and maximisation.
        """
        sd, drawn, coding = board_sd, self._coding.T @ self._coding, self._coding
        for _ in range(_EM_STEPS):
            inverse = np.linalg.inv(equations + (self._error_sd / sd) ** 2 * drawn)
            effects = coding @ (inverse @ right)
            left = self._error_sd**2 * np.einsum("bi,ij,bj->b", coding, inverse, coding)
            seen = float(np.sum(effects**2 + left))
            sd = sqrt((_EXPECTED * board_sd**2 + seen) / (_EXPECTED + self._num_boards - 1))
        return np.asarray(drawn * (self._error_sd / sd) ** 2)


def _numbered(names: Sequence[str], known: Sequence[str]) -> Index:
    number = {name: place for place, name in enumerate(known)}
    return np.array([number[name] for name in names], dtype=np.intp)


def tied(configurations: Sequence[str], boards: Sequence[str], reference: str) -> list[bool]:
    """Return which measurements can be compared with ``reference``.

    They can if a chain of boards leads there, each sharing a configuration with the next.
    """
    names, on = tuple(dict.fromkeys(configurations)), tuple(dict.fromkeys(boards))
    places = _numbered(configurations, names)
    _, group = _groups(places, _numbered(boards, on))
    is_tied: list[bool] = (group[places] == group[names.index(reference)]).tolist()
    return is_tied


def _groups(configuration: Index, board: Index) -> tuple[int, Index]:
    """Return how many groups nothing ties to each other, and that of each configuration."""
    group, num_boards = np.arange(int(configuration.max()) + 1), int(board.max()) + 1
    while True:
        of_board = np.full(num_boards, len(group))
        np.minimum.at(of_board, board, group[configuration])
        reached = group.copy()
        np.minimum.at(reached, configuration, of_board[board])
        if (reached == group).all():
            return len(np.unique(group)), group
        group = reached


def _difference_u(covariance: Array, i: int) -> Array:
    variance = covariance[i, i] + np.diag(covariance) - 2 * covariance[i]
    variance[i] = 0.0
    u: Array = np.sqrt(np.maximum(variance, 0.0))
    return u
