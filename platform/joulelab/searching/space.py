"""What a search chooses from: operating points and workload knobs, crossed to a grid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import product
from math import prod
from typing import Any, cast

from typing_extensions import override

from joulelab.core.bounds import MOST_TRIALS, check_range
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name
from joulelab.workloads import WORKLOADS

POINT_AXES = tuple(field.name for field in fields(OperatingPoint))
"""Axes that are knobs of the GPU; every other axis is a knob of the workload."""

Cell = tuple[tuple[str, KnobValue], ...]
"""A workload's knobs: configurations of one cell differ in the operating point alone."""


def at_default(configuration: Configuration) -> Configuration:
    """Return the same knobs of the workload at the driver's own operating point."""
    return replace(configuration, point=OperatingPoint())


class SearchSpace(Sequence[Configuration]):
    """The baseline and every combination of the axes' values, in a fixed order.

    The first configuration is the baseline: the driver's own operating point, and of each workload
    axis the workload's own value, or the first one where that is not on the axis. Configurations
    hold all knobs of the workload, so that a name stays the same whichever of them are searched.
    ``knobs`` are the workload's own values, by default its defaults: what is no axis stays so. With
    ``references`` each cell also has its configuration at the driver's operating point, over which
    slowdowns are. Raises UnknownNameError if there is no such workload, or an axis or knob is
    neither a knob of the GPU nor of the workload; ConfigError if there is no axis, an axis is empty
    or holds a value twice, one of the GPU's knobs is among the workload's, or it refuses a
    combination.
    """

    def __init__(
        self,
        workload: str,
        axes: Mapping[str, Sequence[KnobValue]],
        *,
        knobs: Mapping[str, KnobValue] | None = None,
        references: bool = False,
    ) -> None:
        self.workload = workload
        self._references = references
        self.axes = {name: tuple(values) for name, values in axes.items()}
        self.knobs: Mapping[str, KnobValue] = dict(knobs or {})
        """The workload's own values that were given."""
        self._check()
        self.cells = tuple(self._cells())
        grid = [
            Configuration(workload=workload, knobs=cell, point=point)
            for cell in self.cells
            for point in ([OperatingPoint()] if references else []) + self._points()
        ]
        default = Configuration(workload=workload, knobs=self._default_cell())
        self._configurations = tuple(dict.fromkeys([default, *grid]))
        self._places = {each: place for place, each in enumerate(self._configurations)}

    @property
    def baseline(self) -> Configuration:
        """What everything is compared with: the driver's own operating point."""
        return self._configurations[0]

    @override
    def __len__(self) -> int:
        return len(self._configurations)

    @override
    def __iter__(self) -> Iterator[Configuration]:
        return iter(self._configurations)

    @override
    def __contains__(self, value: object) -> bool:
        return value in self._places

    @override
    def __getitem__(self, place: Any) -> Any:
        return self._configurations[place]

    @override
    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the place of a configuration in the order of the space.

        Raises ConfigError if it is not of this space.
        """
        place = self._places.get(value)
        if place is None or not start <= place < (len(self) if stop is None else stop):
            raise ConfigError(f"The search space does not hold {value}; it has {self.summary}.")
        return place

    def restricted(self, axes: Mapping[str, Sequence[KnobValue]]) -> "SearchSpace":
        """Return the space of the same knobs with other values on the axes."""
        return SearchSpace(self.workload, axes, knobs=self.knobs, references=self._references)

    @property
    def summary(self) -> str:
        """Its size in words: ``"61 sm_clock_mhz x 6 batch"``."""
        return " x ".join(f"{len(values)} {name}" for name, values in self.axes.items())

    def values(self, configuration: Configuration) -> tuple[KnobValue, ...]:
        """Return a configuration's value on each axis; ``None`` is the driver's own."""
        knobs = dict(configuration.knobs)
        return tuple(
            getattr(configuration.point, name) if name in POINT_AXES else knobs[name]
            for name in self.axes
        )

    def neighbours(self, configuration: Configuration) -> tuple[Configuration, ...]:
        """Return the configurations one step away along a single axis.

        Steps go through an axis's values in their order: numbers by size, others as given. The
        driver's own operating point is next to the highest clock and power limit.
        """
        at = self.values(configuration)
        found = []
        for number, name in enumerate(self.axes):
            steps = _in_order(self.axes[name])
            place = steps.index(at[number]) if at[number] in steps else len(steps)
            near = [steps[i] for i in (place - 1, place + 1) if 0 <= i < len(steps)]
            found += [self._moved(configuration, name, value) for value in near]
        return tuple(each for each in found if each in self._places)

    def _moved(self, start: Configuration, axis: str, value: KnobValue) -> Configuration:
        if axis not in POINT_AXES:
            knobs = {**dict(start.knobs), axis: value}
            return replace(start, knobs=tuple(sorted(knobs.items())))
        point: dict[str, Any] = {}
        if start.point.is_default:
            axes = [name for name in POINT_AXES if name in self.axes]
            point = {name: _in_order(self.axes[name])[-1] for name in axes}
        return replace(start, point=replace(start.point, **point | {axis: value}))

    def _check(self) -> None:
        if not self.axes:
            raise ConfigError("A search space needs at least one axis, got none.")
        settings = fields(WORKLOADS[self.workload].settings_type)
        known = [*POINT_AXES, *(field.name for field in settings)]
        for name in [*self.axes, *self.knobs]:
            if name not in known:
                raise unknown_name(f"axis or knob of {self.workload}", name, known)
        for name, values in self.axes.items():
            if not values:
                raise ConfigError(f"The axis {name} needs at least one value, got none.")
            if len(set(values)) != len(values):
                raise ConfigError(f"The axis {name} must hold each value once, got {values}.")
        size = prod(len(values) for values in self.axes.values())
        check_range("configurations of a search space", size, 1, MOST_TRIALS)
        if stray := sorted(set(self.knobs) & set(POINT_AXES)):
            raise ConfigError(
                f"knobs are those of the workload; make an axis of one value of {', '.join(stray)} "
                "instead."
            )

    def _cells(self) -> Iterator[Cell]:
        names = [name for name in self.axes if name not in POINT_AXES]
        for values in product(*(self.axes[name] for name in names)):
            yield self._cell({**self.knobs, **dict(zip(names, values, strict=True))})

    def _default_cell(self) -> Cell:
        default = dict(self._cell(self.knobs))
        searched = {
            name: default[name] if default[name] in values else values[0]
            for name, values in self.axes.items()
            if name not in POINT_AXES
        }
        return self._cell({**self.knobs, **searched})

    def _cell(self, knobs: Mapping[str, KnobValue]) -> Cell:
        settings = WORKLOADS[self.workload].from_knobs(knobs).settings
        return tuple(sorted(asdict(settings).items()))

    def _points(self) -> list[OperatingPoint]:
        axes = {name: self.axes[name] for name in POINT_AXES if name in self.axes}
        return [
            OperatingPoint(**cast("dict[str, Any]", dict(zip(axes, values, strict=True))))
            for values in product(*axes.values())
        ]


def _in_order(values: tuple[KnobValue, ...]) -> tuple[KnobValue, ...]:
    """Return numbers by size, with the driver's own (``None``) last, and others as they are."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    rest = [v for v in values if v not in numbers]
    if not numbers or any(v is not None for v in rest):
        return values
    return (*sorted(numbers), *rest)
