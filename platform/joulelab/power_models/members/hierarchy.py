"""Bayesian hierarchy of GPUs and applications by Laplace's approximation.

Parameters are normal: shared ones, those of each GPU, those of each application on a GPU. Their
most likely value is found by least squares and their covariance is the inverse of the curvature
there. What parameters of GPUs and of applications scatter by, and the noise, is learned as well
(expectation maximisation), so that training says how far a new GPU or application may lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve  # type: ignore[import-untyped]
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from joulelab.power_models.members.laws import Law, Terms
from joulelab.power_models.runs import Array, Flags, Index

Pair = tuple[str, str]
_PRIOR_WORTH = 4.0
"""How many GPUs, or applications, the scatter is worth that is assumed before any was seen."""
_NOISE, _LEAST_NOISE = 0.04, 0.01
_ROWS_WORTH = 8.0
"""However many clocks an application was run at, they are worth no more than so many."""
_NUM_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """What is known of all parameters, in the order shared, GPUs, applications.

    Attributes:
        gpus: Labels of the GPUs with parameters.
        pairs: GPU label and application of those with parameters.
        mean: Shape ``(p,)``.
        covariance: Shape ``(p, p)``.
        gpu_scatter: Covariance of the parameters of a GPU not seen.
        application_scatter: Covariance of the parameters of an application not seen.
        noise: Standard deviation of the logarithm of one value.
    """

    gpus: tuple[str, ...]
    pairs: tuple[Pair, ...]
    mean: Array
    covariance: Array
    gpu_scatter: Array
    application_scatter: Array
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows of a table as the hierarchy sees them.

    Attributes:
        terms: What is known of each before any parameter.
        pairs: All GPU labels and applications among them.
        pair: Position in ``pairs`` of each row; shape ``(n,)``.
        at_least: Whether a value is known to be no less than what was measured, which a power
            cap kept down; ``None`` if none is.
    """

    terms: Terms
    pairs: tuple[Pair, ...]
    pair: Index
    at_least: Flags | None = None


def prior(law: Law) -> Posterior:
    """Return what is known before any row."""
    return Posterior(
        gpus=(),
        pairs=(),
        mean=np.zeros(len(law.shared_sd)),
        covariance=np.diag(law.shared_sd**2),
        gpu_scatter=np.diag(law.gpu_sd**2),
        application_scatter=np.diag(law.application_sd**2),
        noise=_NOISE,
    )


def learned(law: Law, rows: Rows, logs: Array) -> Posterior:
    """Return what ``logs``, the logarithms of the values of ``rows``, tell of the parameters."""
    known = prior(law)
    found = updated(law, known, rows, logs)
    for _ in range(_NUM_ROUNDS):
        known = _with_scatter(law, known, found, rows, logs)
        found = updated(law, known, rows, logs, start=found.mean)
    return without_pairs(law, found)


def updated(
    law: Law, known: Posterior, rows: Rows, logs: Array, start: Array | None = None
) -> Posterior:
    """Return what is known after ``rows`` as well; parameters for new names are added.

    Args:
        law: The law.
        known: What is known before.
        rows: Where values were measured.
        logs: Their logarithms; shape ``(n,)``.
        start: Where the search for the most likely parameters begins; ``None`` takes their mean.
    """
    known = extended(law, known, rows.pairs)
    design = _design(law, known, rows)
    count = _row_count(rows)
    deviation = known.noise * np.sqrt(count / np.minimum(count, _ROWS_WORTH))
    whitening = np.linalg.cholesky(np.linalg.inv(known.covariance)).T

    def misfit(parameters: Array) -> Array:
        value, _ = _evaluated(law, rows.terms, design, parameters)
        off = np.where(_satisfied(rows, value, logs), 0.0, value - logs)
        return np.concatenate([off / deviation, whitening @ (parameters - known.mean)])

    def slopes(parameters: Array) -> Array:
        value, slope = _evaluated(law, rows.terms, design, parameters)
        slope = np.where(_satisfied(rows, value, logs)[:, None], 0.0, slope)
        return np.vstack([slope / deviation[:, None], whitening])

    begin = known.mean if start is None else start
    found = least_squares(misfit, begin, jac=slopes, method="lm", xtol=1e-7, ftol=1e-7)
    curvature = found.jac.T @ found.jac
    covariance = cho_solve(cho_factor(curvature), np.eye(len(curvature)))
    return replace(known, mean=found.x, covariance=(covariance + covariance.T) / 2)


def expected(law: Law, known: Posterior, rows: Rows) -> Array:
    """Return the logarithm of each row's most likely value."""
    terms, each = rows.terms, len(law.application_sd)
    num_shared, before = len(law.shared_sd), _num_before_pairs(law, known)
    logs = terms.offset + terms.shared @ known.mean[:num_shared]
    for number, pair in enumerate(rows.pairs):
        own = rows.pair == number
        if pair[0] in known.gpus:
            at = num_shared + len(law.gpu_sd) * known.gpus.index(pair[0])
            logs[own] += terms.gpu[own] @ known.mean[at : at + len(law.gpu_sd)]
        if pair in known.pairs:
            at = before + each * known.pairs.index(pair)
            logs[own] += terms.application[own] @ known.mean[at : at + each]
    return law.combined(logs, terms)[0]


