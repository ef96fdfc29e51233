"""What measured configurations tell of the others: a law of physics under a Gaussian prior.

Parameters of the law are normal, those of cells with the covariance of :mod:`covariances`. Their
most likely values are found by damped Gauss-Newton steps (Marquardt, "An Algorithm for
Least-Squares Estimation of Nonlinear Parameters", SIAM Journal 11, 1963), and what is left unknown
is that of the law made linear there (Laplace's approximation). All is written in the space of the
data, which is small: of what was never measured, only what is asked for is computed.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular  # type: ignore[import-untyped]
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri  # type: ignore[import-untyped]

from joulelab.searching.model.covariances import Covariances, Missed, Seen, Sums
from joulelab.searching.model.law import (
    BOARD_PARAMETERS,
    CELL_PARAMETERS,
    CellBelief,
    Observed,
    Rows,
)
from joulelab.searching.model.parameters import BOUND, BoardPrior, Parameters, Weights

Array = NDArray[np.float64]

_NUM_CELL, _NUM_BOARD = len(CELL_PARAMETERS), len(BOARD_PARAMETERS)
_MISFIT = 0.004
"""What the law misses of time and of power, relative, even of a cell that is well known."""
_NOISE_WORTH = 12.0
"""How many measurements the stated uncertainties are worth against what the residuals show."""
_NUM_STEPS, _NUM_TRIES, _NUM_NOISE_ROUNDS = 20, 6, 2
_DAMPING, _LEAST_DAMPING, _MORE, _LESS = 1.0, 0.1, 8.0, 0.1
"""How tightly a step is held to where it starts from, over how tightly the prior holds it: at
first, the least that is any, and by what it changes after a step that misleads, and one that
does not."""
_SETTLED = 0.01  # by how much, relative, the noise may still change in the end
_ENOUGH = 0.1
"""By how much a step must lower the misfit, in which an error of one deviation counts 1."""


class Belief:
    """Parameters of the law, given what was measured and what is expected of the board.

    ``working`` are expected log-odds of the share of time in which the device works; ``missed`` is
    what the law misses, and misses alike nearby, ``None`` where it is trusted; ``starts`` are
    beliefs that may be near, its own of before first: it goes on from what fits best.
    """

    def __init__(
        self,
        covariances: Covariances,
        observed: Observed,
        board: BoardPrior,
        num_boards: int = 1,
        *,
        working: float = BOUND[0],
        missed: Missed | None = None,
        starts: Sequence["Belief"] = (),
    ) -> None:
        self._covariances, self._observed = covariances, observed
        self._missed = missed
        self._unknown = Parameters(covariances, observed, board, num_boards, working)
        self._alike = self._missed_alike()
        self._scale(starts[0].noise if starts else 1.0)
        self.weights, self._error = self._start(starts)
        self._of_boards = self._unknown.of_boards(observed.rows)
        for _ in range(_NUM_NOISE_ROUNDS):
            num_open, before = self._find_likeliest(), self.noise
            self._scale(self._scaled_noise(num_open))
            if abs(self.noise / before - 1.0) < _SETTLED:
                break
        self._conclude()

    def expected(self, rows: Rows) -> Array:
        """Return logarithms of time and power that are expected; shape ``(n, 2)``."""
        logs = self._unknown.logs(rows, self.weights)
        if self._missed is not None:
            at = self._observed.rows
            alike = self._covariances.alike(rows.cell, rows.place, at.cell, at.place, self._missed)
            logs += alike @ (self._residual.reshape(-1, 2) * self._missed.variances)
        return logs

    def see(self, rows: Rows, weights: tuple[float, float]) -> Seen:
        """Return a sum of logarithms of time and power, so weighed, of each row."""
        design = self._unknown.design(rows, self.weights)
        return self._seen(_sums(rows, np.array(weights), *design))

    def see_readings(self, rows: Rows) -> Seen:
        """Return logarithms of time and power of each row, one after the other."""
        return self._seen(self._readings(rows))

    def after(self, readings: Seen, root: Array) -> "Belief":
        """Return what is believed once readings are known, but for where the likeliest lies.

        They are as :meth:`see_readings` has them; ``root`` is the Cholesky factor of their
        covariance.
        """
        found, (size, more) = copy(self), readings.known.shape
        found._measured = self._measured.and_then(readings.sums)  # noqa: SLF001 - its own copy
        found._root = np.block(  # noqa: SLF001
            [[self._root, np.zeros((size, more))], [readings.known.T, root]]
        )
        return found

    def covariance(self, one: Seen, other: Seen) -> Array:
        """Return what is left of the covariances of two sets of quantities."""
        return np.asarray(self._prior(one.sums, other.sums) - one.known.T @ other.known)

    def variance(self, one: Seen, other: Seen) -> Array:
        """Return what is left of the covariance of each quantity with its like; shape ``(n,)``."""
        known = self._covariances
        found = known.law_variance(one.sums, other.sums, self._unknown.shared_variance)
        if self._missed is not None:
            found += known.missed_variance(one.sums, other.sums, self._missed)
        return np.asarray(found - np.einsum("ij,ij->j", one.known, other.known))

    def of_cell(self, cell: int) -> CellBelief:
        """Return what is believed of a cell by itself, on the first board, by the law alone."""
        measured, rows = self._measured, self._observed.rows
        own = self._covariances.of_cells[:, cell, cell]
        prior = np.diag(np.concatenate([own, self._unknown.shared_variance[:_NUM_BOARD]]))
        with_cell = self._covariances.of_cells[:, cell, measured.cell].T * measured.of_cell
        with_board = (measured.shared * self._unknown.shared_variance)[:, :_NUM_BOARD]
        across = solve_triangular(self._root, np.hstack([with_cell, with_board]), lower=True)
        likeliest = self._unknown.of_cells(np.array([cell]), self.weights)[0]
        shared = self._unknown.shared(self.weights)
        return CellBelief(
            likeliest=np.concatenate([likeliest, shared[:_NUM_BOARD]]),
            prior=prior,
            covariance=prior - across.T @ across,
            measured=rows.at(np.flatnonzero((rows.cell == cell) & (rows.board == 0))),
            variance=_MISFIT**2,
        )

    def misfit(self) -> float:
        """Return the standard deviation of time and of power around the law, relative."""
        return _MISFIT * float(np.sqrt(self.noise))

    def _start(self, starts: Sequence["Belief"]) -> tuple[Weights, Array]:
        """Return the weights that fit best of those at hand, and how far readings are from them."""
        known = [self._unknown.grown(each.weights) for each in starts]
        tried = [(each, self._error_at(each)) for each in [self._unknown.start(), *known]]
        return min(tried, key=lambda pair: self._misfit_of(*pair))

    def _missed_alike(self) -> Array:
        rows, num = self._observed.rows, 2 * len(self._observed.logs)
        if self._missed is None:
            return np.zeros((num, num))
        alike = self._covariances.alike(rows.cell, rows.place, rows.cell, rows.place, self._missed)
        return np.asarray(np.kron(alike, np.diag(self._missed.variances)))

    def _scale(self, noise: float) -> None:
        """Let readings scatter so many times as stated; their covariance around the law follows."""
        self.noise = noise
        self._around: Array = self._alike + np.diag(self._variance())
        self._own = _factor(self._around)

    def _variance(self) -> Array:
        return ((self._observed.u**2 + _MISFIT**2) * self.noise).ravel()

    def _find_likeliest(self) -> float:
        """Move to the most likely weights; return how many of the readings they do not follow."""
        damping, least = _DAMPING, self._misfit_of(self.weights, self._error)
        for _ in range(_NUM_STEPS):
            self._measured = self._readings(self._observed.rows)
            prior = self._law_prior()
            found, damping = self._step(prior, least, damping)
            if least - found < _ENOUGH:
                break
            least = found
        inverse, _ = dtrtri(_factor(prior + self._around), lower=1)
        return float(self._variance() @ np.sum(np.tril(inverse) ** 2, axis=0))

    def _law_prior(self) -> Array:
        """Return the covariance of readings by the law; shape ``(2 m, 2 m)``."""
        return self._of_boards + self._covariances.law(
            self._measured, self._measured, self._unknown.shared_variance[:_NUM_BOARD]
        )

    def _error_at(self, weights: Weights) -> Array:
        """Return how far readings are from the law; shape ``(2 m,)``."""
        return (self._observed.logs - self._unknown.logs(self._observed.rows, weights)).ravel()

    def _linear_error(self) -> Array:
        """Return how far readings are from the prior mean, of the law made linear."""
        moved = self._unknown.moved(self.weights)[self._measured.cell]
        linear = np.sum(self._measured.of_cell * moved, axis=1)
        by_shared = self._measured.shared @ (self._unknown.shared_variance * self.weights.shared)
        return np.asarray(self._error + linear + by_shared)

    def _wanted(self, pull: Array) -> Weights:
        of_reading = self._measured.of_cell * pull[:, None]
        return Weights(
            of_cell=of_reading.reshape(-1, 2, _NUM_CELL).sum(axis=1),
            shared=pull @ self._measured.shared,
        )

    def _step(self, prior: Array, least: float, damping: float) -> tuple[float, float]:
        """Move to where the misfit is less than ``least``; return it, and the damping from there.

        ``prior`` is the covariance of readings by the law. If nothing is less, it stays.
        """
        linear = self._linear_error()
        for _ in range(_NUM_TRIES):
            kept = damping / (1.0 + damping)
            factor = _factor((1.0 - kept) * prior + self._around)
            pull = _solved(factor, linear - kept * (linear - self._error))
            tried = self._wanted(pull).towards(self.weights, kept)
            with np.errstate(all="ignore"):  # a step too far, which the next line notices
                error = self._error_at(tried)
                if np.isfinite(error).all():
                    found = self._misfit_of(tried, error)
                    if found < least:
                        self.weights, self._error = tried, error
                        return found, damping * _LESS if damping > _LEAST_DAMPING else 0.0
            damping = max(_LEAST_DAMPING, damping * _MORE)
        return least, damping

    def _misfit_of(self, weights: Weights, error: Array) -> float:
        """Return squared errors and squared distances from the prior mean, in deviations."""
        moved = self._unknown.moved(weights)[self._observed.rows.cell]
        far = np.sum(weights.of_cell * moved) + self._unknown.shared_variance @ weights.shared**2
        return float(error @ _solved(self._own, error) + far)

    def _scaled_noise(self, share_unknown: float) -> float:
        stated = self._variance()
        own = stated * _solved(self._own, np.asarray_chkfinite(self._error))
        shown = float(np.sum(own**2 / (stated / self.noise)))
        return max(1.0, (_NOISE_WORTH + shown) / (_NOISE_WORTH + share_unknown))

    def _conclude(self) -> None:
        """Work out what measurements tell, with the law made linear where it is likeliest."""
        self._measured = self._readings(self._observed.rows)
        self._root: Array = np.asarray(np.linalg.cholesky(self._law_prior() + self._around))
        scaled = solve_triangular(self._root, self._linear_error(), lower=True)
        density = -scaled @ scaled / 2 - np.sum(np.log(np.diag(self._root)))
        # How likely so much more scatter than stated is beforehand, but for a constant.
        more = -_NOISE_WORTH / 2 * float(np.log(self.noise) + 1.0 / self.noise - 1.0)
        self.log_evidence = float(density) + more
        self._residual = _solved(self._own, np.asarray_chkfinite(self._error))

    def _seen(self, sums: Sums) -> Seen:
        across = self._prior(self._measured, sums)
        return Seen(sums=sums, known=solve_triangular(self._root, across, lower=True))

    def _prior(self, one: Sums, other: Sums) -> Array:
        found = self._covariances.law(one, other, self._unknown.shared_variance)
        if self._missed is not None:
            found += self._covariances.missed(one, other, self._missed)
        return found

    def _readings(self, rows: Rows) -> Sums:
        """Return time and power of each row, one after the other."""
        design = self._unknown.design(rows, self.weights)
        time, power = (_sums(rows, each, *design) for each in np.eye(2))
        return time.beside(power)


# LAPACK itself: of a matrix as small as these, SciPy's functions take longer to prepare the call.
def _factor(covariance: Array) -> Array:
    """Return the lower Cholesky factor, with anything above; LinAlgError if there is none."""
    found, failed = dpotrf(covariance, lower=1, clean=0)
    if failed:
        raise np.linalg.LinAlgError(f"The covariance has no Cholesky factor (potrf: {failed}).")
    return np.asarray(found)


def _solved(factor: Array, given: Array) -> Array:
    """Return what the matrix of a lower Cholesky ``factor`` makes ``given`` of."""
    found, _ = dpotrs(factor, given, lower=1)
    return np.asarray(found)


def _sums(rows: Rows, weights: Array, by_cell: Array, by_shared: Array) -> Sums:
    """Return sums of logarithms from the derivatives of both."""
    return Sums(
        weights=np.tile(weights, (len(rows.cell), 1)),
        cell=rows.cell,
        place=rows.place,
        of_cell=np.einsum("s,nsp->np", weights, by_cell),
        shared=np.einsum("s,nsp->np", weights, by_shared),
    )
