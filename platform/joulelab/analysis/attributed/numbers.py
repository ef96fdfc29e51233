"""Attributions as numbers: all parts in SI units, and what JSON has."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from joulelab.analysis.attributed.generation import answers
from joulelab.analysis.attributed.table import answer, in_order, notes
from joulelab.analysis.table import Frame
from joulelab.attribution.attribution import Attribution, Phase
from joulelab.sampling.spells import MeteringCost

ALL_GPUS = "all"  # in the place of a UUID where a number is of all boards


def frame(found: Attribution) -> Frame:
    """Return all parts as numbers in SI units, per unit of work."""
    phases = [("", "", phase) for phase in found.phases]
    for variant, others in found.variants:
        tokens = variant.context_tokens
        named = ("", str(variant)) if tokens is None else (str(tokens), "")
        phases += [(*named, phase) for phase in others]
    return Frame.of(
        [
            {"context_tokens": tokens, "settings": settings, "gpu": gpu, **row}
            for tokens, settings, phase in phases
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
    work = phase.profile.work
    for level, shares in levels.items():
        for share in shares:
            estimated_j = share.estimated_j
            yield {
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
    return {
        "program": found.program,
        "knobs": dict(found.knobs),
        "device": found.device.name,
        "backend": found.device.backend,
        "uuid": found.device.uuid,
        "method": found.method,
        "static_w": found.static_w,
        "static_u_w": found.static_u_w,
        "seconds": found.seconds,
        "notes": notes(found),
        "phases": [_phase(found, phase) for phase in found.phases],
        "contexts": [
            {"context_tokens": tokens, "phase": phase.phase, **_whole(phase)}
            for tokens, phase in found.contexts.items()
        ],
        "variants": [
            {"knobs": dict(variant.knobs), "phase": phase.phase, **_whole(phase)}
            for variant, phases in found.variants
            for phase in phases
            if variant.context_tokens is None
        ],
        "answers": [
            {"tokens": each.tokens, "energy_j": each.energy_j, "prompt_j": each.prompt_j}
            for each in answers(found)
        ],
        "metering": {phase: _cost(cost) for phase, cost in found.metering.items()},
        "driver_version": found.device.driver_version,
        "provenance": asdict(found.provenance),
        "parts": frame(found).records(),
    }


def _phase(found: Attribution, phase: Phase) -> Mapping[str, object]:
    pairs = zip(found.boards, phase.boards, strict=False)
    return {
        "phase": phase.phase,
        "answer": answer(found, phase),
        **_whole(phase),
        "boards": [{"uuid": gpu.uuid, **_whole(one)} for gpu, one in pairs],
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
    interval = {"slowdown_low": found.low, "slowdown_high": found.high}
    known = {"slowdown": found.value} if cost.is_known else {}
    return {"is_known": cost.is_known, **known, **interval, "num_pairs": len(cost.pairs)}
