"""Runs: what applications drew and took on GPUs at several clocks, checked.

A power limit acts through the clock: a run that it held is one at a lower clock than was asked for.
Where that was not read, it follows from what the application draws at other clocks, and is
otherwise as usual.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from joulelab.core.power_law import CAP_SHARE, board_w
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.hardware.spec import GpuSpec

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Index = NDArray[np.intp]
Names = NDArray[np.str_]

_NUMBERS = (
    *("sm_clock_mhz", "observed_sm_clock_mhz", "power_w", "time_s", "power_limit_w"),
    "row",
)
PROFILE_TOLERANCE = 0.1
"""How far (relative) the clock of a profile may be from the GPU's default clock."""
NEAR_CAP = 0.03
"""How far (relative) from its limit a capped board is kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """A table of runs, one per application, GPU, clock and power limit; read by :mod:`.readers`."""

    application: Names  # what ran; shape (n,), as all columns
    gpu: Names  # label of the board or set of boards that it ran on
    boards: Mapping[str, str]  # for each label, which GPU of the catalogue it is
    # SM clock under load, or that was asked for where none was read.
    sm_clock_mhz: Array
    observed_sm_clock_mhz: Array  # that was read under load; not a number where none was
    power_w: Array  # mean power
    time_s: Array  # time of the same work at every clock
    activity: Mapping[str, Array]  # unit activities (0 to 1) by name; not a number where unread
    power_limit_w: Array  # power limit; not a number where it is not known
    row: Index  # number of each row in its source, for messages
    # How many runs of the source are not in the table, by reason.
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = [getattr(self, name) for name in ("gpu", *_NUMBERS)]
        lengths = {len(column) for column in (*columns, *self.activity.values())}
        if lengths != {len(self.application)}:
            raise ConfigError(f"Every column must have the same length, got {sorted(lengths)}.")
        if not len(self):
            raise ConfigError("At least one run is required, got none.")
        missing = sorted(set(self.gpu.tolist()) - set(self.boards))
        if missing:
            raise ConfigError(f"boards must say which GPU of the catalogue {missing} are.")
        _check_duplicates(self)

    def __len__(self) -> int:
        return len(self.application)

    @property
    def energy_j(self) -> Array:
        """Energy of the work, in joules."""
        return self.power_w * self.time_s

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every (GPU label, application), in the order of the table."""
        return tuple(dict.fromkeys(zip(self.gpu.tolist(), self.application.tolist(), strict=True)))

    @property
    def limit_w(self) -> Array:
        """Power limit, the board's default where it is not known."""
        default_w = np.array([self.spec(gpu).default_power_limit_w for gpu in self.gpu.tolist()])
        return np.where(np.isnan(self.power_limit_w), default_w, self.power_limit_w)

    @property
    def over_limit(self) -> Array:
        """Power over the power limit, the board's default where it is not known."""
        return np.asarray(self.power_w / self.limit_w)

    def spec(self, gpu: str) -> GpuSpec:
        """Return the GPU of the catalogue that the label ``gpu`` stands for."""
        return GPUS[self.boards[gpu]]

    def select(self, chosen: Flags | Index) -> "Runs":
        """Return some of the rows.

        Raises ConfigError if none is chosen.
        """
        columns = {name: getattr(self, name)[chosen] for name in ("application", "gpu", *_NUMBERS)}
        return Runs(
            **columns,
            boards={label: self.boards[label] for label in set(columns["gpu"].tolist())},
            activity={name: values[chosen] for name, values in self.activity.items()},
        )

    def of_pair(self, gpu: str, application: str) -> Index:
        """Return the positions of the rows of one application on one GPU."""
        return np.flatnonzero((self.gpu == gpu) & (self.application == application))

    def by_pair(self) -> Iterator[tuple[tuple[str, str], Index]]:
        """Yield each (GPU label, application) with the positions of its rows."""
        for gpu, application in self.pairs:
            yield (gpu, application), self.of_pair(gpu, application)

    def profile_row(self, gpu: str, application: str) -> int:
        """Return the position of the run at the default clock, where the profile is taken.

        Of several the one with the highest power limit, an unknown one being the board's own.
        Raises ConfigError if there is none, as :meth:`has_profile` says.
        """
        rows, distance = self._from_default(gpu, application)
        if not self.has_profile(gpu, application):
            default_mhz = self.spec(gpu).default_clock_mhz
            clocks = ", ".join(f"{clock:g}" for clock in self.sm_clock_mhz[rows][:5])
            raise ConfigError(
                f"A run of {application!r} on {gpu!r} near the default clock of {default_mhz} MHz "
                f"is required for its profile, got sm_clock_mhz {clocks or 'of no run'}."
            )
        limits_w = self.power_limit_w[rows]
        limits_w = np.where(np.isnan(limits_w), self.spec(gpu).default_power_limit_w, limits_w)
        return int(rows[np.lexsort((-limits_w, distance))[0]])

    def reached(self, row: int) -> tuple[float | None, bool]:
        """Return the highest clock in MHz at which the application of ``row`` was seen to run.

        Of runs under the same power limit on the same GPU; ``None`` where no clock was read.

        Returns:
            The clock, and whether the limit held one of those runs, so that no higher clock is
            reached. A board one of whose runs exceeds the limit has another one.
        """
        limit_w, share = self.limit_w, self.over_limit
        own = self.gpu == self.gpu[row]
        same = own & (self.application == self.application[row])
        same &= np.isclose(limit_w, limit_w[row]) & ~np.isnan(self.observed_sm_clock_mhz)
        if not same.any():
            return None, False
        is_held = share[same].max() >= 1.0 - NEAR_CAP and share[own].max() <= 1.0 + NEAR_CAP
        return float(self.sm_clock_mhz[same].max()), bool(is_held)

    def has_profile(self, gpu: str, application: str) -> bool:
        """Whether a run is within :data:`PROFILE_TOLERANCE` of the default clock.

        A power limit may hold it at any clock below.
        """
        rows, distance = self._from_default(gpu, application)
        is_held = self.over_limit[rows] >= 1.0 - NEAR_CAP
        return bool(((distance <= PROFILE_TOLERANCE) | is_held).any())

    def _from_default(self, gpu: str, application: str) -> tuple[Index, Array]:
        rows = self.of_pair(gpu, application)
        return rows, np.abs(self.sm_clock_mhz[rows] / self.spec(gpu).default_clock_mhz - 1.0)

    def check_trainable(self) -> None:
        """Check that a clock's effect on unseen applications can be learned.

        Raises ConfigError if there are too few applications, or one has a single clock.
        """
        known = sorted(set(self.application.tolist()))
        if len(known) < 2:
            raise ConfigError(
                "Column 'application' must hold at least 2 applications to "
                f"learn what holds for another one, got {known}."
            )
        for (gpu, application), rows in self.by_pair():
            if len(rows) < 2:
                raise ConfigError(
                    f"Column 'sm_clock_mhz' must hold at least two clocks of {application!r} on "
                    f"{gpu!r}, got {self.sm_clock_mhz[rows[0]]:g} alone (row {self.row[rows[0]]})."
                )


