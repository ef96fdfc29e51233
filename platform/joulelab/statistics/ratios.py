"""Intervals of ratios by the bootstrap, with boards kept apart.

BCa: bias-corrected and accelerated (Efron, JASA 82, 1987), which suits skewed ratios such as EDP.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from joulelab.core.additive import Interval
from joulelab.errors import ConfigError, MeasurementError
from joulelab.statistics.samples import Array, check_scatter, check_share, log_ratios

NUM_RESAMPLES = 9999
FEWEST_BOARDS = 5
"""With fewer boards, resampling them says nothing about boards in general."""


def ratio_on_boards(
    treated: Sequence[float] | Array,
    reference: Sequence[float] | Array,
    boards: Sequence[str],
    *,
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return the ratio of means on these very boards, with its BCa interval.

    Pairs are resampled within each board. The ratio is the geometric mean over boards of each
    board's mean treated over mean reference value, so that every board counts the same.

    Args:
        treated: Energies, EDPs, ... with the change; all positive.
        reference: Their partners without it, from the same block.
        boards: On which board each pair was measured.
        level: Confidence level.
        num_resamples: How often to resample.
        seed: Of the resampling.

    Raises:
        ConfigError: If the lengths differ or ``level`` is out of range.
        MeasurementError: If a board has fewer than two pairs, a value is not positive, or no
            pair differs from the others.
    """
    logarithms = _checked(treated, reference, boards, level)
    check_scatter(logarithms)
    above, below = np.asarray(treated, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    rows = _rows_of_boards(boards)
    for board, members in rows.items():
        if len(members) < 2:
            raise MeasurementError(
                f"At least two pairs per board are required to resample them, got one on "
                f"{board!r}; repeat it, or leave that board out."
            )

    def ratio(*chosen: Array, axis: int = -1) -> Array:
        logs = [
            np.log(above[index].mean(axis=axis) / below[index].mean(axis=axis))
            for index in (each.astype(np.intp) for each in chosen)
        ]
        return np.asarray(np.exp(np.mean(logs, axis=0)))

    return _bca(tuple(rows.values()), ratio, level, num_resamples, seed)


def ratio_over_boards(
    treated: Sequence[float] | Array,
    reference: Sequence[float] | Array,
    boards: Sequence[str],
    *,
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return the ratio to expect of a further board of this kind, with its BCa interval.

    Whole boards are resampled: repeats on one board are no news about other ones. Arguments and
    errors are those of :func:`ratio_on_boards`, but at least :data:`FEWEST_BOARDS` are required.
    """
    _checked(treated, reference, boards, level)
    above, below = np.asarray(treated, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    rows = _rows_of_boards(boards)
    if len(rows) < FEWEST_BOARDS:
        raise MeasurementError(
            f"At least {FEWEST_BOARDS} boards are required to speak of other ones, got "
            f"{len(rows)}; ratio_on_boards speaks of these."
        )
    logs = np.array([np.log(above[r].mean() / below[r].mean()) for r in rows.values()])
    check_scatter(logs)

    def ratio(chosen: Array, axis: int = -1) -> Array:
        return np.asarray(np.exp(chosen.mean(axis=axis)))

    return _bca((logs,), ratio, level, num_resamples, seed)


def _checked(
    treated: Sequence[float] | Array,
    reference: Sequence[float] | Array,
    boards: Sequence[str],
    level: float,
) -> Array:
    check_share("level", level)
    logarithms = log_ratios(treated, reference)
    if len(boards) != len(logarithms):
        raise ConfigError(
            f"boards must name the board of each pair, got {len(boards)} names for "
            f"{len(logarithms)} pairs."
        )
    return logarithms


def _rows_of_boards(boards: Sequence[str]) -> dict[str, Any]:
    labels = np.array(boards)
    return {board: np.flatnonzero(labels == board) for board in dict.fromkeys(boards)}


def _bca(
    samples: tuple[Any, ...],
    statistic: Callable[..., Array],
    level: float,
    num_resamples: int,
    seed: int,
) -> Interval:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # judged below
        found = stats.bootstrap(
            samples,
            statistic,
            n_resamples=num_resamples,
            batch=1000,
            vectorized=True,
            confidence_level=level,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    if not (np.isfinite(found.low) and np.isfinite(found.high)):
        raise MeasurementError(
            "The bootstrap found no interval: too many resamples are alike. Measure more repeats."
        )
    value = float(statistic(*samples, axis=-1))
    return Interval(value=value, low=float(found.low), high=float(found.high))
