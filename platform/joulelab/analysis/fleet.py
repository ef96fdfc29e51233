"""How alike boards of one product are: at equal work, at rest, and in their best clock.

A board's effect is what least squares leave to it once configurations are taken out; by how much
boards differ beyond the scatter of measurements is the between-study variance of a meta-analysis
(Paule and Mandel, J. Res. NBS 87, 1982), its interval the Q profile (Viechtbauer, Statistics in
Medicine 26, 2007).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from joulelab.analysis.compared import DEFAULT, comparable, point_label, program_of
from joulelab.analysis.power_cap import is_held
from joulelab.core.additive import Interval, tied
from joulelab.core.device import DeviceIdentity, board_words
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.statistics import student_quantile
from joulelab.errors import MeasurementError

Array = NDArray[np.float64]

LEVEL = 0.95
AT_THE_CAP = " at the power cap"
_MOST_SD = 1.0  # logarithm by which no boards of one product differ: ends the search for it
_LEAST_U = 1e-9  # of boards that scatter not at all, since weights are divided by it
_FEWEST = 4  # boards from which on one of them can be compared with the others
_NEAR = 0.3  # how far from the best clock, as a logarithm, EDP is taken to be a parabola
_FEWEST_CLOCKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRatio:
    """A board over the mean of all."""

    uuid: str
    num: int  # measurements of it that count
    ratio: Interval  # with its confidence interval
    # Whether it lies further from the others than these do from each other, at 5 % over all boards
    is_outlier: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """What boards are compared in."""

    name: str
    unit: str
    # Of all boards, in unit; None where work of several kinds was pooled
    mean: float | None
    boards: tuple[BoardRatio, ...]  # those that can be compared
    spread: Interval  # relative standard deviation between boards, with its confidence interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Boards of one product."""

    boards: tuple[DeviceIdentity, ...]
    hosts: Mapping[str, str]  # machine of each board, by UUID
    aspects: tuple[Aspect, ...]
    num_measurements: int  # valid ones of what several boards measured
    num_apart: int  # valid measurements that nothing ties to the others


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effects:
    """Logarithms of boards over the mean of all, and their standard uncertainties."""

    uuids: tuple[str, ...]
    theta: Array
    u: Array
    dof: int


def fleets_of(measurements: Sequence[Measurement]) -> tuple[Fleet, ...]:
    """Compare the boards of each product of which two boards or more were measured.

    Raises MeasurementError if there is no such product, or nothing was measured twice.
    """
    products = grouped_by(measurements, lambda each: board_words(each.device))
    found = [fleet for group in products.values() if (fleet := _fleet(group)) is not None]
    if not found:
        raise MeasurementError(
            "A fleet is two boards of one product or more that measured the same configuration, "
            f"one of them twice; there are {len(measurements)} measurements of "
            f"{len({m.device.uuid for m in measurements})} boards. A sweep over several GPUs "
            "measures its baseline on each: joulelab study dvfs --num-gpus 8."
        )
    return tuple(found)


def short(uuid: str) -> str:
    """Return as much of a UUID as tells boards apart."""
    return uuid if len(uuid) < 20 else uuid[:12]


def _fleet(group: Sequence[Measurement]) -> Fleet | None:
    programs = grouped_by(group, program_of)
    alike = [comparable(own, point_label, DEFAULT)[0] for own in programs.values()]
    valid = [m for own in alike for m in own]
    names = [_name(m) for m in valid]
    is_tied = tied(names, [m.device.uuid for m in valid], max(names, key=names.count, default=""))
    counted = [m for m, yes in zip(valid, is_tied, strict=True) if yes]
    one_of = {m.device.uuid: m for m in counted}
    boards_of = Counter(name for name, _ in {(_name(m), m.device.uuid) for m in counted})
    shared = [m for m in counted if boards_of[_name(m)] > 1]
    aspects = [
        *_of_work(shared),
        _compared(
            "idle power", "W", _rests(shared), lambda m: m.idle_power_w or 0.0, is_pooled=False
        ),
        *(_best_clock([m for m in own if m.device.uuid in one_of], len(alike)) for own in alike),
    ]
    if not (known := tuple(each for each in aspects if each is not None)):
        return None
    return Fleet(
        boards=tuple(m.device for m in one_of.values()),
        hosts={uuid: m.provenance.hostname for uuid, m in one_of.items()},
        aspects=known,
        num_measurements=len(shared),
        num_apart=len(valid) - len(counted),
    )


