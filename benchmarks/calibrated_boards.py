#!/usr/bin/env python
"""What a board's calibration spares searches and power models, and what that of another costs.

Usage: python benchmarks/calibrated_boards.py [--products a100_sxm h200_sxm] [--boards 8]

Simulated boards depart from the catalogue at random: constant power by 20 %, the knee of voltage by
8 %, its rise by 20 %, the knee of memory by 15 % (standard deviations). Each is calibrated as
``joulelab calibrate --board`` does, at 24 clocks of two loads that are read to 0.4 % of power; then
networks are searched (clock, batch and format; the clock alone), and models of power that were
trained on other networks of a board that is as the catalogue says are asked, from one anchor. Known
of the board is what the catalogue says, its calibration, or another board's, which is as wrong as
boards differ; a study would refuse it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf
from statistics import fmean

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure
from search_surface import Surface, surface_of

from joulelab.core.configuration import KnobValue
from joulelab.core.device import DeviceIdentity
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GpuSpec
from joulelab.hardware.board_facts import SCHEMA, BoardFacts, ClockPoint
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import EDP
from joulelab.power_models.board_fit import calibrated_spec
from joulelab.power_models.members.stacked import StackedModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.runs import NEAR_CAP
from joulelab.power_models.validation import WARM
from joulelab.running.board import LOADS, NUM_CLOCKS
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided
from joulelab.workloads import WORKLOADS
from joulelab.workloads.disk_cache import cached_cost

SPREAD = {"constant": 0.2, "ridge": 0.08, "rise": 0.2, "knee": 0.15}
POWER_NOISE, RATE_NOISE = 0.004, 0.001
WITHIN = 0.01
HOW = ("catalogue", "own", "other")
SEARCHED = {
    "vit": ("fp32", "tf32", "bf16"),
    "bert": ("fp32", "tf32", "bf16"),
    "resnet50": ("fp32", "tf32", "bf16"),
}
BATCHES = (1, 16, 64)
_SPACES: dict[str, tuple[int, Mapping[str, Sequence[KnobValue]]]] = {
    "clock, batch, format": (24, {"batch": BATCHES}),
    "clock": (10, {"batch": (16,)}),
}
"""Trials of a search, and the values of batch; formats are searched with several of these."""
Program = tuple[str, dict[str, KnobValue]]
_TRAINED: tuple[Program, ...] = (
    ("vit", {"batch": 1, "precision": "fp16"}),
    ("bert", {"batch": 32, "precision": "fp32"}),
    ("resnet50", {"batch": 16, "precision": "fp32"}),
    ("resnet50", {"batch": 64, "precision": "fp16"}),
    ("lstm", {"batch": 64}),
    ("detection", {"batch": 4}),
)
_ASKED: tuple[Program, ...] = (
    ("vit", {"batch": 8, "precision": "fp16"}),
    ("bert", {"batch": 1, "precision": "fp16"}),
    ("resnet50", {"batch": 128, "precision": "bf16"}),
    ("lstm", {"batch": 256}),
    ("detection", {"batch": 8}),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare what is known of boards.

    Attributes:
        products: Catalogue keys.
        boards: How many boards of each.
    """

    products: tuple[str, ...] = ("a100_sxm", "h200_sxm")
    boards: int = 8


def figures(settings: Settings) -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    found: dict[str, list[float]] = {}
    for product in settings.products:
        model = _trained(GPUS[product])
        for number in range(settings.boards):
            for name, value in _compared(GPUS[product], number, model):
                found.setdefault(f"{product} {name}", []).append(value)
    for name, values in found.items():
        print(f"{name}: {fmean(values):.4g}, worst {max(values):.4g} of {len(values)}")
    return [each for product in settings.products for each in _promised(product, found)]


