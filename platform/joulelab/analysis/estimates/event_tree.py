"""Architectural events as a tree whose branches sum to their parents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rich.table import Table
from rich.text import Text

from joulelab.analysis.estimates.bars import COMPONENT_MARKS, bar
from joulelab.analysis.quantities import quantity
from joulelab.estimator.architecture.base import kappa
from joulelab.estimator.estimate import Event

_SYMBOLS = {"bytes": "B", "seconds": "s"}


@dataclass(slots=True, kw_only=True)
class EventNode:
    """A branch or a leaf.

    Attributes:
        name: Its part of the path.
        energy_j: Energy of everything below it.
        count: How often a leaf happens; ``None`` of a branch.
        unit: What ``count`` counts.
        children: By name, in the order in which they came.
    """

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


def event_table(events: Sequence[Event], *, title: str) -> Table:
    """Lay out ``events`` as an indented tree with bars of their share of all energy."""
    root = event_tree(events)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for component in root.children.values():
        _add(table, component, root.energy_j, depth=0, style=_color(component.name))
    table.caption, table.caption_justify = kappa_words(events), "left"
    return table


def count_words(node: EventNode) -> str:
    """Say how often a leaf happens; empty for a branch."""
    if node.count is None:
        return ""
    if node.unit in _SYMBOLS:
        return quantity(node.count, _SYMBOLS[node.unit], digits=3)
    return f"{quantity(node.count, '', digits=3).strip()} {node.unit}"


def kappa_words(events: Sequence[Event]) -> str:
    """Say how predicted energies compare with the sums of unit energies."""
    named = ", ".join(f"{part} {factor:.2g}" for part, factor in kappa(events).items())
    if not named:
        return ""
    return (
        f"kappa: {named}. Predicted energy over the sum of unit energies from the literature: "
        "above 1 goes to wires, clocks and control; below 1 these units need less."
    )


def _add(table: Table, node: EventNode, total_j: float, *, depth: int, style: str) -> None:
    share = node.energy_j / total_j if total_j else 0.0
    table.add_row(
        Text("  " * depth + node.name, style="bold" if depth == 0 else ""),
        bar(share, width=24, style=style),
        f"{share:.1%}",
        quantity(node.energy_j, "J", digits=3),
        count_words(node),
    )
    for child in sorted(node.children.values(), key=lambda child: -child.energy_j):
        _add(table, child, total_j, depth=depth + 1, style=style)


def _color(component: str) -> str:
    return COMPONENT_MARKS[component][1] if component in COMPONENT_MARKS else "blue"
