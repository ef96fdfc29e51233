"""Prices from replays: joules of a launch above static power, measured kernel by kernel."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag  # type: ignore[import-untyped]
from scipy.optimize import nnls  # type: ignore[import-untyped]
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.attribution.clock_law import ClockLaw
from joulelab.attribution.prices import WAITS, WAITS_U, Array, Prices, Pricing, Solution, prior_of
from joulelab.attribution.profile import KernelCall, PhaseProfile, main_phases
from joulelab.attribution.replayer import Replays
from joulelab.core.measurement import Measurement
from joulelab.errors import MeasurementError
from joulelab.tracing.program import ALL_REDUCE, LINKS_AWAKE, Operator

CONTEXT = 0.05
"""How far a kernel in a program is from the same alone, one standard deviation: other data in the
caches, another temperature, neighbours that share its power."""
COMMON = 0.02
"""The part of that which all kernels of a run share."""
_WAITING = (_FOR_CACHE, _FOR_RANKS) = ("waiting for a cold cache", "waiting for other ranks")
_FOR_LAUNCH = "waiting for a launch"
_LAUNCH_S = 2e-6
"""What a launch of its own adds to any kernel, at most: kernels of a graph follow each other.
Chosen; simulated GPUs add 1 us, and H200s less than 0.4 us in 14 of 18 phases
(experiments/results/h200_attribution)."""
_LEAST_J, _LEAST_W = 1e-6, 5.0
"""How sure of a price anybody is at most; lightest kernels of decodes on H200s draw 3 to 34 W above
static power there."""
_UNKNOWN_LINKS_W = 30.0
"""What links of an H100 draw awake: how far they may be from nothing where none was measured."""
LIKE = 0.35
"""How far kernels that were priced by their like are off, each and all together."""


class Replayed(Pricing):
    """Prices kernels by their replays; those that have none by what they compute and move.

    A kernel that takes longer in the program than alone waits there: for its launch as long as the
    shortest does, at the power of the lightest, and beyond that for a cold cache. What that takes
    of the power that it has alone is a price of its own, which all share; so are what a sum takes
    while it waits for other ranks, and the power of links that stay awake. ``law`` tells what a
    clock changes.
    """

    method = "replay"

    def __init__(self, replays: Replays, law: ClockLaw) -> None:
        self._replays = replays
        self._law = law

    @override
    def prices(
        self, profiles: Sequence[PhaseProfile], measured: Mapping[str, Measurement]
    ) -> Prices:
        phases, links = main_phases(profiles), _links(self._replays.measured.get(LINKS_AWAKE))
        calls: dict[str, KernelCall] = {}
        for profile in profiles:
            for call in filter(_is_kernel, profile.calls):
                if phases[call.kernel] == profile.phase:
                    calls.setdefault(call.kernel, call)
        operators = {name: call.operator for name, call in calls.items()}
        reads = {name: self._reads(name) for name in operators}
        known = {
            name: self._alone(
                calls[name], own, measured[phases[name]].observed.sm_clock_mhz
            ).without(links if operators[name].name == ALL_REDUCE else None)
            for name, own in reads.items()
            if own
        }
        if not known:
            raise MeasurementError(_nothing(self._replays.measured))
        like_j = _like(operators, {name: alone.dynamic_j for name, alone in known.items()})
        supposed = {name: _supposed(like_j(name)) for name in operators if name not in known}
        alone = {name: known.get(name) or supposed[name] for name in operators}
        launch_w = min(one.power_w for one in known.values())
        return Prices(
            names=(*operators, *_WAITING, LINKS_AWAKE, _FOR_LAUNCH),
            prior=_prior(list(alone.values()), links, launch_w),
            holds={one.phase: _holds(one, alone) for one in profiles},
            supposed=frozenset(place for place, name in enumerate(operators) if name in supposed),
        )

    def _reads(self, name: str) -> list[Measurement]:
        """Return what was read of a kernel alone: back to back, and with pauses."""
        found = (each.get(name) for each in (self._replays.measured, self._replays.paced))
        return [one for one in found if one is not None and one.valid and one.idle is not None]

    def _alone(
        self, call: KernelCall, reads: list[Measurement], clock_mhz: float | None
    ) -> "_Alone":
        """Return what a launch takes above static power, and how long, at the clock of the run."""
        near, *others = sorted(reads, key=lambda one: _distance(one, clock_mhz))
        launch_j, near_mhz = _launch_j(near), near.observed.sm_clock_mhz
        near_s = self._time_s(call.kernel, near)
        share = _share(clock_mhz, near_mhz, others)
        if share is None:
            dynamic_j = self._law.energy_j(
                launch_j,
                clock_mhz,
                near_mhz,
                memory_b=call.operator.moved_b,
                stretch=call.device_s / near_s,
            )
        else:
            dynamic_j = launch_j + share * (_launch_j(others[0]) - launch_j)
        # Half of what the clock is said to change is doubted.
        parts_j = (
            *(near.energy_per_unit_u_j, _idle_u_w(near) * near.time_per_unit_s),
            *(CONTEXT * dynamic_j, abs(dynamic_j - launch_j) / 2, _LEAST_J),
        )
        dynamic_u_j = float(np.linalg.norm(parts_j))
        # What a lower clock may add to its time is no waiting.
        slower = near_mhz / clock_mhz if near_mhz and clock_mhz else 1.0
        return _Alone(dynamic_j, dynamic_u_j, near_s * max(1.0, slower))

    def _time_s(self, name: str, read: Measurement) -> float:
        """Return the time of a launch without the pause that followed it."""
        is_paced = read is self._replays.paced.get(name)
        pause_s = self._replays.pauses[name].duration_s if is_paced else 0.0
        return read.time_per_unit_s - pause_s


def _share(
    clock_mhz: float | None, near_mhz: float | None, others: Sequence[Measurement]
) -> float | None:
    """Return where a clock lies from the nearest reading to the other one.

    ``None`` where it is not between them, there is no other, or a clock is not known.
    """
    far_mhz = others[0].observed.sm_clock_mhz if others else None
    if clock_mhz is None or near_mhz is None or far_mhz is None:
        return None
    share = (clock_mhz - near_mhz) / (far_mhz - near_mhz) if far_mhz != near_mhz else 0.0
    return share if share >= 0 else None


def _launch_j(read: Measurement) -> float:
    return max(0.0, read.dynamic_energy_per_unit_j or 0.0)


def _idle_u_w(read: Measurement) -> float:
    return 0.0 if read.idle is None else read.idle.power_u_w


def _distance(read: Measurement, clock_mhz: float | None) -> float:
    """Return how far it was read from a clock; those of unknown clocks come last."""
    own_mhz = read.observed.sm_clock_mhz
    return np.inf if clock_mhz is None or own_mhz is None else abs(own_mhz - clock_mhz)


def _links(read: Measurement | None) -> "tuple[float, float]":
    """Return the power of links that stay awake, in watts, and its u: sums far apart, above idle.

    Nothing is known of it where no such sum was replayed.
    """
    if read is None or not read.valid or read.idle is None:
        return 0.0, _UNKNOWN_LINKS_W
    links_w = max(0.0, read.power_w - read.idle.power_w)
    reading_u_w = read.energy_per_unit_u_j / read.time_per_unit_s
    return links_w, float(np.linalg.norm((reading_u_w, _idle_u_w(read), CONTEXT * links_w)))


def _prior(alone: Sequence["_Alone"], links: tuple[float, float], launch_w: float) -> Solution:
    """Return prices with what is unsure of each, of all together, and of those by their like."""
    dynamic_j = np.array([one.dynamic_j for one in alone])
    own = prior_of(dynamic_j, np.array([one.dynamic_u_j for one in alone]), COMMON)
    by_like_j = LIKE * dynamic_j * np.array([one.time_s is None for one in alone])
    links_w, links_u_w = links
    waits, shared = np.full(len(_WAITING), WAITS), np.outer(by_like_j, by_like_j)
    launch_u_w = max(WAITS_U * launch_w, _LEAST_W)
    others_u = np.r_[np.full(len(_WAITING), WAITS_U), max(links_u_w, _LEAST_J), launch_u_w]
    return Solution(
        prices=np.r_[dynamic_j, waits, links_w, launch_w],
        covariance=block_diag(own.covariance + shared, np.diag(others_u**2)),
    )


class _Alone(NamedTuple):
    """What a launch takes: joules above static, their u, and seconds where they were measured."""

    dynamic_j: float
    dynamic_u_j: float
    time_s: float | None

    @property
    def power_w(self) -> float:
        """Power above static; 0 where its time alone is not known."""
        return self.dynamic_j / self.time_s if self.time_s else 0.0

    def without(self, links: "tuple[float, float] | None") -> "_Alone":
        """Return it without what links that stay awake draw meanwhile, which has its own price."""
        if links is None or self.time_s is None:
            return self
        links_j, links_u_j = (each * self.time_s for each in links)
        dynamic_u_j = float(np.hypot(self.dynamic_u_j, links_u_j))
        return self._replace(dynamic_j=max(0.0, self.dynamic_j - links_j), dynamic_u_j=dynamic_u_j)


def _supposed(dynamic_j: float) -> _Alone:
    return _Alone(dynamic_j, float(np.hypot(LIKE * dynamic_j, _LEAST_J)), None)


def _holds(profile: PhaseProfile, alone: Mapping[str, "_Alone"]) -> csr_array:
    """Return how much of each price calls hold: a launch, and what it waits longer than alone."""
    names = (*alone, *_WAITING, LINKS_AWAKE, _FOR_LAUNCH)
    places = {name: place for place, name in enumerate(names)}
    launch_s = _launch_s(profile, alone)
    rows = [_row(call, alone, launch_s) for call in profile.calls]
    values = [value for row in rows for value in row.values()]
    columns = [places[name] for row in rows for name in row]
    starts = np.r_[0, np.cumsum([len(row) for row in rows])]
    return csr_array((values, columns, starts), shape=(len(rows), len(places)))


def _launch_s(profile: PhaseProfile, alone: Mapping[str, "_Alone"]) -> float:
    """Return what the shortest kernel takes longer in the program: it hardly waits for data."""
    own_s = {call.kernel: alone[call.kernel].time_s for call in profile.calls if _is_kernel(call)}
    timed_s = {name: seconds for name, seconds in own_s.items() if seconds}
    if not timed_s:
        return 0.0
    shortest = min(timed_s, key=lambda name: timed_s[name])
    taken_s = min(call.device_s for call in profile.calls if call.kernel == shortest)
    return min(max(0.0, taken_s - timed_s[shortest]), _LAUNCH_S)


def _is_kernel(call: KernelCall) -> bool:
    return not (call.beside_s or call.waits_in)


def _row(call: KernelCall, alone: Mapping[str, "_Alone"], launch_s: float) -> Mapping[str, float]:
    if call.beside_s:
        return {LINKS_AWAKE: call.beside_s}
    if call.waits_in:
        return {_FOR_RANKS: alone[call.waits_in].power_w * call.device_s}
    kernel = alone[call.kernel]
    waits_s = 0.0 if kernel.time_s is None else max(0.0, call.device_s - kernel.time_s)
    for_launch_s = min(waits_s, launch_s)
    return {
        call.kernel: 1.0,
        _FOR_CACHE: kernel.power_w * (waits_s - for_launch_s),
        _FOR_LAUNCH: for_launch_s,
    }


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