def _of_work(counted: Sequence[Measurement]) -> list[Aspect | None]:
    """Compare energy and time, apart where the power cap holds boards at clocks of their own."""
    held, found = {_name(m) for m in counted if is_held(m)}, []
    for suffix, at_cap in (("", False), (AT_THE_CAP, True)):
        own = [m for m in counted if (_name(m) in held) is at_cap]
        found += [
            _compared(f"energy{suffix}", "J", own, lambda m: m.energy_per_unit_j, is_pooled=True),
            _compared(f"time{suffix}", "s", own, lambda m: m.time_per_unit_s, is_pooled=True),
        ]
    return found


def _rests(counted: Sequence[Measurement]) -> list[Measurement]:
    """Keep one phase of each trial: all of them have the same idle window."""
    return list({(m.device.uuid, m.study, m.trial, m.attempt): m for m in counted}.values())


def _name(measurement: Measurement) -> str:
    return f"{measurement.phase} {measurement.configuration.config_hash}"


def _compared(
    name: str,
    unit: str,
    counted: Sequence[Measurement],
    value: Callable[[Measurement], float],
    *,
    is_pooled: bool,
) -> Aspect | None:
    """Compare boards in a quantity of every measurement; 0 where it was not taken."""
    read = [m for m in counted if value(m) > 0.0]
    logs = np.log([value(m) for m in read])
    effects = _effects(read, logs)
    mean = None if is_pooled or not read else float(np.exp(np.mean(logs)))
    return None if effects is None else _aspect(name, unit, mean, effects, read)


def _effects(
    group: Sequence[Measurement], logs: Array, slope: Array | None = None
) -> _Effects | None:
    """Return effects of boards, by least squares with configurations taken out.

    ``logs`` is what each of ``n`` measurements found, shape ``(n,)``; with ``slope``, where each
    lies on an axis, boards' slopes along it are returned. ``None`` if there is one board, or
    nothing tells how measurements scatter.
    """
    import statsmodels.api as sm  # takes half a second

    uuids = tuple(sorted({m.device.uuid for m in group}))
    if len(uuids) < 2:
        return None
    names = sorted({_name(m) for m in group})
    coding = np.vstack([np.eye(len(uuids) - 1), np.full((1, len(uuids) - 1), -1.0)])
    boards = coding[[uuids.index(m.device.uuid) for m in group]]
    columns = [np.eye(len(names))[[names.index(_name(m)) for m in group]], boards]
    if slope is not None:
        columns.append(slope[:, None] * boards)
    design = np.hstack(columns)
    if not len(logs) > np.linalg.matrix_rank(design) == design.shape[1]:
        return None
    fit = sm.OLS(logs, design).fit()
    own = slice(-(len(uuids) - 1), None)
    covariance = coding @ fit.cov_params()[own, own] @ coding.T
    return _Effects(
        uuids=uuids,
        theta=coding @ fit.params[own],
        u=np.sqrt(np.diag(covariance)),
        dof=int(fit.df_resid),
    )


