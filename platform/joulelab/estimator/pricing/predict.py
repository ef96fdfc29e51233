"""From a traced model and a processor to time, energy and memory, and where they go."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Confidence, Estimate, Mode, launch_share
from joulelab.estimator.pricing.breakdown import phase_estimate
from joulelab.estimator.pricing.run import Conditions, PhaseRun, Plan, conditions, plan, run
from joulelab.estimator.pricing.table import Array
from joulelab.hardware.board_file import is_taken
from joulelab.hardware.places import is_of_user
from joulelab.hardware.processor import Family, Processor
from joulelab.tracing.precision import check_precision
from joulelab.tracing.program import ALL_REDUCE, TracedModel

HELD_OUT_ERRORS = files("joulelab.estimator.pricing").joinpath("held_out_errors.toml")
"""What ``benchmarks/estimator.py --write`` makes."""

_NO_SILICON = "projected from a design: there is no silicon"


HOST_BOUND = 0.5
"""Share of the time that launches set, from which an answer is about the host."""


def confidence_of(
    processor: Processor, launch_share: float = 0.0, *, knows_host: bool = False
) -> Confidence:
    """Return the confidence in estimates for ``processor``.

    Errors are those of the latest comparison with measurements; a processor that was never
    compared has none. Answers that the host sets, by the share of the time that launching kernels
    takes, have errors of their own, where it was measured and where it was not.
    """
    found = _errors().get(processor.key, {})
    is_of_host = launch_share >= HOST_BOUND
    on_unknown_host = is_of_host and not knows_host
    if is_of_host:
        found = found.get("known_host" if knows_host else "unknown_host", found)
    basis = _NO_SILICON if processor.tier == "D" else _of_user(processor)
    return Confidence(
        tier=max(processor.tier, "B") if on_unknown_host else processor.tier,
        time_error=found.get("time_error"),
        energy_error=found.get("energy_error"),
        num_points=found.get("num_points", 0),
        note=found.get("note", basis),
        on_unknown_host=on_unknown_host,
    )


def _of_user(processor: Processor) -> str:
    """Say what a GPU of the user's own rests on; nothing of others."""
    if not is_of_user(processor.key):
        return ""
    figures = processor.figures.values()
    copied = sum(map(is_taken, figures))
    return f"a GPU of your own: {copied} of its {len(figures)} figures are copied from another GPU"


@cache
def _errors() -> dict[str, dict[str, Any]]:
    return tomllib.loads(HELD_OUT_ERRORS.read_text(encoding="utf-8"))


