"""Attributions in words and as tables."""

from collections.abc import Iterable, Mapping, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table

from joulelab.analysis.attributed.generation import Answer, answers
from joulelab.analysis.measurement_lines import NOT_HARDWARE_NOTE
from joulelab.analysis.quantities import brief, counted, decimals_for, si_scale
from joulelab.analysis.table import numbers, plus_minus, quiet_table, words
from joulelab.attribution.attribution import GAPS, UNEXPLAINED, Attribution, Phase, Share
from joulelab.attribution.components import layer_of
from joulelab.core.device import NOT_HARDWARE, board_words
from joulelab.sampling.spells import MeteringCost

OUTSIDE = "outside of layers"
WHOLE = "all together"
MAX_KERNELS = 25
_NAMED = 3
_METHODS = {
    "replay": "each distinct kernel was replayed alone and metered",
    "classes": "kernels were priced by the estimator's power of their kind",
}


def answer(found: Attribution, phase: Phase) -> str:
    """Say in one sentence where the energy of a phase goes."""
    parts = [share for share in phase.by_component if share.name != UNEXPLAINED]
    largest = sorted(parts, key=lambda share: -share.energy_j)[:_NAMED]
    named = ", ".join(f"{share.name} {share.energy_j / phase.energy_j:.0%}" for share in largest)
    per_unit = brief(phase.energy_j / phase.profile.work, f"J/{phase.unit}")
    return f"{phase.phase} takes {per_unit} on {board_words(found.device)}: {named}."


def closure_words(phase: Phase) -> str:
    """Say how the parts agree with the meter."""
    way = "more" if phase.closure > 0 else "less"
    text = (
        f"Before the meter was used, the parts summed to {abs(phase.closure):.1%} {way} than it "
        f"read, {abs(phase.deviation):.1f} standard deviations of what both are unsure of"
    )
    if phase.boards:
        text += f" ({', '.join(f'{board.closure:+.1%}' for board in phase.boards)} on each board)"
    if phase.is_reconciled:
        return f"{text}; the parts shown are reconciled with it."
    return (
        f"{text}: too far to be chance. The parts shown are not reconciled with it, and what is "
        "missing stands as not explained."
    )


def method_words(found: Attribution) -> str:
    """Say how the parts were found."""
    replays = f" ({counted(len(found.replays), 'kernel')})" if found.replays else ""
    return (
        f"By {found.method}: {_METHODS[found.method]}{replays}. Each part holds "
        f"{found.static_w:.0f} W of static power over its time on the device. It took "
        f"{found.seconds:.0f} s of the device."
    )


def metering_words(phase: str, cost: MeteringCost) -> str:
    """Say what metering costs the pace of a phase, if it is known."""
    found = cost.slowdown
    if not cost.is_known:
        return (
            f"What metering costs the pace of {phase} is not known: metered and bare spells differ "
            f"by {found.low:+.1%} to {found.high:+.1%} (95%), as the host's pace does."
        )
    return (
        f"Metering makes {phase} {found.value:+.2%} slower (95%: {found.low:+.2%} to "
        f"{found.high:+.2%}), by {len(cost.pairs)} pairs of metered and bare spells of the run."
    )


def notes(found: Attribution) -> list[str]:
    """Return what could not be determined, and that it is not of hardware where it is not."""
    origin = [NOT_HARDWARE_NOTE] * (found.device.backend in NOT_HARDWARE)
    return [
        *origin,
        *found.notes,
        *(note for phase in found.phases for note in phase.profile.notes),
    ]


def lines(
    found: Attribution, *, layers: bool = False, kernels: bool = False
) -> Iterable[RenderableType]:
    """Yield sentences and tables that tell an attribution."""
    for phase in found.phases:
        yield answer(found, phase)
        yield share_table(phase, phase.by_component, "component", phase.boards)
        if len({call.operator.stage for call in phase.profile.calls}) > 1:
            yield share_table(phase, phase.by_stage, "stage")
        if layers:
            yield share_table(phase, in_order(phase), "layer")
        if kernels:
            yield share_table(phase, phase.by_kernel[:MAX_KERNELS], "kernel")
        yield closure_words(phase) + "\n"
    for title, phases in beside(found).items():
        yield f"{title}:"
        yield beside_table(phases)
    if longer := answers(found):
        yield f"{ANSWERS}:"
        yield answer_table(longer)
    yield from notes(found)
    yield method_words(found)
    yield from (metering_words(phase, cost) for phase, cost in found.metering.items())
    if any(share.is_supposed for phase in found.phases for share in phase.by_kernel):
        yield "* mostly priced by its like, not measured."


def text(found: Attribution) -> str:
    """Return an attribution as text."""
    console = Console(width=100, highlight=False, record=True, file=StringIO())
    for each in lines(found):
        console.print(each, markup=False, soft_wrap=isinstance(each, str))
    return console.export_text()


