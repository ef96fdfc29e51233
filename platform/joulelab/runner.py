"""Measure and sweep a program, in this process or wherever else a lab is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.plan import (
    SweepMode,
    check_plan,
    check_points,
    on_products,
    plan_sweep,
    sweep_points,
)
from joulelab.core.point import OperatingPoint
from joulelab.core.trial import Trial
from joulelab.errors import ANALYSIS, ConfigError, require
from joulelab.objectives import without_quality
from joulelab.study.abstract_lab import AbstractLab
from joulelab.study.gpu import StudyGpu, by_product, study_clocks_mhz
from joulelab.study.kind import MEASUREMENT, SWEEP
from joulelab.study.lab import Lab, StudyWorkload
from joulelab.study.results import MeasureResult, SweepStudy
from joulelab.workloads.program import Cost, Work

Costs = Cost | Callable[..., Cost]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a study was asked, for its header."""

    program: str
    objective: str
    knobs: str
    lab: AbstractLab[Any]


def measure(
    program: object,
    *,
    knobs: Mapping[str, KnobValue] | None = None,
    point: OperatingPoint | None = None,
    repeats: int = 1,
    unit: str | None = None,
    work: Work | None = None,
    cost: Costs | None = None,
    settings: object = None,
    lab: AbstractLab[Any] | None = None,
) -> MeasureResult:
    """Measure what a unit of work of a program costs, with an error bar.

    The whole procedure: prepare, settle at the operating point, idle, warm up until steady, windows
    until the confidence interval is narrow, and the validity contract. Clocks are borrowed from the
    clock guard, and given back.

    ::

        result = joulelab.measure(step, unit="image", work=32)
        print(result)
        print(result.measurement().energy_per_unit_j)

    Args:
        program: A callable whose call is one unit of work, a ``Workload``, the settings of one, or
            the name of one: ``"gemm"``, ``"train.py:step"``, ``"package.module:Net"``.
        knobs: Values of its arguments, or of a workload's settings.
        point: Clocks and power limit; by default the driver's own.
        repeats: How often the whole is measured.
        unit: What a call does, in the singular (``"image"``); by default ``"call"``.
        work: How many of those a call does, or a function of the knobs that returns it:
            ``lambda batch: batch``; by default 1. Say it where a search varies it.
        cost: What a call costs, for simulated GPUs, which play it: a ``PhaseCost`` or
            ``WorkloadCost``, or a function of the knobs that returns one.
        settings: A dataclass that the study's header keeps; by default what was asked.
        lab: On which GPU, how, and where results go: a ``Lab``, which is this process, or a
            ``Laboratory`` of :mod:`joulelab_actors`, which is a Ray cluster.

    Raises:
        ConfigError: If it cannot be carried out as asked for.
        DeviceError: If there is no such GPU, or it cannot be used.
    """
    lab = lab or Lab()
    check_plan(repeats)
    workload = StudyWorkload(program, knobs, unit=unit, work=work, cost=cost)
    with lab.open(workload.name) as gpus:
        workload.check(gpus)
        folder = lab.folder(f"measure-{workload.name}", gpus)
        asked = Configuration.of(workload.name, workload.settings, point)
        trials = plan_sweep(folder.name, [asked], repeats=repeats)
        header = settings or asked_of(workload, "edp", lab)
        summary = lab.carry_out(trials, gpus, folder, settings=header, kind=MEASUREMENT)
    return MeasureResult(folder=folder, summary=summary, asked=asked)


