"""Queries: what is asked of a model, and all that a member ever sees of an application."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.columns import ACTIVITIES, MOST_ABOVE_ENGINE
from joulelab.power_models.runs import Array, Flags, Index, Runs
from joulelab.registry import unknown_name

Target = Literal["power_w", "time_s"]
"""What a model predicts; energy, EDP and ED2P follow from one model of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One application on one GPU, as one run near the default clock shows it.

    Power is not part of it: a measured power is an anchor, see ``PowerModel.adapt``.
    """

    application: str
    gpu: str  # label of the board or set of boards
    board: str  # which GPU of the catalogue that is
    clock_mhz: float  # SM clock of the run
    # Unit activities in that run, 0 to 1, by name; absent where unread.
    activity: Mapping[str, float]
    time_s: float | None = None  # how long the run took; None if power alone is asked for
    # Power limit that predictions keep to; None where it is not known.
    power_limit_w: float | None = None
    # Highest clock at which it was seen to run under that limit; None where no clock was read.
    reached_mhz: float | None = None
    # Clock at which the limit was seen to hold it: higher ones run there; None where it was not.
    held_mhz: float | None = None

    def __post_init__(self) -> None:
        if self.board not in set(GPUS):
            raise unknown_name("GPU", self.board, GPUS)
        for name, value in self.activity.items():
            if name not in ACTIVITIES:
                raise unknown_name("activity", name, ACTIVITIES)
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{name} must be a share from 0 to 1, got {value}.")
        sm_active = self.activity.get("sm_active", 0.0)
        engine = self.activity.get("gr_engine_active", 1.0)
        if sm_active - engine > MOST_ABOVE_ENGINE:
            raise ConfigError(
                f"gr_engine_active must be at least sm_active, got {engine:g} and {sm_active:g}: "
                "leave it out if it was not read."
            )
        for name in ("clock_mhz", "time_s", "power_limit_w", "reached_mhz", "held_mhz"):
            number = getattr(self, name)
            if number is not None and not 0.0 < number < np.inf:
                raise ConfigError(f"{name} must be positive, got {number}.")

    @property
    def pair(self) -> tuple[str, str]:
        """GPU label and application."""
        return self.gpu, self.application

    @property
    def spec(self) -> GpuSpec:
        """The GPU of the catalogue."""
        return GPUS[self.board]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Queries:
    """Profiles and the clocks at which they are asked about.

    There is no place in it for anything measured at the queried clocks, so that no member can
    be taught, or asked, with what it could not know.
    """

    profiles: tuple[Profile, ...]  # one per application and GPU
    profile: Index  # for each query, the position of its profile; shape (n,)
    sm_clock_mhz: Array  # for each query, its SM clock; shape (n,)

    def __post_init__(self) -> None:
        if self.profile.shape != self.sm_clock_mhz.shape or self.profile.ndim != 1:
            raise ConfigError(
                "profile and sm_clock_mhz must have one shape (n,), got "
                f"{self.profile.shape} and {self.sm_clock_mhz.shape}."
            )
        if not len(self):
            raise ConfigError("At least one query is required, got none.")
        if not (np.isfinite(self.sm_clock_mhz) & (self.sm_clock_mhz > 0)).all():
            raise ConfigError(f"sm_clock_mhz must be positive, got {self.sm_clock_mhz.min()}.")

    def __len__(self) -> int:
        return len(self.sm_clock_mhz)

    @property
    def clock_ratio(self) -> Array:
        """Queried clock over the clock of the profile; shape ``(n,)``."""
        return self.sm_clock_mhz / self.of_profiles([p.clock_mhz for p in self.profiles])

    @property
    def at_profile(self) -> "Queries":
        """The same queries at the clock of their profiles."""
        return replace(self, sm_clock_mhz=self.of_profiles([p.clock_mhz for p in self.profiles]))

    def held_at(self, held_mhz: Mapping[tuple[str, str], float]) -> "Queries":
        """Return the same queries where power limits hold profiles, and all that is above, there.

        Args:
            held_mhz: The clocks at which they do, by GPU and application, besides those that
                profiles say.
        """
        highest_mhz = [
            min(held_mhz.get(profile.pair, np.inf), profile.held_mhz or np.inf)
            for profile in self.profiles
        ]
        if np.isinf(highest_mhz).all():
            return self
        both = zip(self.profiles, highest_mhz, strict=True)
        profiles = tuple(replace(p, clock_mhz=min(p.clock_mhz, mhz)) for p, mhz in both)
        clocks_mhz = np.minimum(self.sm_clock_mhz, self.of_profiles(highest_mhz))
        return replace(self, profiles=profiles, sm_clock_mhz=clocks_mhz)

    def by_profile(self) -> Iterator[tuple[int, Index]]:
        """Yield the number of each profile asked about, and the positions of its queries."""
        for number in np.unique(self.profile).tolist():
            yield number, np.flatnonzero(self.profile == number)

    def by_gpu(self) -> Iterator[tuple[str, Index]]:
        """Yield the label of each GPU asked about, and the positions of its queries."""
        labels = np.array([profile.gpu for profile in self.profiles])[self.profile]
        for gpu in dict.fromkeys(profile.gpu for profile in self.profiles):
            rows = np.flatnonzero(labels == gpu)
            if len(rows):
                yield gpu, rows

    def each_profile(self) -> "Queries":
        """Ask about every profile at its clock, one after the other."""
        clocks_mhz = np.array([profile.clock_mhz for profile in self.profiles])
        which = np.arange(len(self.profiles), dtype=np.intp)
        return replace(self, profile=which, sm_clock_mhz=clocks_mhz)

    def nearest(self, ratios: Sequence[float]) -> Flags:
        """Return which queries are the nearest ones to ``ratios`` of their profiles' clocks."""
        found = np.zeros(len(self), dtype=np.bool_)
        for ratio in ratios:
            off = np.abs(self.clock_ratio - ratio)
            found[[rows[np.argmin(off[rows])] for _, rows in self.by_profile()]] = True
        return found

    def of_profiles(self, values: Sequence[float]) -> Array:
        """Return, for each query, the value of its profile; shape ``(n,)``."""
        return np.array(values, dtype=float)[self.profile]

    def select(self, chosen: Flags | Index) -> "Queries":
        """Return some of the queries, with all profiles."""
        return replace(self, profile=self.profile[chosen], sm_clock_mhz=self.sm_clock_mhz[chosen])


