"""A workload over the values of its knobs: what a study of them measures, and its log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from joulelab.analysis.compared import Phase
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.quality import Quality
from joulelab.errors import ConfigError
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.evaluation import evaluate
from joulelab.registry import Registry
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS

Panel = Literal["energy", "time", "throughput", "trade", "quality"]
"""A column of a study's plot: a quantity over the last knob, energy against throughput, or quality
against energy."""


ConcludePhase = Callable[[Phase[Any]], str]
"""Says in one sentence what a phase shows; ``""`` where that is not worth one."""

CONCLUSIONS: Registry[ConcludePhase] = Registry(
    "subject of a study",
    {
        name: f"joulelab.analysis.knob_wording:conclude_{name}"
        for name in ("formats", "batches", "lengths", "sizes", "steps")
    },
)
"""What studies of knobs are about, and what is said of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A knob and the values that it takes."""

    knob: str
    values: tuple[KnobValue, ...]
    title: str  # name of the knob in words, with its unit
    # Where the values stand on the axis of a plot, where they are no numbers themselves; None puts
    # them side by side.
    places: tuple[float, ...] | None = None
    # How a number is written in a sentence, "{} steps"; by default after the title.
    phrase: str = ""

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise ConfigError(
                f"{self.knob} needs values to compare, each once, got {list(self.values)}."
            )

    @property
    def is_number(self) -> bool:
        """Whether the values have places of their own on a line."""
        return self.places is not None or all(type(value) in {int, float} for value in self.values)

    def place(self, value: KnobValue) -> float:
        """Return where ``value`` stands on the axis of a plot."""
        index = self.values.index(value)
        if self.places is not None:
            return self.places[index]
        return float(str(value)) if self.is_number else float(index)

    def text(self, value: KnobValue) -> str:
        """Write ``value`` so that it says which knob it is of: ``"bf16"``, ``"batch 8"``."""
        if isinstance(value, str):
            return value
        return self.phrase.format(value) if self.phrase else f"{self.title} {value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One combination of values; without a configuration where the workload refuses them."""

    values: tuple[KnobValue, ...]
    label: str
    configuration: Configuration | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobGrid:
    """Every combination of the values of one or more knobs, made by :func:`knob_grid`."""

    workload: str
    # The knobs; the last one is the axis of plots, the others tell curves apart.
    axes: tuple[Axis, ...]
    # The combinations, the last axis varying fastest. The first is what the others are compared
    # with.
    cases: tuple[Case, ...]
    whole: str = ""  # name of the sum of all phases, where they count the same unit; "" for none

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """What is to be measured; ConfigError if the workload refuses every combination."""
        found = tuple(c.configuration for c in self.cases if c.configuration is not None)
        if not found:
            raise ConfigError(f"There is nothing to measure. {self.cases[0].refusal}")
        return found

    def case_of(self, configuration: Configuration) -> Case | None:
        """Return the case that asked for ``configuration``; ``None`` if none did."""
        return next((case for case in self.cases if case.configuration == configuration), None)


def knob_grid(
    workload: str, knobs: Mapping[str, KnobValue], axes: Sequence[Axis], *, whole: str = ""
) -> KnobGrid:
    """Combine the values of ``axes``.

    A combination that the workload refuses, such as a sequence longer than the network reads, is a
    case with the reason. Raises UnknownNameError if there is no such workload.
    """
    combinations = product(*(axis.values for axis in axes))
    cases = tuple(_case(workload, knobs, axes, values) for values in combinations)
    return KnobGrid(workload=workload, axes=tuple(axes), cases=cases, whole=whole)


def _case(
    workload: str,
    knobs: Mapping[str, KnobValue],
    axes: Sequence[Axis],
    values: tuple[KnobValue, ...],
) -> Case:
    pairs = zip(axes, values, strict=True)
    label = ", ".join(axis.text(value) for axis, value in pairs)
    names = (axis.knob for axis in axes)
    asked = {**knobs, **dict(zip(names, values, strict=True))}
    try:
        made = WORKLOADS[workload].from_knobs(asked)
    except ConfigError as error:
        return Case(values=values, label=label, configuration=None, refusal=str(error))
    return Case(values=values, label=label, configuration=Configuration.of(workload, made.settings))


LOG = "knobs.json"
ASKED = "asked_knobs.json"
"""What a study that may not have ended is asked for: its log without quality."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobStudy:
    """How a grid of knobs is worded.

    Raises UnknownNameError if :data:`~joulelab.analysis.knob_grid.CONCLUSIONS` has no ``about``.
    """

    grid: KnobGrid
    about: str
    panels: tuple[Panel, ...]

    def __post_init__(self) -> None:
        _ = self.conclude

    @property
    def conclude(self) -> ConcludePhase:
        """Says what a phase shows."""
        return CONCLUSIONS[self.about]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobLog:
    """What a study of knobs was to measure, and what its outputs are worth if they were scored."""

    study: KnobStudy
    quality: tuple[tuple[Quality, ...], ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The columns of the plot: the last one shows quality where there is any."""
        panels = self.study.panels
        return (*panels[:-1], "quality") if any(self.quality) else panels


def read_knob_log(store: ResultStore, *, name: str = LOG) -> KnobLog | None:
    """Read the log of a study of knobs; ``None`` where there is none.

    Raises TrackingError if it is none.
    """
    return store.read_file(name, KnobLog, called="log of a study of knobs")


def scored(grid: KnobGrid) -> tuple[tuple[Quality, ...], ...]:
    """Score the outputs of every case against those of the first that the workload takes.

    Metrics are those that need no download. Scores are kept on disk; a case that cannot run here
    has none. Empty if such outputs cannot be scored.
    """
    if grid.workload not in SUBJECTS:
        return ()
    kind = SUBJECTS[grid.workload]
    metrics = [METRICS[name].from_knobs({}) for name in kind.metrics]
    made = [WORKLOADS.of(configuration).settings for configuration in grid.configurations]
    rows = evaluate(grid.workload, made, metrics, kind.read_data(None))
    return tuple(
        tuple(
            row.quality
            for row in rows
            if row.configuration == case.configuration and row.quality is not None
        )
        for case in grid.cases
    )