def _promised(product: str, found: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    def mean(what: str, how: str) -> float:
        return fmean(found[f"{product} {what}, {how}"])

    for space in _SPACES:
        for how in HOW[1:]:
            yield Figure(
                name=f"{product}, {space}: trials until within 1 %, {how} calibration",
                measured=mean(f"{space}: trials", how),
                promised=mean(f"{space}: trials", "catalogue") + (0.5 if how == "other" else 0.0),
                unit="",
                how="promised is what the catalogue takes, and half a trial for another's",
            )
            yield share_figure(
                f"{product}, {space}: final regret of EDP, {how} calibration",
                mean(f"{space}: regret", how),
                100 * (mean(f"{space}: regret", "catalogue") + 0.002),
                "promised is that by the catalogue and 0.2 points",
            )
    for how, more in (("own", 0.0), ("other", 0.04)):
        yield share_figure(
            f"{product}: power from one anchor, {how} calibration",
            mean("power", how),
            100 * (mean("power", "catalogue") + more),
            "promised is that by the catalogue, and 4 points for another's",
        )


def _compared(spec: GpuSpec, number: int, model: OperatingModel) -> Iterator[tuple[str, float]]:
    """Yield trials, regrets and errors on a board, each with what of the board was known."""
    own, other = (planted(spec, np.random.default_rng([number, which])) for which in (0, 1))
    known = dict(zip(HOW, (None, facts_of(own, number), facts_of(other, number)), strict=True))
    for how, facts in known.items():
        yield f"power, {how}", power_error(model, own, facts, number)
    for space, (num_trials, axes) in _SPACES.items():
        for workload, precisions in SEARCHED.items():
            formats = {"precision": precisions} if len(axes["batch"]) > 1 else {}
            every = {"sm_clock_mhz": spec.study_clocks_mhz, **axes, **formats}
            surface = surface_of(SearchSpace(workload, every), own)
            for how, facts in known.items():
                problem = Problem(
                    space=surface.space,
                    objective=EDP,
                    gpu=spec if facts is None else calibrated_spec(spec, facts),
                    calibration=facts,
                )
                trials, regret = searched(problem, surface, num_trials, number)
                yield f"{space}: trials, {how}", trials
                yield f"{space}: regret, {how}", regret


def planted(spec: GpuSpec, random: np.random.Generator) -> GpuSpec:
    """Return a board of the kind ``spec``."""
    moved = {name: exp(random.normal(0.0, sd)) for name, sd in SPREAD.items()}
    voltage, power, timing = spec.voltage, spec.power, spec.timing
    return replace(
        spec,
        voltage=replace(
            voltage,
            ridge_mhz=min(moved["ridge"] * voltage.ridge_mhz, 0.97 * spec.default_clock_mhz),
            slope_per_ghz=moved["rise"] * voltage.slope_per_ghz,
            curvature_per_ghz2=moved["rise"] * voltage.curvature_per_ghz2,
        ),
        power=replace(power, constant_w=moved["constant"] * power.constant_w),
        timing=replace(timing, memory_knee_mhz=moved["knee"] * timing.memory_knee_mhz),
    )


def facts_of(board: GpuSpec, seed: int) -> BoardFacts:
    """Return what calibrating a board shows, with the noise of its readings."""
    random, grid_mhz = np.random.default_rng(seed), sorted(board.sm_clocks_mhz)
    chosen = [grid_mhz[round(at)] for at in np.linspace(0, len(grid_mhz) - 1, NUM_CLOCKS)]
    curve = []
    for load, knobs in LOADS:
        for clock_mhz, power_w, time_s, _ in _sweep(board, (load, knobs), chosen):
            read_w = power_w * exp(random.normal(0.0, POWER_NOISE))
            curve.append(
                ClockPoint(
                    load=load,
                    sm_clock_mhz=clock_mhz,
                    power_w=read_w,
                    power_u_w=POWER_NOISE * read_w,
                    rate_per_s=exp(random.normal(0.0, RATE_NOISE)) / time_s,
                )
            )
    device = DeviceIdentity(
        uuid="planted", name=board.product_names[0], backend="simulated", driver_version="1"
    )
    return BoardFacts(
        schema=SCHEMA,
        device=device,
        host="here",
        measured_at="",
        joulelab_version="",
        facts=(),
        curve=tuple(curve),
    )


def _sweep(
    board: GpuSpec, program: Program, clocks_mhz: Sequence[int]
) -> Iterator[tuple[int, float, float, Mapping[str, float]]]:
    """Yield clock, power, time per unit and activities where the power limit holds nothing."""
    cost = cached_cost(WORKLOADS[program[0]].from_knobs(program[1]))
    phase = cost.phases[0]
    model = PhaseModel(board, phase, data=cost.data)
    for clock_mhz in clocks_mhz:
        point = model.at(clock_mhz, board.mem_clocks_mhz[0])
        if point.power_w < (1.0 - NEAR_CAP) * board.default_power_limit_w:
            read = point.activity
            activity = {
                "sm_active": read.sm_active or 0.0,
                "tensor_active": read.tensor_active or 0.0,
                "dram_active": read.dram_active or 0.0,
                "gr_engine_active": read.gr_engine_active or 0.0,
                "fp_active": (read.fp64_active or 0.0) + (read.fp32_active or 0.0) / 2,
            }
            yield clock_mhz, point.power_w, point.duration_s / phase.work, activity


def searched(problem: Problem, surface: Surface, num_trials: int, seed: int) -> tuple[float, float]:
    """Return after how many trials a search is within 1 %, one more than made if never; its end."""
    random, regret, first, last = np.random.default_rng(seed), surface.regret, inf, inf
    race = Race(problem, ModelGuided(problem), num_trials=num_trials)
    for number in range(1, num_trials + 1):
        if (asked := race.ask()) is None:
            break
        race.tell(surface.outcome(surface.space.index(asked), random))
        if (now := race.standing()) is not None:
            last = float(np.expm1(regret[surface.space.index(now.best)]))
            first = min(first, number if last <= WITHIN else inf)
    return min(first, num_trials + 1), last


def _rows(board: GpuSpec, programs: Sequence[Program], seed: int) -> list[dict[str, object]]:
    random, rows = np.random.default_rng(seed), []
    clocks_mhz = sorted(c for c in board.sm_clocks_mhz if c <= board.default_clock_mhz)[::-6]
    for program in programs:
        found = list(_sweep(board, program, clocks_mhz))
        if not found or found[0][0] < board.default_clock_mhz:
            continue  # its profile is under the power limit
        for clock_mhz, power_w, time_s, activity in found:
            read_w = power_w * exp(random.normal(0.0, POWER_NOISE))
            row = {"application": str(program), "gpu": board.key, "sm_clock_mhz": clock_mhz}
            rows.append({**row, "power_w": read_w, "time_s": time_s, **activity})
    return rows


def _trained(spec: GpuSpec) -> OperatingModel:
    power, time = (StackedModel(t, calibration_folds=0) for t in ("power_w", "time_s"))
    return OperatingModel(power=power, time=time).fit(runs_of_rows(_rows(spec, _TRAINED, 0)))


def power_error(
    model: OperatingModel, board: GpuSpec, facts: BoardFacts | None, seed: int
) -> float:
    """Return the mean relative error of power at other clocks than the anchor's."""
    known = model if facts is None else model.on_board(board.key, facts)
    runs = runs_of_rows(_rows(board, _ASKED, seed))
    queries = queries_of(runs)
    anchors = queries.nearest(WARM)
    warm = known.adapt(runs.select(anchors), profiled=runs)
    off = np.abs(warm.predict(queries, "power_w") / runs.power_w - 1.0)
    return float(off[~anchors].mean())


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings, description=__doc__)))