def share_table(
    phase: Phase, shares: Sequence[Share], head: str, boards: Sequence[Phase] = ()
) -> Table:
    """Return a table of parts of a phase, per unit of its work; those of ``boards`` are beside."""
    whole_j = phase.energy_j / phase.profile.work
    scale, prefix = si_scale([whole_j])
    decimals = decimals_for(scale * whole_j, digits=4)
    of_boards = [{share.name: share for share in board.by_component} for board in boards]
    heads = [f"{prefix}J/{phase.unit}", *(f"GPU {rank}" for rank in range(len(boards)))]
    table = quiet_table(
        *words(head), *numbers(*heads, "share", "time", "power", "calls", "estimate")
    )
    for share in shares:
        name, energy, *others = _cells(phase, share, scale, decimals)
        own = [board.get(share.name) for board in of_boards]
        apart = [_energy(phase, each, scale, decimals) if each else "" for each in own]
        style = "dim" if share.name in (GAPS, UNEXPLAINED) else ""
        table.add_row(name, energy, *apart, *others, style=style)
    return table


def over_clocks(
    clocks: Sequence[tuple[str, Attribution]],
) -> dict[str, Mapping[str, Phase]]:
    """Return phases at several operating points in words beside each other, under a title."""
    names = [phase.phase for phase in clocks[0][1].phases] if clocks else []
    return {
        f"{name.capitalize()} over clocks": {label: found.phase(name) for label, found in clocks}
        for name in names
    }


def beside(found: Attribution) -> dict[str, Mapping[str, Phase]]:
    """Return phases that stand beside each other, under a title: of contexts, of settings."""
    contexts = {str(tokens): phase for tokens, phase in found.contexts.items()}
    over: dict[str, Mapping[str, Phase]] = {
        "Decode over the length of the context, in tokens": contexts
    }
    names = [each.phase for each in found.phases]
    over |= {f"{name.capitalize()} over settings": found.varied(name) for name in names}
    return {title: phases for title, phases in over.items() if phases}


def beside_table(phases: Mapping[str, Phase]) -> Table:
    """Return the energy of each component of phases that are named, per unit of work."""
    wholes_j = [phase.energy_j / phase.profile.work for phase in phases.values()]
    scale, prefix = si_scale(wholes_j)
    decimals = decimals_for(scale * min(wholes_j), digits=4)
    unit = next(iter(phases.values())).unit
    shares = [{share.name: share for share in each.by_component} for each in phases.values()]
    table = quiet_table(*words(f"{prefix}J/{unit}"), *numbers(*phases))
    for name in _last_ones_last(name for one in shares for name in one):
        pairs = zip(phases.values(), (one.get(name) for one in shares), strict=True)
        table.add_row(
            name, *(_energy(phase, own, scale, decimals) if own else "" for phase, own in pairs)
        )
    table.add_row(
        WHOLE,
        *(_energy(phase, share_of_all(phase), scale, decimals) for phase in phases.values()),
    )
    return table


def _last_ones_last(names: Iterable[str]) -> Sequence[str]:
    """Return names without doubles; gaps and what is not explained at the end."""
    found = list(dict.fromkeys(names))
    last = [name for name in (GAPS, UNEXPLAINED) if name in found]
    return [*(name for name in found if name not in last), *last]


ANSWERS = "An answer in all, by how many tokens it has"


def answer_table(longer: Sequence[Answer]) -> Table:
    """Return the energy of each component of answers, in joules."""
    scale, prefix = si_scale([each.energy_j for each in longer])
    decimals = decimals_for(scale * longer[0].energy_j, digits=4)
    table = quiet_table(
        *words(f"{prefix}J/answer"), *numbers(*(f"{each.tokens}" for each in longer))
    )
    for name in _last_ones_last(longer[0].parts):
        pairs = (each.parts[name] for each in longer)
        table.add_row(name, *(plus_minus(scale * j, scale * u_j, decimals) for j, u_j in pairs))
    table.add_row(WHOLE, *(f"{scale * each.energy_j:.{decimals}f}" for each in longer))
    table.add_row("of it the prompt", *(f"{scale * each.prompt_j:.{decimals}f}" for each in longer))
    return table


def share_of_all(phase: Phase) -> Share:
    """Return a phase as one part."""
    return Share(
        name=WHOLE, energy_j=phase.energy_j, energy_u_j=phase.energy_u_j, time_s=phase.time_s
    )


def in_order(phase: Phase) -> list[Share]:
    """Return the layers of a phase in the order in which they first run; then the rest."""
    order = dict.fromkeys(layer_of(call.operator) for call in phase.profile.calls)
    shares = {share.name: share for share in phase.by_layer}
    return [
        shares[name]
        for name in (*(name for name in order if name), "", GAPS, UNEXPLAINED)
        if name in shares
    ]


def _cells(phase: Phase, share: Share, scale: float, decimals: int) -> list[str]:
    work, power_w, estimated_j = phase.profile.work, share.power_w, share.estimated_j
    each = scale / work
    return [
        (share.name or OUTSIDE) + (" *" if share.is_supposed else ""),
        _energy(phase, share, scale, decimals),
        f"{share.energy_j / phase.energy_j:.1%}",
        "" if share.time_s is None else brief(share.time_s / work, "s"),
        "" if power_w is None else f"{power_w:.0f} W",
        str(share.calls) if share.calls else "",
        "" if estimated_j is None else f"{each * estimated_j:.{decimals}f}",
    ]


def _energy(phase: Phase, share: Share, scale: float, decimals: int) -> str:
    each = scale / phase.profile.work
    return plus_minus(each * share.energy_j, each * share.energy_u_j, decimals)
