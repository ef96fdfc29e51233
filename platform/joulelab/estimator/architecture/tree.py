"""Events as a hierarchy, for printing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from joulelab.estimator.architecture.base import kappa
from joulelab.estimator.estimate import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A line of the hierarchy of events.

    Attributes:
        name: Last part of its path.
        depth: 0 for components.
        energy_j: Of everything below it.
        count: How often it happens; ``None`` above the leaves.
        unit: What ``count`` counts; empty above the leaves.
        kappa: Predicted over bottom-up energy of a component; ``None`` below components.
    """

    name: str
    depth: int
    energy_j: float
    count: float | None = None
    unit: str = ""
    kappa: float | None = None


def tree(events: Iterable[Event]) -> tuple[Node, ...]:
    """Return the hierarchy of ``events`` line by line: each node before what is below it."""
    events = list(events)
    factors: Mapping[str, float] = {str(name): factor for name, factor in kappa(events).items()}
    return tuple(_nodes(events, (), factors))


def _nodes(
    events: Sequence[Event], above: tuple[str, ...], factors: Mapping[str, float]
) -> Iterator[Node]:
    depth = len(above)
    below: dict[str, list[Event]] = {}
    for event in events:
        below.setdefault(event.path.split("/")[depth], []).append(event)
    for name, own in below.items():
        leaf = own[0] if own[0].path == "/".join((*above, name)) else None
        yield Node(
            name=name,
            depth=depth,
            energy_j=fsum(event.energy_j for event in own),
            count=None if leaf is None else leaf.count,
            unit="" if leaf is None else leaf.unit,
            kappa=None if above else factors.get(name),
        )
        if leaf is None:
            yield from _nodes(own, (*above, name), factors)
