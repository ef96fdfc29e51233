"""Energy, EDP and ED2P from one model of power and one of time, with their intervals."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from joulelab.core.physics import CAP_SHARE
from joulelab.errors import ConfigError
from joulelab.power_models.base import PowerModel
from joulelab.power_models.interval import Interval
from joulelab.power_models.queries import Queries, sweep
from joulelab.power_models.runs import Array, Names, Runs

Quantity = Literal["power_w", "time_s", "energy_j", "edp_js", "ed2p_js2"]
"""What can be predicted for a clock."""
TIME_EXPONENT = {"energy_j": 1, "edp_js": 2, "ed2p_js2": 3}
"""Power times time to which exponent each quantity is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingModel:
    """One model of power and one of time, asked together.

    Attributes:
        power: Predicts ``power_w``.
        time: Predicts ``time_s``.
    """

    power: PowerModel
    time: PowerModel

    def __post_init__(self) -> None:
        if (self.power.target, self.time.target) != ("power_w", "time_s"):
            raise ConfigError(
                "A model of power_w and one of time_s are required, got "
                f"{self.power.target} and {self.time.target}."
            )

    def fit(
        self, runs: Runs, groups: Names | None = None, *, profiled: Runs | None = None
    ) -> "OperatingModel":
        """Fit both models to ``runs``; returns itself."""
        self.power.fit(runs, groups, profiled=profiled)
        self.time.fit(runs, groups, profiled=profiled)
        return self

    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> "OperatingModel":
        """Return new models that know some measured points; these stay as they are."""
        return OperatingModel(
            power=self.power.adapt(anchors, profiled=profiled),
            time=self.time.adapt(anchors, profiled=profiled),
        )

    def predict(self, queries: Queries, quantity: Quantity) -> Array:
        """Return ``quantity`` for each query, in the unit of its name, shape ``(n,)``.

        Where a profile has a power limit that its power exceeds, the device runs at the highest
        clock that keeps to it, and takes the time of that clock.

        Raises:
            ConfigError: As the models; or if there is no such quantity.
        """
        _check(quantity)
        if quantity == "power_w":
            return self.power.predict(queries)
        time_s = self.time.predict(held(self.power, queries))
        if quantity == "time_s":
            return time_s
        return np.asarray(self.power.predict(queries) * time_s ** TIME_EXPONENT[quantity])

    def predict_interval(
        self, queries: Queries, quantity: Quantity, level: float = 0.9
    ) -> Interval:
        """Return where measured values are expected.

        Of a product the half widths in logs of power and of time, times its exponent, are added
        as independent ones are.

        Raises:
            ConfigError: As the models; or if there is no such quantity.
        """
        _check(quantity)
        power = self.power.predict_interval(queries, level)
        if quantity == "power_w":
            return power
        time = self.time.predict_interval(held(self.power, queries), level)
        if quantity == "time_s":
            return time
        exponent = TIME_EXPONENT[quantity]
        center = self.predict(queries, quantity)
        half = np.hypot(
            np.log(power.upper / power.lower) / 2, exponent * np.log(time.upper / time.lower) / 2
        )
        return Interval(
            lower=center * np.exp(-half),
            upper=center * np.exp(half),
            level=level,
            outside=tuple(dict.fromkeys((*power.outside, *time.outside))),
        )

    def save(self, folder: Path) -> None:
        """Write both models below ``folder``; ``artifacts.load_operating_model`` reads them."""
        self.power.save(folder / "power")
        self.time.save(folder / "time")


def held(power: PowerModel, queries: Queries) -> Queries:
    """Return ``queries`` at the clocks at which their power limits hold the device."""
    limits_w = [profile.power_limit_w or np.inf for profile in queries.profiles]
    if not np.isfinite(limits_w).any():
        return queries
    free = replace(
        queries, profiles=tuple(replace(p, power_limit_w=None) for p in queries.profiles)
    )
    wanted_mhz, clock_mhz = queries.sm_clock_mhz, queries.sm_clock_mhz.copy()
    for number, limit_w in enumerate(limits_w):
        rows = np.flatnonzero(queries.profile == number)
        if np.isfinite(limit_w) and len(rows):
            asked = sweep(free.profiles[number])
            fits = asked.sm_clock_mhz[power.predict(asked) <= CAP_SHARE * limit_w]
            highest_mhz = fits.max() if len(fits) else asked.sm_clock_mhz[0]
            clock_mhz[rows] = np.minimum(wanted_mhz[rows], highest_mhz)
    return replace(queries, sm_clock_mhz=clock_mhz)


def _check(quantity: str) -> None:
    if quantity not in get_args(Quantity):
        raise ConfigError(f"quantity must be one of {get_args(Quantity)}, got {quantity!r}.")
