"""Estimates beside what was measured: every run that physics allows, none picked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, cast, get_args

from joulelab.core.bounds import MOST_S, MOST_W, check_positive, check_range
from joulelab.core.configuration import KnobValue
from joulelab.core.grouping import grouped_by
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError, JouleLabError
from joulelab.estimator.api import estimate
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import knob_value
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.registry import unknown_name

MOST_BATCH = 1_000_000
Scope = Literal["gpu", "package", "module", "wall"]
"""What a measured energy contains: the board, a CPU package, a module's rails, the whole host."""

_PEAK_TOLERANCE = 0.98
_POWER_TOLERANCE = 1.05
"""Power readings of a class of boards are good to 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One execution of a model on one device, as measured."""

    name: str
    source: str
    family: str  # models that count as one when some are held out
    scenario: str  # how it was asked for: "eager", "Offline", "SingleStream",
    device: str
    model: str  # as joulelab.estimator.models.trace_model takes it
    precision: str
    batch: int  # samples of one execution
    mode: Mode
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    time_s: float | None = None
    energy_j: float | None = None
    scope: Scope = "gpu"

    def __post_init__(self) -> None:
        check_range("batch", self.batch, 1, MOST_BATCH)
        check_positive("time_s", self.time_s, MOST_S)
        check_positive("energy_j", self.energy_j, MOST_W * (self.time_s or MOST_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the estimator says of a run."""

    time_s: float
    energy_j: float
    least_s: float  # time below which the units cannot do its operations, at the highest clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run and what the estimator says of it."""

    run: MeasuredRun
    predicted: Prediction

    @property
    def time_error(self) -> float | None:
        """Predicted over measured time, less 1."""
        return None if self.run.time_s is None else self.predicted.time_s / self.run.time_s - 1

    @property
    def energy_error(self) -> float | None:
        """Predicted over measured energy, less 1; ``None`` where a whole host was measured."""
        if self.run.energy_j is None or self.run.scope == "wall":
            return None
        return self.predicted.energy_j / self.run.energy_j - 1

    @property
    def share_of_wall(self) -> float | None:
        """Predicted energy of the device over that of its whole host, which must be larger."""
        if self.run.energy_j is None or self.run.scope != "wall":
            return None
        return self.predicted.energy_j / self.run.energy_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """All runs of a table: what was compared, and by name why others were not."""

    comparisons: tuple[Comparison, ...]
    rejected: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of several comparisons, mean and median absolute; ``None`` where nothing was measured.

    ``label`` is what they have in common, ``largest_share_of_wall`` the largest predicted share of
    a host's energy.
    """

    label: tuple[str, ...]
    num_points: int
    time_mape: float | None
    time_median: float | None
    energy_mape: float | None
    energy_median: float | None
    largest_share_of_wall: float | None


def predict_run(run: MeasuredRun, processor: Processor) -> Prediction:
    """Return what ``run`` is estimated to cost on ``processor``; ConfigError as the estimator."""
    knobs: dict[str, Any] = dict(run.knobs)
    found = estimate(
        run.model,
        device=processor.key,
        precision=run.precision,
        batch=run.batch,
        mode=run.mode,
        **knobs,
    )
    least_s = sum(
        flop / processor.peak_flop_per_s(pipe, processor.clocks_mhz[2])
        for phase in found.phases
        for group in phase.groups
        for pipe, flop in group.flop.items()
    )
    return Prediction(time_s=found.latency_s, energy_j=found.energy_j, least_s=least_s)


Predict = Callable[[Any, Processor], Prediction]


def validate(runs: Iterable[MeasuredRun], *, predict: Predict = predict_run) -> Validation:
    """Compare every one of ``runs`` that does not break physics."""
    comparisons: list[Comparison] = []
    rejected: dict[str, str] = {}
    for one in runs:
        found = _compared(one, predict)
        if isinstance(found, str):
            rejected[one.name] = found
        else:
            comparisons.append(found)
    return Validation(comparisons=tuple(comparisons), rejected=rejected)


def _compared(measured: MeasuredRun, predict: Predict) -> Comparison | str:
    if measured.device not in PROCESSORS:
        return f"{measured.device} is not in the catalogue"
    processor = PROCESSORS[measured.device]
    try:
        predicted = predict(measured, processor)
    except JouleLabError as error:
        return str(error)
    reason = _unphysical(measured, predicted, processor)
    return reason or Comparison(run=measured, predicted=predicted)


def _unphysical(measured: MeasuredRun, predicted: Prediction, processor: Processor) -> str:
    if measured.time_s is not None and measured.time_s < _PEAK_TOLERANCE * predicted.least_s:
        times = predicted.least_s / measured.time_s
        return f"faster than the units can be: {times:.2f} times their peak"
    if measured.time_s is None or measured.energy_j is None or measured.scope == "wall":
        return ""
    power_w = measured.energy_j / measured.time_s
    if power_w > _POWER_TOLERANCE * processor.default_power_limit_w:
        return f"draws {power_w:.0f} W under a limit of {processor.default_power_limit_w:.0f} W"
    return ""


def summaries(
    comparisons: Sequence[Comparison], label: Callable[[MeasuredRun], tuple[str, ...]]
) -> tuple[Summary, ...]:
    """Return the errors of ``comparisons`` by label, in the labels' order."""
    groups = grouped_by(comparisons, lambda one: label(one.run))
    return tuple(summary(groups[key], key) for key in sorted(groups))


def summary(comparisons: Sequence[Comparison], label: tuple[str, ...] = ()) -> Summary:
    """Return the errors of ``comparisons``."""
    time_errors = _absolute(one.time_error for one in comparisons)
    energy_errors = _absolute(one.energy_error for one in comparisons)
    shares = _absolute(one.share_of_wall for one in comparisons)
    return Summary(
        label=label,
        num_points=len(comparisons),
        time_mape=fmean(time_errors) if time_errors else None,
        time_median=median(time_errors) if time_errors else None,
        energy_mape=fmean(energy_errors) if energy_errors else None,
        energy_median=median(energy_errors) if energy_errors else None,
        largest_share_of_wall=max(shares, default=None),
    )


def _absolute(values: Iterable[float | None]) -> list[float]:
    return [abs(value) for value in values if value is not None]


_NEEDED = ("model", "device", "precision", "batch")


def read_measured(path: Path) -> tuple[MeasuredRun, ...]:
    """Read a table of measured runs; ConfigError, which names what is missing, if it is none."""
    rows = read_csv_table(path)
    if not rows:
        raise ConfigError(f"{path} holds no measurements.")
    missing = [name for name in _NEEDED if name not in rows[0]]
    if missing or not {"time_s", "energy_j"} & set(rows[0]):
        lacks = ", ".join(missing or ["time_s or energy_j"])
        raise ConfigError(f"{path} lacks the columns {lacks}; see `joulelab validate --help`.")
    return tuple(_run(row, number, path) for number, row in enumerate(rows, start=FIRST_LINE))


def _run(row: Mapping[str, str], number: int, path: Path) -> MeasuredRun:
    try:
        return MeasuredRun(
            name=row.get("name") or f"line {number}: {row['model']} on {row['device']}",
            source=row.get("source") or path.name,
            family=row.get("family") or row["model"],
            scenario=row.get("scenario") or "",
            device=row["device"],
            model=row["model"],
            precision=row["precision"],
            batch=int(row["batch"]),
            mode=cast("Mode", _one_of("mode", row.get("mode") or "eager", get_args(Mode))),
            knobs=dict(knob_value(word) for word in (row.get("knobs") or "").split()),
            time_s=_positive(row.get("time_s")),
            energy_j=_positive(row.get("energy_j")),
            scope=cast("Scope", _one_of("scope", row.get("scope") or "gpu", get_args(Scope))),
        )
    except ValueError as error:
        raise ConfigError(f"Line {number} of {path}: {error}") from error


def _positive(text: str | None) -> float | None:
    if not text:
        return None
    value = float(text)
    if not value > 0:
        raise ConfigError(f"A time or an energy must be positive, got {text}.")
    return value


def _one_of(kind: str, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise unknown_name(kind, name, known)
    return name