def _best_clock(group: Sequence[Measurement], num_programs: int) -> Aspect | None:
    """Compare boards in the clock at which a program's EDP is lowest.

    Near its least value EDP is a parabola of the clock's logarithm; a board whose EDP rises faster
    has it lower by the slope over the curvature.
    """
    clocks = {m.configuration.point.sm_clock_mhz for m in group} - {None}
    if len(clocks) < _FEWEST_CLOCKS:
        return None
    locked = [m for m in group if m.configuration.point.sm_clock_mhz is not None]
    x = np.log([m.configuration.point.sm_clock_mhz or 1 for m in locked])
    edp = np.log([m.energy_per_unit_j * m.time_per_unit_s for m in locked])
    lowest = x[np.argmin(edp)]
    near = np.abs(x - lowest) < _NEAR
    if len(set(x[near])) < _FEWEST_CLOCKS:
        return None
    bend, slope, _ = np.polyfit(x[near] - lowest, edp[near], 2)
    best = lowest - slope / (2.0 * bend)
    own = [m for m, yes in zip(locked, near, strict=True) if yes]
    if bend <= 0 or not abs(best - lowest) < _NEAR:
        return None
    found = _effects(own, edp[near], x[near] - best)
    if found is None:
        return None
    shifts = replace(found, theta=-found.theta / (2.0 * bend), u=found.u / (2.0 * bend))
    name = " ".join(dict.fromkeys((own[0].configuration.workload, own[0].phase)))
    title = "best clock" if num_programs == 1 else f"best clock, {name}"
    return _aspect(title, "MHz", exp(best), shifts, own)


def _aspect(
    name: str, unit: str, mean: float | None, effects: _Effects, group: Sequence[Measurement]
) -> Aspect:
    seen = [m.device.uuid for m in group]
    margin = student_quantile((1 + LEVEL) / 2, effects.dof) * effects.u
    boards = [
        BoardRatio(
            uuid=uuid,
            num=seen.count(uuid),
            ratio=Interval(value=exp(at), low=exp(at - half), high=exp(at + half)),
            is_outlier=is_outlier,
        )
        for uuid, at, half, is_outlier in zip(
            effects.uuids, effects.theta, margin, _outliers(effects), strict=True
        )
    ]
    return Aspect(name=name, unit=unit, mean=mean, boards=tuple(boards), spread=_spread(effects))


def _spread(effects: _Effects) -> Interval:
    """Return the standard deviation between boards beyond what measurements scatter."""
    from scipy.stats import chi2, f  # type: ignore[import-untyped]

    dof, tail = len(effects.theta) - 1, (1 - LEVEL) / 2
    own_u = effects.u * sqrt((dof + 1) / dof)  # that of a board, not from the mean that holds it
    value, low, high = (
        _sd_where(effects.theta, own_u, heterogeneity)
        for heterogeneity in (dof, *chi2.ppf([1 - tail, tail], dof))
    )
    shown = dof * f.ppf(1 - tail, dof, effects.dof)  # what scatter alone hardly exceeds
    low = low if _sd_where(effects.theta, own_u, shown) > 0.0 else 0.0
    return Interval(value=value, low=low, high=high)


def _sd_where(theta: Array, u: Array, heterogeneity: float) -> float:
    """Return the standard deviation between boards that leaves so much of Cochran's Q."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    def excess(sd: float) -> float:
        weight = 1.0 / (np.maximum(u, _LEAST_U) ** 2 + sd**2)
        mean = np.sum(weight * theta) / np.sum(weight)
        return float(np.sum(weight * (theta - mean) ** 2)) - heterogeneity

    if excess(0.0) <= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, _MOST_SD)) if excess(_MOST_SD) < 0.0 else _MOST_SD


def _outliers(effects: _Effects) -> list[bool]:
    """Return which boards are unlike the others, each compared with those alone."""
    num = len(effects.theta)
    if num < _FEWEST:
        return [False] * num
    far = student_quantile(1 - (1 - LEVEL) / (2 * num), num - 2)
    found = []
    for i, (at, u) in enumerate(zip(effects.theta, effects.u, strict=True)):
        theta, own_u = np.delete(effects.theta, i), np.delete(effects.u, i)
        variance = np.var(theta, ddof=1) * num / (num - 1) + max(u**2 - np.mean(own_u**2), 0.0)
        # Three boards may lie closer together, by luck, than they are known.
        variance = max(variance, u**2 + np.mean(own_u**2) / (num - 1))
        found.append(bool(abs(at - theta.mean()) > far * sqrt(variance)))
    return found
