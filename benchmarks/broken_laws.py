"""Tables that break the law of time and power which the model-guided search assumes.

Each holds what every configuration truly takes; readings scatter around it. The made ones have a
single fault each. The recorded ones lie in ../shared/data and are no part of the project.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path

import numpy as np
from search_surface import ENERGY_NOISE, TIME_NOISE, reading
from smoothing import smoothed_logs

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.csv_table import read_csv_table
from joulelab.hardware import GpuSpec
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace

Array = np.ndarray
Law = Callable[[Mapping[str, KnobValue]], tuple[float, float]]
"""Time and power at the values of all axes."""

CLOCKS_MHZ = tuple(range(1410, 509, -15))
_FEW_CLOCKS_MHZ = CLOCKS_MHZ[::4]
_BATCHES = (1, 4, 16, 32, 64, 128)
_LIMITS_W = tuple(range(180, 481, 30))
_DESK_CLOCKS_MHZ, _DESK_LIMITS_W = tuple(range(2400, 599, -75)), tuple(range(300, 601, 25))
_LAPTOP_CLOCKS_MHZ, _LAPTOP_W = tuple(range(2100, 299, -30)), 80.0
_MEMORY_CLOCKS_MHZ = (9501, 7001, 5001, 810)
_FORMATS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")
_CAP_W = 260.0
_AT_LIMIT = 0.97
_OUTLIER_SHARE, _OUTLIER = 0.03, 0.15
_GPUS = {
    "llm_stage_dvfs": {"A100-SXM4-80GB": "a100_sxm", "A40": "a40"},
    "a100_hpc_dvfs": {"A100(GA100)": "a100_sxm"},
    "inference_dvfs_runs": {"A100": "a100_sxm", "H100": "h100_nvl", "V100": "v100_sxm2"},
}
"""What the catalogue calls the GPUs of each recording of clocks."""
_COLD_STARTS = 3
"""The first runs of a recording load the program: they tell nothing of its clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What every configuration of a space truly takes.

    Attributes:
        name: Of the table.
        source: Where it is from.
        problem: What is searched.
        energy_j: Energy of each configuration.
        time_s: Time of each.
        capped: Whether the driver says that a power limit holds its clock.
        noise: By how much readings of energy scatter; those of time by 0.4 of that.
        stated: What trials state of it.
        has_outliers: Whether some trials take much longer.
        held_mhz: Clock at which the board's own limit holds another one that was asked for, by
            place: such a trial has no figures.
    """

    name: str
    problem: Problem
    energy_j: Array
    time_s: Array
    capped: Array
    noise: float = ENERGY_NOISE
    stated: float = ENERGY_NOISE
    has_outliers: bool = False
    held_mhz: Mapping[int, float] = field(default_factory=dict)
    source: str = "made"

    @property
    def regret(self) -> Array:
        """EDP of each configuration over the least, less 1; infinite where it has no figures."""
        edp = self.energy_j * self.time_s
        edp[list(self.held_mhz)] = np.inf
        return np.asarray(edp / edp.min() - 1.0)

    def outcome(self, asked: Configuration, random: np.random.Generator) -> Outcome:
        """Measure a configuration once."""
        place = self.problem.space.index(asked)
        share = TIME_NOISE / ENERGY_NOISE
        power, time = random.normal(0.0, self.noise, 2) * (1.0, share)
        if self.has_outliers and random.random() < _OUTLIER_SHARE:
            time += _OUTLIER
        time_s = self.time_s[place] * exp(time)
        energy_j = self.energy_j[place] * exp(power + time)
        figures = reading(energy_j, time_s, self.stated, share * self.stated)
        if (held_mhz := self.held_mhz.get(place)) is None:
            return Outcome(candidate=asked, figures=figures, capped=bool(self.capped[place]))
        return Outcome(
            candidate=asked, reason="power_capped", capped=True, held=figures, held_mhz=held_mhz
        )


def tables(data: Path) -> list[Table]:
    """Return all tables; those that were recorded are left out where their folder is missing."""
    return [*made(), *recorded(data)]


def made() -> list[Table]:
    """Return the tables in closed form."""
    clocks: dict[str, Sequence[KnobValue]] = {"sm_clock_mhz": CLOCKS_MHZ}
    batches = {**clocks, "batch": _BATCHES}
    few = {"sm_clock_mhz": _FEW_CLOCKS_MHZ, "batch": _BATCHES}
    return [
        _table("lawful", clocks, _lawful),
        _table("lawful, batches", batches, _lawful),
        _table("kink in time", clocks, _with_time(_kinked)),
        _table("kink in time, batches", batches, _with_time(_kinked)),
        _table("step in time", clocks, _with_time(_stepped)),
        _table("step in time, batches", batches, _with_time(_stepped)),
        _table("faster at lower clocks", clocks, _with_time(_contended)),
        _table("memory plateau", clocks, _plateau),
        _table("caps at large batches", batches, _capped, cap_w=_CAP_W),
        _table("caps nobody tells", batches, _capped),
        _table("clock x limit", {**clocks, "power_limit_w": _LIMITS_W}, _limited),
        _table("batch x limit", {"batch": _BATCHES, "power_limit_w": _LIMITS_W}, _limited),
        _table(
            "fine clock x limit, memory",
            {"sm_clock_mhz": _DESK_CLOCKS_MHZ, "power_limit_w": _DESK_LIMITS_W},
            _desk,
        ),
        _table("laptop at its own cap", {"sm_clock_mhz": _LAPTOP_CLOCKS_MHZ}, _laptop, noise=0.01),
        _table("core x memory clock", {**clocks, "mem_clock_mhz": _MEMORY_CLOCKS_MHZ}, _memory),
        _table(
            "core x memory clock, batches",
            {
                "sm_clock_mhz": _FEW_CLOCKS_MHZ,
                "mem_clock_mhz": _MEMORY_CLOCKS_MHZ,
                "batch": _BATCHES[2:],
            },
            _memory,
        ),
        _table("formats alike in nothing", {**few, "precision": _FORMATS}, _rough),
        _table("noise 2 %", batches, _lawful, noise=0.02, stated=0.005),
        _table("noise 5 %", batches, _with_time(_kinked), noise=0.05, stated=0.005),
        _table("noise 2 %, outliers", batches, _lawful, noise=0.02, stated=0.01, outliers=True),
    ]


def _table(
    name: str,
    axes: Mapping[str, Sequence[KnobValue]],
    law: Law,
    *,
    cap_w: float = np.inf,
    noise: float = ENERGY_NOISE,
    stated: float = ENERGY_NOISE,
    outliers: bool = False,
) -> Table:
    space = SearchSpace("vit", axes)
    top = {axis: max(axes[axis]) for axis in axes if axis.endswith(("_mhz", "_w"))}
    found = []
    for each in space:
        values = dict(zip(axes, space.values(each), strict=True))
        found.append(law(top | {name: v for name, v in values.items() if v is not None}))
    time_s, power_w = np.array(found).T
    capped = power_w >= _AT_LIMIT * np.array([each.point.power_limit_w or cap_w for each in space])
    held = [place for place in np.flatnonzero(capped) if _is_clock_alone(space[place])]
    return Table(
        name=name,
        problem=Problem(space=space, objective=OBJECTIVES["edp"]),
        energy_j=time_s * power_w,
        time_s=time_s,
        capped=capped,
        noise=noise,
        stated=stated,
        has_outliers=outliers,
        held_mhz={place: _held_mhz(space[place]) for place in held},
    )


def _is_clock_alone(configuration: Configuration) -> bool:
    """Whether a clock is asked for under the board's own limit, so that a cap spoils the trial."""
    point = configuration.point
    return point.sm_clock_mhz is not None and point.power_limit_w is None