def _check_duplicates(runs: Runs) -> None:
    columns = (runs.gpu, runs.application, runs.sm_clock_mhz, np.nan_to_num(runs.power_limit_w))
    keys = zip(*(column.tolist() for column in columns), strict=True)
    seen: dict[tuple[str, str, float, float], int] = {}
    for row, key in zip(runs.row.tolist(), keys, strict=True):
        if key in seen:
            gpu, application, clock_mhz, _ = key
            raise ConfigError(
                f"Column 'sm_clock_mhz' must hold each clock once per application, GPU and power "
                f"limit, got {clock_mhz:g} of {application!r} on {gpu!r} in rows {seen[key]} and "
                f'{row}; if they are repeats, say --repeats median (repeats="median" in Python); '
                "if power limits differ, add a column 'power_limit_w'."
            )
        seen[key] = row


Pair = tuple[str, str]
"""GPU label and application."""
_USUAL_EXCESS = 0.07
"""How far above its limit a run there would be without it, as a share of what the hungriest load
is: the median of applications that the limit of 700 W held, at clocks that were read, is 0.09 on
an H100 (26) and 0.05 on an H200 (95)."""


def held_without_clock(runs: Runs) -> Flags:
    """Return which runs a power limit held at a clock that was not read; shape ``(n,)``.

    A board one of whose runs exceeds the limit has another one.
    """
    share = runs.over_limit
    held = (share >= 1.0 - NEAR_CAP) & np.isnan(runs.observed_sm_clock_mhz)
    for gpu in runs.boards:
        own = runs.gpu == gpu
        held[own] &= share[own].max() <= 1.0 + NEAR_CAP
    return held


def usual_held_mhz(spec: GpuSpec, asked_mhz: float, limit_w: float) -> float:
    """Return the clock at which a power limit usually holds runs that were asked for another."""
    constant_w = spec.power.constant_w
    clocks_mhz = np.array(sorted({*(c for c in spec.sm_clocks_mhz if c < asked_mhz), asked_mhz}))
    peak_w = _peak_w(spec, clocks_mhz)
    if peak_w[-1] <= limit_w:
        return asked_mhz
    wanted_w = limit_w + _USUAL_EXCESS * (peak_w[-1] - limit_w)
    share = (wanted_w - constant_w) / (peak_w[-1] - constant_w)
    fits = constant_w + share * (peak_w - constant_w) <= CAP_SHARE * limit_w
    return float(clocks_mhz[fits].max(initial=clocks_mhz[0]))


def _peak_w(spec: GpuSpec, clocks_mhz: Array) -> Array:
    """Return board power with its hungriest unit and its memory at peak."""
    power, voltage = spec.power, np.array([spec.voltage.at(mhz) for mhz in clocks_mhz])
    of_clock = power.clock_tree_w_per_ghz + power.sm_w_per_ghz + max(power.pipe_w_per_ghz.values())
    core_w = power.leakage_w + of_clock * clocks_mhz / 1e3
    memory_w = power.dram_j_per_b * spec.memory_bandwidth_b_per_s
    return board_w(power.constant_w, voltage**2, core_w, memory_w)
