"""Events are shares of a predicted energy: counts times unit energies, scaled to sum to it.

A bottom-up sum of unit energies is not a prediction: it lacks wires, clocks and control. So the
predicted energy of each component is divided in proportion to it, and the factor between the two,
kappa, is kept (see docs/adr/0005-events-are-shares.md).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum, isfinite

from joulelab.core.grouping import grouped_by
from joulelab.errors import ConfigError
from joulelab.estimator.architecture.work import GroupWork
from joulelab.estimator.estimate import COMPONENTS, Component, EnergySplit, Event
from joulelab.hardware.processor import Processor


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One kind of event before scaling."""

    path: str
    count: float
    unit: str
    unit_j: float  # energy of one of them from the table of unit energies, >= 0

    def __post_init__(self) -> None:
        if component_of(self) not in COMPONENTS:
            raise ConfigError(f"path must begin with one of {COMPONENTS}, got {self.path!r}.")
        if not (self.count >= 0 and self.unit_j >= 0 and isfinite(self.raw_j)):
            raise ConfigError(
                f"count and unit_j must be finite and not negative, got {self.count} and "
                f"{self.unit_j} for {self.path!r}."
            )

    @property
    def raw_j(self) -> float:
        """Bottom-up energy."""
        return self.count * self.unit_j


RawEvents = Callable[[GroupWork, Processor], Sequence[RawEvent]]
"""What an architecture family supplies: the counts of a group and their unit energies."""


def partitioned(raw: Iterable[RawEvent], energy: EnergySplit) -> tuple[Event, ...]:
    """Divide ``energy`` among ``raw``, by path, so that each component's events sum to it.

    An event ``"<component>/unattributed"`` has what no raw event explains. Raises ConfigError if an
    energy is negative or not finite.
    """
    events = merged(raw)
    return tuple(
        event
        for component in COMPONENTS
        for event in _shares(
            component,
            [event for event in events if component_of(event) == component],
            energy.of(component),
        )
    )


def merged(raw: Iterable[RawEvent]) -> list[RawEvent]:
    """Return one raw event per path: their counts add up, their unit energy is the mean."""
    by_path = grouped_by(raw, lambda event: event.path)
    return [same[0] if len(same) == 1 else _merge(same) for same in by_path.values()]


def kappa(events: Iterable[Event]) -> dict[Component, float]:
    """Return predicted over bottom-up energy of each component that has bottom-up energy."""
    events = list(events)
    factors: dict[Component, float] = {}
    for component in COMPONENTS:
        own = [event for event in events if component_of(event) == component]
        raw_j = fsum(event.raw_j for event in own)
        if raw_j > 0:
            factors[component] = fsum(event.energy_j for event in own) / raw_j
    return factors


def component_of(event: Event | RawEvent) -> str:
    """Return the component to which ``event`` belongs: the first part of its path."""
    return event.path.partition("/")[0]


def summed(*groups: Iterable[Event]) -> tuple[Event, ...]:
    """Add up events of equal path, in order; ConfigError if those of one count different things."""
    totals: dict[str, list[Event]] = {}
    for event in (event for group in groups for event in group):
        same = totals.setdefault(event.path, [])
        if same and same[0].unit != event.unit:
            raise ConfigError(
                f"{event.path!r} counts {same[0].unit} in one group and {event.unit} in another."
            )
        same.append(event)
    return tuple(
        replace(
            events[0],
            count=fsum(event.count for event in events),
            energy_j=fsum(event.energy_j for event in events),
            raw_j=fsum(event.raw_j for event in events),
        )
        for events in totals.values()
    )


def scaled(events: Iterable[Event], factor: float) -> tuple[Event, ...]:
    """Return ``events`` happening ``factor`` times, e.g. in all executions of a phase."""
    return tuple(
        replace(
            event,
            count=event.count * factor,
            energy_j=event.energy_j * factor,
            raw_j=event.raw_j * factor,
        )
        for event in events
    )


def _merge(same: Sequence[RawEvent]) -> RawEvent:
    count = fsum(event.count for event in same)
    raw_j = fsum(event.raw_j for event in same)
    return replace(same[0], count=count, unit_j=raw_j / count if count > 0 else 0.0)


def _shares(component: Component, raw: Sequence[RawEvent], energy_j: float) -> list[Event]:
    if not (energy_j >= 0 and isfinite(energy_j)):
        raise ConfigError(f"{component}_j must be finite and not negative, got {energy_j}.")
    total_j = fsum(event.raw_j for event in raw)
    if total_j > 0:
        shares_j = [event.raw_j / total_j * energy_j for event in raw]
        largest = max(range(len(shares_j)), key=shares_j.__getitem__)
        # What rounding left over changes the largest share least.
        shares_j[largest] = max(0.0, shares_j[largest] + (energy_j - fsum(shares_j)))
    else:
        shares_j = [0.0] * len(raw)
    pairs = list(zip(raw, shares_j, strict=True))
    if total_j == 0 < energy_j:
        pairs.append((RawEvent(f"{component}/unattributed", 0.0, "events", 0.0), energy_j))
    return [
        Event(path=one.path, count=one.count, unit=one.unit, energy_j=share_j, raw_j=one.raw_j)
        for one, share_j in pairs
    ]
