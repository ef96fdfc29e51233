"""The kernels of a phase and the architectural events inside them, for the terminal."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.detail import COMPONENT_MARKS, bar, stacked_bar
from joulelab.analysis.quantities import brief
from joulelab.analysis.table import grid_table, numbers, quiet_table, words
from joulelab.core.grouping import grouped_by
from joulelab.estimator.architecture.base import kappa
from joulelab.estimator.estimate import EnergySplit, Event, GroupEstimate, PhaseEstimate

_NAME = 30
_LEAST_OPERATORS = 11


Alike = Sequence[GroupEstimate]
"""Groups that do the same work in different places of a network, in their order."""


def alike(groups: Sequence[GroupEstimate]) -> list[Alike]:
    """Put groups with the same operators, operations, bytes and bound together."""

    def work(group: GroupEstimate) -> Hashable:
        flop, moved_b = sorted(group.flop.items()), sorted(group.moved_b.items())
        return group.operators, group.bound, tuple(flop), tuple(moved_b)

    return list(grouped_by(groups, work).values())


def alike_name(groups: Alike) -> str:
    """Return the name of the first, and how many more there are."""
    suffix = f" +{len(groups) - 1}" if len(groups) > 1 else ""
    return short(groups[0].name, _NAME - len(suffix)) + suffix


def group_table(phase: PhaseEstimate, *, max_rows: int | None = 20) -> Table:
    """Lay out the kernels of ``phase``, costliest first; those beyond ``max_rows`` are one row."""
    table = quiet_table(
        *words("kernel, and how many alike"),
        *numbers("FLOP", "bytes", "time", "energy"),
        *words("share", "into", "set by"),
        title=f"Kernels of {phase.phase}, costliest first",
    )
    ordered = sorted(alike(phase.groups), key=lambda found: -_energy(found).total_j)
    shown = ordered if max_rows is None else ordered[:max_rows]
    total_j = phase.energy.total_j
    for found in shown:
        table.add_row(*_cells(found, alike_name(found), total_j), found[0].bound)
    rest = [group for found in ordered[len(shown) :] for group in found]
    if rest:
        table.add_row(*_cells(rest, f"{len(rest)} others", total_j), style="dim")
    return table


def flop_of(group: GroupEstimate) -> float:
    """Return the operations of all pipes."""
    return sum(group.flop.values())


def main_memory_b(group: GroupEstimate) -> float:
    """Return the bytes at the level farthest from the units that the group touches."""
    touched = [moved_b for moved_b in group.moved_b.values() if moved_b > 0]
    return touched[-1] if touched else 0.0


def short(name: str, length: int) -> str:
    """Cut ``"module: operators"``: the operators at their end, the module at its start."""
    if len(name) <= length:
        return name
    module, colon, operators = name.rpartition(": ")
    room = max(_LEAST_OPERATORS, length - len(module) - len(colon))
    operators = _cut(operators, room if colon else length)
    left = length - len(colon) - len(operators)
    return (_cut(module[::-1], left)[::-1] if module else "") + colon + operators


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def _energy(groups: Alike) -> EnergySplit:
    return EnergySplit.total(group.energy for group in groups)


def _cells(groups: Alike, name: str, total_j: float) -> list[str | Text]:
    energy = _energy(groups)
    share = energy.total_j / total_j
    return [
        name,
        brief(sum(map(flop_of, groups)), "").strip(),
        brief(sum(map(main_memory_b, groups)), "B"),
        brief(sum(group.elapsed_s for group in groups), "s"),
        brief(energy.total_j, "J"),
        bar(share, width=6) + Text(f" {share:4.0%}"),
        stacked_bar(energy, width=6),
    ]


_SYMBOLS = {"bytes": "B", "seconds": "s"}


@dataclass(slots=True, kw_only=True)
class EventNode:
    """A branch, or a leaf, which alone has a count of what happens, in ``unit``."""

    name: str
    energy_j: float = 0.0
    count: float | None = None
    unit: str = ""
    children: dict[str, "EventNode"] = field(default_factory=dict)


def event_tree(events: Iterable[Event]) -> EventNode:
    """Arrange ``events`` by their paths; those of one path are added up.

    Events that do not happen are left out, and a branch with one child is joined with it.
    """
    root = EventNode(name="")
    for event in events:
        if not (event.count or event.energy_j):
            continue
        root.energy_j += event.energy_j
        node = root
        for part in event.path.split("/"):
            node = node.children.setdefault(part, EventNode(name=part))
            node.energy_j += event.energy_j
        node.count = (node.count or 0.0) + event.count
        node.unit = event.unit
    for component in root.children.values():
        component.children = {n.name: n for n in map(_joined, component.children.values())}
    return root


def _joined(node: EventNode) -> EventNode:
    """Join branches that have a single child with it: ``"tensor cores, fp16"``."""
    children = [_joined(child) for child in node.children.values()]
    if len(children) == 1:
        return replace(children[0], name=f"{node.name}, {children[0].name}")
    return replace(node, children={child.name: child for child in children})


def event_lines(events: Iterable[Event]) -> list[tuple[int, EventNode, float]]:
    """List the tree of ``events`` from above: depth, node, share of all energy.

    Below each component of energy the costliest come first.
    """
    root = event_tree(events)

    def below(node: EventNode, depth: int) -> list[tuple[int, EventNode, float]]:
        share = node.energy_j / root.energy_j if root.energy_j else 0.0
        children = sorted(node.children.values(), key=lambda child: -child.energy_j)
        return [(depth, node, share), *(line for c in children for line in below(c, depth + 1))]

    return [line for component in root.children.values() for line in below(component, 0)]


def event_table(events: Sequence[Event], *, title: str) -> Table:
    """Lay out ``events`` as an indented tree with bars of their share of all energy."""
    heads = *words("", ""), *numbers("", "", "")
    table, style = grid_table(title, *heads, padding=(0, 2, 0, 0)), ""
    for depth, node, share in event_lines(events):
        if depth == 0:
            _, style = COMPONENT_MARKS.get(node.name, ("", "blue"))
        table.add_row(
            Text("  " * depth + node.name, style="bold" if depth == 0 else ""),
            bar(share, width=24, style=style),
            f"{share:.1%}",
            brief(node.energy_j, "J"),
            count_words(node),
        )
    table.caption, table.caption_justify = kappa_words(events), "left"
    return table


def count_words(node: EventNode) -> str:
    """Say how often a leaf happens; empty for a branch."""
    if node.count is None:
        return ""
    if node.unit in _SYMBOLS:
        return brief(node.count, _SYMBOLS[node.unit])
    return f"{brief(node.count, '').strip()} {node.unit}"


def kappa_words(events: Sequence[Event]) -> str:
    """Say how predicted energies compare with the sums of unit energies."""
    named = ", ".join(f"{part} {factor:.2g}" for part, factor in kappa(events).items())
    if not named:
        return ""
    return (
        f"kappa: {named}. Predicted energy over the sum of unit energies from the literature: "
        "above 1 goes to wires, clocks and control; below 1 these units need less."
    )