def sweep(profile: Profile, clocks_mhz: Sequence[float] | None = None) -> Queries:
    """Ask about ``profile`` at each of ``clocks_mhz``; ``None`` takes all clocks of its GPU.

    Clocks ascend where they come from the GPU. Raises ConfigError if a clock is beyond the GPU's
    range.
    """
    grid = sorted(profile.spec.sm_clocks_mhz)
    clocks = np.array(grid if clocks_mhz is None else clocks_mhz, dtype=float)
    outside = clocks[(clocks < grid[0]) | (clocks > grid[-1])]
    if len(outside):
        raise ConfigError(
            f"sm_clock_mhz of {profile.board} must be {grid[0]} to {grid[-1]}, got {outside[0]:g}."
        )
    return Queries(
        profiles=(profile,), profile=np.zeros(len(clocks), dtype=np.intp), sm_clock_mhz=clocks
    )


def profile_of(runs: Runs, gpu: str, application: str) -> Profile:
    """Return the profile of an application from its run at the default clock.

    Raises ConfigError if there is no run near it.
    """
    row = runs.profile_row(gpu, application)
    known = {name: float(values[row]) for name, values in runs.activity.items()}
    limit_w = float(runs.power_limit_w[row])
    reached_mhz, is_held = runs.reached(row)
    return Profile(
        application=application,
        gpu=gpu,
        board=runs.boards[gpu],
        clock_mhz=float(runs.sm_clock_mhz[row]),
        activity={name: value for name, value in known.items() if not np.isnan(value)},
        time_s=float(runs.time_s[row]),
        power_limit_w=None if np.isnan(limit_w) else limit_w,
        reached_mhz=reached_mhz,
        held_mhz=reached_mhz if is_held else None,
    )


def queries_of(runs: Runs, profiled: Runs | None = None) -> Queries:
    """Ask about every row of ``runs``, of which but application, GPU and clock are used.

    Profiles are taken from ``profiled``; ``None`` takes ``runs`` itself. Raises ConfigError if a
    profile is not found there.
    """
    pairs = runs.pairs
    position = {pair: number for number, pair in enumerate(pairs)}
    labels = zip(runs.gpu.tolist(), runs.application.tolist(), strict=True)
    return Queries(
        profiles=tuple(profile_of(runs if profiled is None else profiled, *pair) for pair in pairs),
        profile=np.array([position[pair] for pair in labels], dtype=np.intp),
        sm_clock_mhz=runs.sm_clock_mhz,
    )


def scale(queries: Queries, target: Target) -> Array:
    """Return what members' values are multiplied by, shape ``(n,)``.

    Members see power in watts, and time relative to that of the profile: the activities of an
    application say how time changes with the clock, and not how much work there is. Raises
    ConfigError if a profile lacks the time that a prediction of time needs.
    """
    if target == "power_w":
        return np.ones(len(queries))
    for profile in queries.profiles:
        if profile.time_s is None:
            raise ConfigError(
                f"The profile of {profile.application!r} must say time_s at its clock, to predict "
                "time at others; got None."
            )
    return queries.of_profiles([profile.time_s or np.nan for profile in queries.profiles])
