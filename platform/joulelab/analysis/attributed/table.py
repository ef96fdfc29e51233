"""Attributions in words, as tables and as numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table

from joulelab.analysis.quantities import brief, counted, decimals_for, si_scale
from joulelab.analysis.table import Frame, numbers, plus_minus, quiet_table, words
from joulelab.attribution.attribution import GAPS, UNEXPLAINED, Attribution, PhaseAttribution, Share
from joulelab.attribution.components import layer_of

OUTSIDE = "outside of layers"
MAX_KERNELS = 25
_NAMED = 3
_METHODS = {
    "replay": "each distinct kernel was replayed alone and metered",
    "classes": "kernels were priced by the estimator's power of their kind",
}


def answer(found: Attribution, phase: PhaseAttribution) -> str:
    """Say in one sentence where the energy of a phase goes."""
    parts = [share for share in phase.by_component if share.name != UNEXPLAINED]
    largest = sorted(parts, key=lambda share: -share.energy_j)[:_NAMED]
    named = ", ".join(f"{share.name} {share.energy_j / phase.energy_j:.0%}" for share in largest)
    per_unit = brief(phase.energy_j / phase.profile.work, f"J/{phase.unit}")
    return f"{phase.phase} takes {per_unit} on {found.device.name}: {named}."


def closure_words(phase: PhaseAttribution) -> str:
    """Say how the parts agree with the meter."""
    way = "more" if phase.closure > 0 else "less"
    text = (
        f"Before the meter was used, the parts summed to {abs(phase.closure):.1%} {way} than it "
        f"read, {abs(phase.deviation):.1f} standard deviations of what both are unsure of"
    )
    if phase.is_reconciled:
        return f"{text}; the parts shown are reconciled with it."
    return (
        f"{text}: too far to be chance. The parts shown are not reconciled with it, and what is "
        "missing is told as not explained."
    )


def method_words(found: Attribution) -> str:
    """Say how the parts were found."""
    replays = f" ({counted(len(found.replays), 'kernel')})" if found.replays else ""
    return (
        f"By {found.method}: {_METHODS[found.method]}{replays}. Each part holds "
        f"{found.static_w:.0f} W of static power over its time on the device. It took "
        f"{found.seconds:.0f} s of the device."
    )


def notes(found: Attribution) -> list[str]:
    """Return what could not be told."""
    return [*found.notes, *(note for phase in found.phases for note in phase.profile.notes)]


def lines(
    found: Attribution, *, layers: bool = False, kernels: bool = False
) -> Iterable[RenderableType]:
    """Yield sentences and tables that tell an attribution."""
    for phase in found.phases:
        yield answer(found, phase)
        yield component_table(phase)
        if len({call.operator.stage for call in phase.profile.calls}) > 1:
            yield share_table(phase, phase.by_stage, "stage")
        if layers:
            yield layer_table(phase)
        if kernels:
            yield kernel_table(phase)
        yield closure_words(phase) + "\n"
    yield from notes(found)
    yield method_words(found)
    if any(share.is_supposed for phase in found.phases for share in phase.by_kernel):
        yield "* mostly priced by its like, not measured."


def text(found: Attribution) -> str:
    """Return an attribution as text."""
    console = Console(width=100, highlight=False, record=True, file=StringIO())
    for each in lines(found):
        console.print(each, markup=False, soft_wrap=isinstance(each, str))
    return console.export_text()


def share_table(phase: PhaseAttribution, shares: Sequence[Share], head: str) -> Table:
    """Return a table of parts of a phase, per unit of its work, all in one unit."""
    whole_j = phase.energy_j / phase.profile.work
    scale, prefix = si_scale([whole_j])
    decimals = decimals_for(scale * whole_j, digits=4)
    table = quiet_table(
        *words(head),
        *numbers(f"{prefix}J/{phase.unit}", "share", "time", "power", "calls", "estimate"),
    )
    for share in shares:
        table.add_row(*_cells(phase, share, scale, decimals), style=_style(share))
    return table


def component_table(phase: PhaseAttribution) -> Table:
    """Return the components of a phase."""
    return share_table(phase, phase.by_component, "component")


def layer_table(phase: PhaseAttribution) -> Table:
    """Return the layers of a phase in the order of the network."""
    return share_table(phase, in_order(phase), "layer")


def kernel_table(phase: PhaseAttribution) -> Table:
    """Return the kernels of a phase that take most."""
    return share_table(phase, phase.by_kernel[:MAX_KERNELS], "kernel")


def in_order(phase: PhaseAttribution) -> list[Share]:
    """Return the layers of a phase in the order in which they first run; then the rest."""
    order = dict.fromkeys(layer_of(call.operator) for call in phase.profile.calls)
    shares = {share.name: share for share in phase.by_layer}
    return [
        shares[name]
        for name in (*(name for name in order if name), "", GAPS, UNEXPLAINED)
        if name in shares
    ]


def _cells(phase: PhaseAttribution, share: Share, scale: float, decimals: int) -> list[str]:
    work, power_w, estimated_j = phase.profile.work, share.power_w, share.estimated_j
    each = scale / work
    return [
        (share.name or OUTSIDE) + (" *" if share.is_supposed else ""),
        plus_minus(each * share.energy_j, each * share.energy_u_j, decimals),
        f"{share.energy_j / phase.energy_j:.1%}",
        "" if share.time_s is None else brief(share.time_s / work, "s"),
        "" if power_w is None else f"{power_w:.0f} W",
        str(share.calls) if share.calls else "",
        "" if estimated_j is None else f"{each * estimated_j:.{decimals}f}",
    ]


def _style(share: Share) -> str:
    return "dim" if share.name in (GAPS, UNEXPLAINED) else ""


def frame(found: Attribution) -> Frame:
    """Return all parts as numbers in SI units, per unit of work."""
    return Frame.of([row for phase in found.phases for row in _rows(phase)])


def _rows(phase: PhaseAttribution) -> Iterable[Mapping[str, object]]:
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


def _row(phase: PhaseAttribution, level: str, share: Share) -> Mapping[str, object]:
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
                "energy_per_unit_j": phase.energy_j / phase.profile.work,
                "energy_per_unit_u_j": phase.energy_u_j / phase.profile.work,
                "time_per_unit_s": phase.time_s / phase.profile.work,
                "closure": phase.closure,
                "deviation": phase.deviation,
                "is_reconciled": phase.is_reconciled,
            }
            for phase in found.phases
        ],
        "driver_version": found.device.driver_version,
        "provenance": asdict(found.provenance),
        "parts": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
    }
