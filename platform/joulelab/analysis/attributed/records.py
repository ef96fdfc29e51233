"""Attributions as numbers: all parts in SI units, and everything as JSON has it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from joulelab.analysis.attributed.table import answer, in_order, notes
from joulelab.analysis.table import Frame
from joulelab.attribution.attribution import Attribution, Phase, Share
from joulelab.sampling.spells import MeteringCost

ALL_GPUS = "all"  # in the place of a UUID where a number is of all boards


def frame(found: Attribution) -> Frame:
    """Return all parts as numbers in SI units, per unit of work."""
    phases = [("", phase) for phase in found.phases]
    phases += [(str(tokens), phase) for tokens, phase in found.contexts.items()]
    return Frame.of(
        [
            {"context_tokens": tokens, "gpu": gpu, **row}
            for tokens, phase in phases
            for gpu, one in _apart(found, phase)
            for row in _rows(one)
        ]
    )


def _apart(found: Attribution, phase: Phase) -> Iterable[tuple[str, Phase]]:
    """Yield a phase with the UUID of its board; of several, all of them, then each."""
    if not phase.boards:
        yield found.device.uuid, phase
        return
    yield ALL_GPUS, phase
    yield from ((gpu.uuid, one) for gpu, one in zip(found.boards, phase.boards, strict=True))


def _rows(phase: Phase) -> Iterable[Mapping[str, object]]:
    levels = {
        "component": phase.by_component,
        "stage": phase.by_stage,
        "layer": in_order(phase),
        "operator": phase.by_operator,
        "kernel": phase.by_kernel,
    }
    for level, shares in levels.items():
        for share in shares:
            yield _row(phase, level, share)


def _row(phase: Phase, level: str, share: Share) -> Mapping[str, object]:
    work = phase.profile.work
    estimated_j = share.estimated_j
    return {
        "phase": phase.phase,
        "level": level,
        "name": share.name,
        "unit": phase.unit,
        "energy_per_unit_j": share.energy_j / work,
        "energy_per_unit_u_j": share.energy_u_j / work,
        "energy_share": share.energy_j / phase.energy_j,
        "time_per_unit_s": None if share.time_s is None else share.time_s / work,
        "power_w": share.power_w,
        "num_calls": share.calls,
        "estimated_per_unit_j": None if estimated_j is None else estimated_j / work,
        "is_supposed": int(share.is_supposed),
    }


def content(found: Attribution) -> Mapping[str, object]:
    """Return an attribution as JSON has it."""
    table = frame(found)
    return {
        "program": found.program,
        "knobs": dict(found.knobs),
        "device": found.device.name,
        "uuid": found.device.uuid,
        "method": found.method,
        "static_w": found.static_w,
        "static_u_w": found.static_u_w,
        "seconds": found.seconds,
        "notes": notes(found),
        "phases": [
            {
                "phase": phase.phase,
                "answer": answer(found, phase),
                **_whole(phase),
                "boards": [
                    {"uuid": gpu.uuid, **_whole(one)}
                    for gpu, one in zip(found.boards, phase.boards, strict=False)
                ],
            }
            for phase in found.phases
        ],
        "contexts": [
            {"context_tokens": tokens, "phase": phase.phase, **_whole(phase)}
            for tokens, phase in found.contexts.items()
        ],
        "metering": {phase: _cost(cost) for phase, cost in found.metering.items()},
        "driver_version": found.device.driver_version,
        "provenance": asdict(found.provenance),
        "parts": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
    }


def _whole(phase: Phase) -> Mapping[str, object]:
    work = phase.profile.work
    return {
        "energy_per_unit_j": phase.energy_j / work,
        "energy_per_unit_u_j": phase.energy_u_j / work,
        "time_per_unit_s": phase.time_s / work,
        "closure": phase.closure,
        "deviation": phase.deviation,
        "is_reconciled": phase.is_reconciled,
    }


def _cost(cost: MeteringCost) -> Mapping[str, object]:
    found = cost.slowdown
    if not cost.is_known:
        return {"is_known": False}
    interval = {"slowdown_low": found.low, "slowdown_high": found.high}
    return {"is_known": True, "slowdown": found.value, **interval}