def _held_mhz(configuration: Configuration) -> float:
    return CLOCKS_MHZ[0] * _capped_ratio(
        {**dict(configuration.knobs), "sm_clock_mhz": configuration.point.sm_clock_mhz}
    )


def _lawful(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    x = at.get("sm_clock_mhz", CLOCKS_MHZ[0]) / CLOCKS_MHZ[0]
    return _at_clock(x, at)


def _at_clock(x: float, at: Mapping[str, KnobValue], factor: float = 1.0) -> tuple[float, float]:
    """Return time and power of a network that waits for its host, as a law has it.

    Args:
        x: Clock over the highest.
        at: Values of the axes.
        factor: Of the time that it works.
    """
    work = 1e-3 * factor * (x**-4 + 0.5**4) ** 0.25
    time_s = work + 8e-3 / at.get("batch", 64)
    squared = (1.0 + max(0.0, x - 0.7)) ** 2
    return time_s, 80.0 + 60.0 * x * squared + 200.0 * x * squared * work / time_s


def _with_time(factor: Callable[[float], float]) -> Law:
    def law(at: Mapping[str, KnobValue]) -> tuple[float, float]:
        x = at["sm_clock_mhz"] / CLOCKS_MHZ[0]
        return _at_clock(x, at, factor(x))

    return law


def _kinked(x: float) -> float:
    return (x / 0.82) ** -1.2 if x < 0.82 else 1.0


def _stepped(x: float) -> float:
    return 1.1 if x > 0.66 else 1.0


def _contended(x: float) -> float:
    return x * (1.0 - 0.25 * (1.0 - max(x, 0.6))) / min(x / 0.6, 1.0) ** 2


def _plateau(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    x = at["sm_clock_mhz"] / CLOCKS_MHZ[0]
    return 1.0 * max(1.0, 0.62 / x) ** 1.5, 70.0 + 130.0 * x + 60.0 * max(0.0, x - 0.85)


def _capped(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    return _at_clock(_capped_ratio(at), at)


def _capped_ratio(at: Mapping[str, KnobValue]) -> float:
    x = at["sm_clock_mhz"] / CLOCKS_MHZ[0]
    while _at_clock(x, at)[1] > _CAP_W:
        x -= 1e-3
    return x


def _limited(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    """Return time and power where parts of a step draw more than its mean, and are held first."""
    x = at.get("sm_clock_mhz", CLOCKS_MHZ[0]) / CLOCKS_MHZ[0]
    parts = [_held(x, at, factor) for factor in (0.7, 1.0, 1.3)]
    times_s = [time_s for time_s, _ in parts]
    return float(np.mean(times_s)), float(np.average([p for _, p in parts], weights=times_s))


def _held(x: float, at: Mapping[str, KnobValue], factor: float) -> tuple[float, float]:
    """Return time and power of a part that draws ``factor`` of the usual, at its limit."""
    while True:
        time_s, power_w = _at_clock(x, at)
        if factor * power_w <= at["power_limit_w"] or x < 0.2:
            return time_s, factor * power_w
        x -= 2e-3


def _desk(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    """Return time and power of a large board that memory bounds, whose caches cross at a clock."""
    x = at["sm_clock_mhz"] / _DESK_CLOCKS_MHZ[0]
    while True:
        bound = 1.0 if x > 0.52 else 1.06
        time_s = bound * (max(1.0, 0.7 / x) + 0.2 / x)
        power_w = 95.0 + 190.0 * x * (1.0 + 1.2 * max(0.0, x - 0.62)) ** 2 + 220.0 / time_s
        if power_w <= at["power_limit_w"] or x < 0.2:
            return time_s, power_w
        x -= 2e-3


def _laptop(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    """Return time and power of a laptop, which holds its clock at a cap that nobody tells."""
    x = at["sm_clock_mhz"] / _LAPTOP_CLOCKS_MHZ[0]
    while True:
        power_w = 14.0 + 30.0 * x + 95.0 * x * (1.0 + max(0.0, x - 0.55)) ** 2
        if power_w <= _LAPTOP_W:
            return 0.3 + 0.7 / x, power_w
        x -= 2e-3


def _memory(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    x, memory = at["sm_clock_mhz"] / CLOCKS_MHZ[0], at["mem_clock_mhz"]
    moved = {9501: 0.8, 7001: 0.9, 5001: 1.1, 810: 6.0}[memory] * (1.0 + 4.0 / at.get("batch", 64))
    drawn_w = {9501: 45.0, 7001: 31.0, 5001: 22.0, 810: 8.0}[memory]
    time_s = max(1.0 / x, moved) + 0.15 * min(1.0 / x, moved)
    return time_s, 35.0 + drawn_w + 120.0 * x * (1.0 + max(0.0, x - 0.7)) ** 2 / (x * time_s)


def _rough(at: Mapping[str, KnobValue]) -> tuple[float, float]:
    """Return time and power where nothing of one format and batch tells of another."""
    name = (_FORMATS.index(at["precision"]), _BATCHES.index(at["batch"]))
    time, power = np.random.default_rng(name).normal(0.0, (0.4, 0.2))
    time_s, power_w = _at_clock(at["sm_clock_mhz"] / CLOCKS_MHZ[0], at)
    return time_s * exp(time), power_w * exp(power)


def recorded(data: Path) -> Iterator[Table]:
    """Yield the tables that were measured, as far as their files are there.

    Clocks that were measured once are smoothed, as their scatter is not the program's; those of
    the A40 are not, since two boards show the same step at the same clock.
    """
    for name, gpus in _GPUS.items():
        rows = _rows(data / f"{name}.csv", ("sm_clock_mhz",))
        for (gpu, app), points in rows.items():
            spec = GPUS[gpus[gpu]]
            table = _of_points(f"{gpu} {app}", ("sm_clock_mhz",), points, spec, gpu != "A40")
            yield replace(table, source=f"{name}, {gpu}")
    axes = ("batch", "power_limit_w")
    for (gpu, app), points in _rows(data / "power_limit_batch_training.csv", axes).items():
        table = _of_points(f"{gpu} {app}", axes, points, None, False)
        yield replace(table, source=f"power_limit_batch_training, {gpu}")


Points = Mapping[tuple[float, ...], tuple[float, float]]
"""Logarithms of time and power by the values of the axes."""


def _rows(path: Path, axes: Sequence[str]) -> dict[tuple[str, str], Points]:
    """Return the points of each program on each GPU; none where the file is missing."""
    found: dict[tuple[str, str], dict[tuple[float, ...], list[Array]]] = {}
    if not path.is_file():
        return {}
    for row in read_csv_table(path):
        figures = [float(row[name] or 0.0) for name in ("time_s", "power_w")]
        if min(figures) > 0 and int(row.get("run_seq") or _COLD_STARTS + 1) > _COLD_STARTS:
            points = found.setdefault((row["gpu"], row["app"]), defaultdict(list))
            points[tuple(float(row[axis]) for axis in axes)].append(np.log(figures))
    return {
        name: {at: tuple(np.mean(logs, axis=0)) for at, logs in points.items()}
        for name, points in found.items()
    }


def _of_points(
    name: str, axes: Sequence[str], points: Points, spec: GpuSpec | None, is_smoothed: bool
) -> Table:
    values = _complete(axes, points)
    space = SearchSpace("vit", values)
    top = {axis: max(values[axis]) for axis in axes if axis != "batch"}
    logs = np.array([points[_place(space, each, top)] for each in space])
    if is_smoothed:
        clocks = np.array(values["sm_clock_mhz"], dtype=float)
        logs[1:] = np.column_stack([smoothed_logs(clocks, column) for column in logs[1:].T])
        logs[0] = logs[-1]
    power_w = np.exp(logs[:, 1])
    limits_w = np.array([each.point.power_limit_w or np.inf for each in space])
    return Table(
        name=name,
        problem=Problem(space=space, objective=OBJECTIVES["edp"], gpu=spec),
        energy_j=np.exp(logs.sum(axis=1)),
        time_s=np.exp(logs[:, 0]),
        capped=power_w >= _AT_LIMIT * limits_w,
    )


def _complete(axes: Sequence[str], points: Points) -> dict[str, tuple[int, ...]]:
    """Return the values of the axes, without those of the first at which others are missing."""
    last = {at[-1] for at in points}
    whole = [at for at in points if all((*at[:-1], each) in points for each in last)]
    return {axis: tuple(sorted({int(at[i]) for at in whole})) for i, axis in enumerate(axes)}


def _place(space: SearchSpace, each: Configuration, top: Mapping[str, int]) -> tuple[float, ...]:
    """Return the values of a configuration; the driver's own are the highest."""
    at = zip(space.axes, space.values(each), strict=True)
    return tuple(float(top[name] if value is None else value) for name, value in at)
