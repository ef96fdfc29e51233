"""Features: the numbers that members work on, all from profile, clock and catalogue."""

from collections.abc import Mapping, Sequence

import numpy as np

from joulelab.errors import ConfigError
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.columns import ACTIVITIES
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array
from joulelab.registry import unknown_name

CLOCK_FEATURES = ("clock_ratio", "log_clock_ratio", "sm_clock_mhz", "log_clock_mhz")
BOARD_FEATURES = (
    "sm_count",
    "default_clock_mhz",
    "default_power_limit_w",
    "memory_bandwidth_b_per_s",
    "constant_w",
    "clock_over_ridge",
    "voltage",
)
"""Of the catalogue: ``voltage`` is v(f) over its minimum, ``clock_over_ridge`` is f over the clock
from which v rises."""
FEATURES = (*ACTIVITIES, *CLOCK_FEATURES, *BOARD_FEATURES)


def matrix(queries: Queries, names: Sequence[str]) -> Array:
    """Return the features ``names``, shape ``(n, len(names))``; not a number where unread.

    Raises:
        UnknownNameError: If there is no such feature.
    """
    return np.column_stack([_column(queries, name) for name in names])


def medians(values: Array, names: Sequence[str]) -> Array:
    """Return the median of each column over where it was read, shape ``(len(names),)``.

    Raises:
        ConfigError: If a feature was read nowhere.
    """
    unread = [name for name, column in zip(names, values.T, strict=True) if np.isnan(column).all()]
    if unread:
        raise ConfigError(
            f"Columns {unread} are required by this model at the default clock, got none of them."
        )
    return np.asarray(np.nanmedian(values, axis=0), dtype=float)


def filled(values: Array, typical: Array) -> Array:
    """Return ``values`` with ``typical`` ones where a feature was not read."""
    return np.where(np.isnan(values), typical, values)


def _column(queries: Queries, name: str) -> Array:
    if name in ACTIVITIES:
        return queries.of_profiles([p.activity.get(name, np.nan) for p in queries.profiles])
    if name in CLOCK_FEATURES:
        return _clock(queries)[name]
    if name in BOARD_FEATURES:
        return _board(queries, name)
    raise unknown_name("feature", name, FEATURES)


def _clock(queries: Queries) -> Mapping[str, Array]:
    return {
        "clock_ratio": queries.clock_ratio,
        "log_clock_ratio": np.log(queries.clock_ratio),
        "sm_clock_mhz": queries.sm_clock_mhz,
        "log_clock_mhz": np.log(queries.sm_clock_mhz),
    }


def _board(queries: Queries, name: str) -> Array:
    specs = [profile.spec for profile in queries.profiles]
    if name == "constant_w":
        return queries.of_profiles([spec.power.constant_w for spec in specs])
    if name == "clock_over_ridge":
        ridge_mhz = queries.of_profiles([spec.voltage.ridge_mhz for spec in specs])
        return queries.sm_clock_mhz / ridge_mhz
    if name == "voltage":
        return _voltage(queries, specs)
    return queries.of_profiles([float(getattr(spec, name)) for spec in specs])


def _voltage(queries: Queries, specs: Sequence[GpuSpec]) -> Array:
    curves = [spec.voltage for spec in specs]
    ridge_mhz = queries.of_profiles([curve.ridge_mhz for curve in curves])
    slope = queries.of_profiles([curve.slope_per_ghz for curve in curves])
    curvature = queries.of_profiles([curve.curvature_per_ghz2 for curve in curves])
    above_ghz = np.maximum(0.0, queries.sm_clock_mhz - ridge_mhz) / 1e3
    return 1.0 + slope * above_ghz + curvature * above_ghz**2