def estimate(
    model: TracedModel,
    processor: Processor,
    *,
    mode: Mode = "eager",
    point: OperatingPoint = OperatingPoint(),  # noqa: B008
    num_devices: int = 1,
    knows_host: bool = False,
    events: bool = False,
    strict: bool = False,
) -> Estimate:
    """Return what ``model`` costs on ``processor``; one that does not fit its memory says so.

    For several devices, ``model`` is what one of them runs, all-reduces included.

    Raises:
        ConfigError: If the processor lacks the precision, or ``point`` is off its range, or the
            model does not reduce over ``num_devices``, or operators without formula are met in
            strict mode.
    """
    missing = _without_formula(model)
    if strict and missing:
        raise ConfigError(_missing_formulas(model, missing))
    where = _conditions(model, processor, mode, (point,), num_devices)
    plans = plan(model, where.mode, processor.family)
    runs = [run(one, where) for one in plans]
    phases = tuple(phase_estimate(one, events=events) for one in runs)
    energy_j = sum(phase.energy.total_j for phase in phases)
    return Estimate(
        model=model.name,
        unit=model.unit,
        device=processor.key,
        num_devices=num_devices,
        precision=model.precision,
        batch=model.batch,
        mode=where.mode,
        point=point,
        cap_w=float(where.cap_w[0]),
        phases=phases,
        confidence=confidence_of(processor, launch_share(phases), knows_host=knows_host),
        data_energy_j=(min(energy_j, _zeros_j(plans, where)), energy_j),
        without_formula=missing,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals over (processors, points, phases): of all executions and devices; peaks are of one."""

    phases: tuple[str, ...]
    latency_s: Array
    energy_j: Array
    roofline_s: Array
    peak_power_w: Array
    num_devices: int = 1

    @property
    def total_latency_s(self) -> Array:
        """Time of all phases, one after the other, as (processors, points)."""
        total_s: Array = self.latency_s.sum(axis=-1)
        return total_s

    @property
    def total_energy_j(self) -> Array:
        """Energy of all phases."""
        total_j: Array = self.energy_j.sum(axis=-1)
        return total_j


def totals(
    model: TracedModel,
    processors: Sequence[Processor],
    *,
    mode: Mode = "eager",
    points: Sequence[OperatingPoint] = (OperatingPoint(),),
    num_devices: int = 1,
) -> Totals:
    """Return time and energy of ``model`` alone, as :func:`estimate`, analysed once for all."""
    columns = np.empty((4, len(processors), len(points), len(model.phases)))
    found = runs(model, processors, mode=mode, points=points, num_devices=num_devices)
    for index, of_phases in enumerate(found):
        for place, one in enumerate(of_phases):
            executions = one.plan.phase.count
            columns[:, index, :, place] = (
                one.latency_s * executions,
                one.energy_j * executions * num_devices,
                one.roofline_s * executions,
                np.minimum(one.settled.power_w.max(axis=-1), one.where.cap_w),
            )
    return Totals(
        phases=tuple(phase.phase for phase in model.phases),
        latency_s=columns[0],
        energy_j=columns[1],
        roofline_s=columns[2],
        peak_power_w=columns[3],
        num_devices=num_devices,
    )


def runs(
    model: TracedModel,
    processors: Sequence[Processor],
    *,
    mode: Mode = "eager",
    points: Sequence[OperatingPoint] = (OperatingPoint(),),
    num_devices: int = 1,
) -> Iterator[tuple[PhaseRun, ...]]:
    """Yield the phases of ``model`` on each processor, as priced; analysed once for all of them."""
    plans: dict[tuple[Mode, Family], tuple[Plan, ...]] = {}
    for processor in processors:
        where = _conditions(model, processor, mode, points, num_devices)
        kind = (where.mode, processor.family)
        if kind not in plans:
            plans[kind] = plan(model, *kind)
        yield tuple(run(one, where) for one in plans[kind])


def _conditions(
    model: TracedModel,
    processor: Processor,
    mode: Mode,
    points: Sequence[OperatingPoint],
    num_devices: int,
) -> Conditions:
    check_precision(model.precision, processor)
    if num_devices < 1:
        raise ConfigError(f"num_devices must be at least 1, got {num_devices}.")
    if num_devices > 1 and not _reduces(model):
        raise ConfigError(
            f"num_devices is {num_devices}, but {model.name} as traced runs whole on one device; "
            "share it out first with joulelab.estimator.models.tensor_parallel."
        )
    return conditions(processor, mode, points, num_devices)


def _reduces(model: TracedModel) -> bool:
    programs = (phase.program for phase in model.phases)
    return any(one.name == ALL_REDUCE for program in programs for one in program.operators)


def _zeros_j(plans: Iterable[Plan], where: Conditions) -> float:
    toggle = where.processor.power.zeros_factor
    per_device_j = sum(
        float(run(one, where, toggle=toggle).energy_j[0]) * one.phase.count for one in plans
    )
    return per_device_j * where.num_devices


def _without_formula(model: TracedModel) -> Mapping[str, float]:
    missing: dict[str, float] = {}
    total_b = 0.0
    for phase in model.phases:
        for operator in phase.program.operators:
            moved_b = operator.moved_b * phase.count
            total_b += moved_b
            if not operator.has_formula:
                missing[operator.name] = missing.get(operator.name, 0.0) + moved_b
    return {name: moved_b / total_b if total_b else 0.0 for name, moved_b in missing.items()}


def _missing_formulas(model: TracedModel, missing: Mapping[str, float]) -> str:
    names = ", ".join(f"{name} ({share:.1%} of all bytes)" for name, share in missing.items())
    return (
        f"{model.name} calls matrix operators without cost formula: {names}. Add one to "
        "joulelab.tracing.work, or estimate without --strict, which counts their "
        "bytes alone."
    )