def sweep(
    program: object,
    *,
    knobs: Mapping[str, KnobValue] | None = None,
    mode: SweepMode | None = None,
    clocks_mhz: Sequence[int] | None = None,
    every: int = 1,
    objective: str = "edp",
    repeats: int = 3,
    sentinel_every: int = 10,
    seed: int = 0,
    unit: str | None = None,
    work: Work | None = None,
    cost: Costs | None = None,
    settings: object = None,
    lab: AbstractLab[Any] | None = None,
) -> SweepStudy:
    """Measure a program over SM clocks, in randomised blocks, and say which to use.

    Points follow each other at the quick pace, unless the lab's procedure asks for another one.
    GPUs of several products are swept each by themselves, over their own clocks.

    ::

        found = joulelab.sweep(step, every=4)
        print(found)
        found.report("sweep.html")

    Args:
        program: As for :func:`measure`.
        knobs: As for :func:`measure`.
        mode: Clocks besides the driver's default: the GPU's own (``"dvfs"``), those given
            (``"custom"``), none (``"baseline"``); by default as ``clocks_mhz`` says.
        clocks_mhz: SM clocks in MHz; by default the GPU's own.
        every: Take every k-th of the GPU's own clocks.
        objective: What is to be low: ``"edp"``, ``"ed2p"``, ``"energy"``, ``"time"``, or
            that of a plug-in.
        repeats: Blocks; each holds every clock once, in its own random order.
        sentinel_every: Trials between two looks at the default clock for drift.
        seed: Seed of that order.
        unit: As for :func:`measure`.
        work: As for :func:`measure`.
        cost: As for :func:`measure`.
        settings: As for :func:`measure`.
        lab: As for :func:`measure`; there may be several GPUs.

    Raises:
        ConfigError: If it cannot be carried out as asked for.
        DeviceError: If there is no such GPU, or it cannot be used.
    """
    require(*ANALYSIS)
    from joulelab.analysis.sweep import SweepResult
    from joulelab.study.conclude import conclude_sweep

    without_quality(objective)
    lab, given_mhz = lab or Lab(), () if clocks_mhz is None else tuple(clocks_mhz)
    mode = mode or ("dvfs" if clocks_mhz is None else "custom")
    check_points(mode, every, given_mhz, observe_only=lab.observe_only)
    check_plan(repeats, sentinel_every)
    workload = StudyWorkload(program, knobs, unit=unit, work=work, cost=cost)
    asked = Configuration.of(workload.name, workload.settings)
    found: list[SweepResult] = []
    with lab.open(workload.name, mixed=True) as gpus:
        workload.check(gpus)
        folder = lab.folder(f"dvfs-{workload.name}", gpus)

        def plan(own: Sequence[StudyGpu]) -> tuple[Trial, ...]:
            points = _points_on(own, mode=mode, every=every, clocks_mhz=given_mhz)
            return plan_sweep(
                folder.name,
                [replace(asked, point=point) for point in points],
                repeats=repeats,
                sentinel=asked,
                sentinel_every=sentinel_every,
                seed=seed,
            )

        plans = {product: plan(own) for product, own in by_product(gpus).items()}
        summary = lab.carry_out(
            on_products(plans),
            gpus,
            folder,
            settings=settings or asked_of(workload, objective, lab),
            kind=SWEEP,
            procedure=lab.procedure.in_sweep(),
            conclude=lambda store: found.append(conclude_sweep(store, objective).of_program(asked)),
        )
    return SweepStudy(folder=folder, summary=summary, asked=asked, result=found[0])


def _points_on(
    gpus: Sequence[StudyGpu], *, mode: SweepMode, every: int, clocks_mhz: Sequence[int]
) -> tuple[OperatingPoint, ...]:
    """Return the points of a sweep on GPUs of one product; ConfigError names it."""
    own_mhz = study_clocks_mhz(gpus)
    try:
        return sweep_points(own_mhz, mode=mode, every=every, clocks_mhz=clocks_mhz)
    except ConfigError as error:
        raise ConfigError(f"On {gpus[0].identity.name} {error}") from error


def asked_of(workload: StudyWorkload, objective: str, lab: AbstractLab[Any]) -> Asked:
    """Return what a study was asked, for its header."""
    knobs = " ".join(f"{name}={value}" for name, value in asdict(workload.settings).items())
    return Asked(program=workload.name, objective=objective, knobs=knobs, lab=lab)