def doubt_of_unmeasured(law: Law, known: Posterior, rows: Rows) -> Array:
    """Return the standard deviation of each logarithm, were its application not measured yet."""
    known = extended(law, without_pairs(law, known), rows.pairs)
    _, slope = _evaluated(law, rows.terms, _design(law, known, rows), known.mean)
    variance = np.einsum("ij,ij->i", slope @ known.covariance, slope)
    return np.asarray(np.sqrt(variance + known.noise**2))


def extended(law: Law, known: Posterior, pairs: Sequence[Pair]) -> Posterior:
    """Return ``known`` with parameters at their prior for GPUs and applications not in it."""
    gpus = [name for name in dict.fromkeys(gpu for gpu, _ in pairs) if name not in known.gpus]
    new = [pair for pair in pairs if pair not in known.pairs]
    before, after = _num_before_pairs(law, known), len(known.mean)
    added = [*[known.gpu_scatter] * len(gpus), *[known.application_scatter] * len(new)]
    if not added:
        return known
    wide = block_diag(known.covariance, *added)
    num_of_gpus = len(gpus) * len(law.gpu_sd)
    order = [
        *range(before),
        *range(after, after + num_of_gpus),
        *range(before, after),
        *range(after + num_of_gpus, len(wide)),
    ]
    return replace(
        known,
        gpus=(*known.gpus, *gpus),
        pairs=(*known.pairs, *new),
        mean=np.concatenate([known.mean, np.zeros(len(wide) - after)])[order],
        covariance=wide[np.ix_(order, order)],
    )


def without_pairs(law: Law, known: Posterior, dropped: Sequence[Pair] | None = None) -> Posterior:
    """Return ``known`` without the parameters of some applications; ``None`` drops all."""
    before = _num_before_pairs(law, known)
    each = len(law.application_sd)
    kept = [] if dropped is None else [p for p in known.pairs if p not in dropped]
    positions = [
        before + each * known.pairs.index(pair) + column for pair in kept for column in range(each)
    ]
    order = np.concatenate([np.arange(before), np.array(positions, dtype=np.intp)]).astype(np.intp)
    return replace(
        known,
        pairs=tuple(kept),
        mean=known.mean[order],
        covariance=known.covariance[np.ix_(order, order)],
    )


def _with_scatter(
    law: Law, known: Posterior, found: Posterior, rows: Rows, logs: Array
) -> Posterior:
    """Return ``known`` with the scatters and the noise as ``found`` shows them."""
    first, last = len(law.shared_sd), _num_before_pairs(law, found)
    value, _ = _evaluated(law, rows.terms, _design(law, found, rows), found.mean)
    off = np.where(_satisfied(rows, value, logs), 0.0, value - logs)
    noise = np.sqrt(np.average(off**2, weights=1.0 / _row_count(rows)))
    return replace(
        known,
        gpu_scatter=_scatter(law.gpu_sd, found, range(first, last, len(law.gpu_sd))),
        application_scatter=_scatter(
            law.application_sd, found, range(last, len(found.mean), len(law.application_sd))
        ),
        noise=max(float(noise), _LEAST_NOISE),
    )


def _scatter(sd: Array, found: Posterior, starts: Sequence[int]) -> Array:
    """Return the covariance of blocks of parameters, each as long as ``sd``."""
    total = _PRIOR_WORTH * np.diag(sd**2)
    for start in starts:
        own = slice(start, start + len(sd))
        total = total + np.outer(found.mean[own], found.mean[own]) + found.covariance[own, own]
    return np.asarray(total / (len(starts) + _PRIOR_WORTH))


def _num_before_pairs(law: Law, known: Posterior) -> int:
    return len(law.shared_sd) + len(known.gpus) * len(law.gpu_sd)


def _satisfied(rows: Rows, value: Array, logs: Array) -> Flags:
    """Return where a value is above what a cap let be measured, and so told nothing more."""
    if rows.at_least is None:
        return np.zeros(len(logs), dtype=np.bool_)
    return np.asarray(rows.at_least & (value > logs))


def _row_count(rows: Rows) -> Array:
    """Return for each row how many rows its application has."""
    return np.bincount(rows.pair).astype(float)[rows.pair]


def _design(law: Law, known: Posterior, rows: Rows) -> Array:
    """Return the derivatives of every term by every parameter, shape ``(n, terms, p)``."""
    terms = rows.terms
    count, num_terms, num_shared = terms.shared.shape
    design = np.zeros((count, num_terms, len(known.mean)))
    design[:, :, :num_shared] = terms.shared
    for number, pair in enumerate(rows.pairs):
        of_pair = rows.pair == number
        gpu = num_shared + len(law.gpu_sd) * known.gpus.index(pair[0])
        design[of_pair, :, gpu : gpu + len(law.gpu_sd)] = terms.gpu[of_pair]
        each = len(law.application_sd)
        own = _num_before_pairs(law, known) + each * known.pairs.index(pair)
        design[of_pair, :, own : own + each] = terms.application[of_pair]
    return design


def _evaluated(law: Law, terms: Terms, design: Array, parameters: Array) -> tuple[Array, Array]:
    """Return the logarithm of each value and its derivatives by the parameters."""
    value, slopes = law.combined(terms.offset + design @ parameters, terms)
    return value, np.einsum("nt,ntp->np", slopes, design)
