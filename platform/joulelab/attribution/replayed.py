"""Prices from replays: joules of a launch above static power, measured kernel by kernel."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag  # type: ignore[import-untyped]
from scipy.optimize import nnls  # type: ignore[import-untyped]
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.attribution.prices import Array, Prices, Pricing, Solution, prior_of
from joulelab.attribution.profile import PhaseProfile
from joulelab.core.measurement import Measurement
from joulelab.errors import MeasurementError
from joulelab.hardware import GpuSpec
from joulelab.tracing.program import Operator

WAITING, WAITING_U = 0.6, 0.4
"""Share of its power alone that a kernel has while it waits, and how far that may be off."""
CONTEXT = 0.05
"""How far a kernel in a program is from the same alone, one standard deviation: other data in the
caches, another temperature, neighbours that share its power."""
COMMON = 0.02
"""The part of that which all kernels of a run share."""
_LEAST_J = 1e-6
LIKE = 0.35
"""How far kernels that were priced by their like are off, each and all together."""


class Replayed(Pricing):
    """Prices kernels by their replays; those that have none by what they compute and move.

    A kernel that takes longer in the program than alone waits there, for a cold cache or for its
    launch. What waiting takes of the power that it has alone is a price of its own, which all
    share. ``replay`` measures kernels by name; the voltage of ``spec``, if it is known, tells what
    a clock changes.
    """

    method = "replay"

    def __init__(
        self, replay: Callable[[], Mapping[str, Measurement]], spec: GpuSpec | None
    ) -> None:
        self._replay = replay
        self._spec = spec
        self.measured: Mapping[str, Measurement] = {}

    @override
    def prices(
        self, profiles: Sequence[PhaseProfile], measured: Mapping[str, Measurement]
    ) -> Prices:
        self.measured = self._replay()
        operators: dict[str, Operator] = {}
        clocks_mhz: dict[str, float | None] = {}
        for profile in profiles:
            for call in profile.calls:
                operators.setdefault(call.kernel, call.operator)
                clock_mhz = measured[profile.phase].observed.sm_clock_mhz
                clocks_mhz.setdefault(call.kernel, clock_mhz)
        known = {
            name: self._alone(one, clocks_mhz[name])
            for name, one in self.measured.items()
            if name in operators and one.valid and one.idle is not None
        }
        if not known:
            raise MeasurementError(_nothing(self.measured))
        like_j = _like(operators, {name: alone.dynamic_j for name, alone in known.items()})
        supposed = {name: _supposed(like_j(name)) for name in operators if name not in known}
        alone = [known.get(name) or supposed[name] for name in operators]
        return Prices(
            names=(*operators, "waiting"),
            prior=_prior(alone),
            holds={one.phase: _holds(one, tuple(operators), alone) for one in profiles},
            supposed=frozenset(place for place, name in enumerate(operators) if name in supposed),
        )

    def _alone(self, read: Measurement, clock_mhz: float | None) -> "_Alone":
        """Return what a launch takes above static power, at the clock of the run."""
        launch_j = max(0.0, read.dynamic_energy_per_unit_j or 0.0)
        idle_u_w = 0.0 if read.idle is None else read.idle.energy_u_j / read.idle.duration_s
        factor = self._clock_factor(clock_mhz, read.observed.sm_clock_mhz)
        dynamic_j = factor * launch_j
        # Half of what the clock is said to change is doubted: bytes of the memory do not change.
        parts_j = (
            *(read.energy_per_unit_u_j, idle_u_w * read.time_per_unit_s),
            *(CONTEXT * dynamic_j, abs(factor - 1) / 2 * launch_j, _LEAST_J),
        )
        return _Alone(dynamic_j, float(np.linalg.norm(parts_j)), read.time_per_unit_s)

    def _clock_factor(self, clock_mhz: float | None, was_mhz: float | None) -> float:
        """Return what energy above static is at one clock over another: voltage squared."""
        if self._spec is None or clock_mhz is None or was_mhz is None:
            return 1.0
        low, high = min(self._spec.sm_clocks_mhz), max(self._spec.sm_clocks_mhz)
        there, here = (
            self._spec.voltage.at(float(np.clip(mhz, low, high))) for mhz in (clock_mhz, was_mhz)
        )
        return (there / here) ** 2


def _prior(alone: Sequence["_Alone"]) -> Solution:
    """Return prices with what is unsure of each, of all together, and of those by their like."""
    dynamic_j = np.array([one.dynamic_j for one in alone])
    own = prior_of(dynamic_j, np.array([one.dynamic_u_j for one in alone]), COMMON)
    by_like_j = LIKE * dynamic_j * np.array([one.time_s is None for one in alone])
    return Solution(
        prices=np.r_[dynamic_j, WAITING],
        covariance=block_diag(own.covariance + np.outer(by_like_j, by_like_j), WAITING_U**2),
    )


class _Alone(NamedTuple):
    """What a launch takes: joules above static, their u, and seconds where they were measured."""

    dynamic_j: float
    dynamic_u_j: float
    time_s: float | None


def _supposed(dynamic_j: float) -> _Alone:
    return _Alone(dynamic_j, float(np.hypot(LIKE * dynamic_j, _LEAST_J)), None)


def _holds(profile: PhaseProfile, names: Sequence[str], alone: Sequence[_Alone]) -> csr_array:
    """Return how much of each price calls hold: a launch, and what it waits longer than alone."""
    places = {name: place for place, name in enumerate(names)}
    calls = range(len(profile.calls))
    kernels = [places[call.kernel] for call in profile.calls]
    waits_j = [
        _waits_j(alone[place], call.device_s)
        for place, call in zip(kernels, profile.calls, strict=True)
    ]
    values = np.column_stack([np.ones(len(calls)), waits_j]).ravel()
    columns = np.column_stack([kernels, np.full(len(calls), len(names))]).ravel()
    starts = 2 * np.arange(len(calls) + 1)
    return csr_array((values, columns, starts), shape=(len(calls), len(names) + 1))


def _waits_j(alone: _Alone, device_s: float) -> float:
    """Return what a launch would take more if its power alone held for the whole of its time."""
    if alone.time_s is None:
        return 0.0
    return alone.dynamic_j * max(0.0, device_s / alone.time_s - 1)


def _nothing(measured: Mapping[str, Measurement]) -> str:
    findings = {finding.detail for each in measured.values() for finding in each.findings}
    return f"No kernel could be replayed: {'; '.join(sorted(findings)) or 'none can be launched'}."


def _like(
    operators: Mapping[str, Operator], known_j: Mapping[str, float]
) -> Callable[[str], float]:
    """Return energy above static of a kernel by what it computes and moves, from those replayed.

    Joules per operation, per byte and per launch, none negative, of least relative error: a launch
    takes something however little it does.
    """
    names = [name for name, joules in known_j.items() if joules > 0]
    work = np.array([_work(operators[name]) for name in names]).reshape(-1, 3)
    joules = np.array([known_j[name] for name in names])
    scale = np.maximum(work.max(axis=0, initial=0.0), 1e-30)
    found, _ = nnls(work / scale / joules[:, None], np.ones(len(names)))
    return lambda name: float(_work(operators[name]) @ (found / scale))


def _work(operator: Operator) -> Array:
    return np.array([operator.flop, operator.moved_b, 1.0])
