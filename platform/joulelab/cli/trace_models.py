"""``joulelab models trace``: models of power over time, from recordings."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from joulelab.analysis.quantities import quantity
from joulelab.cli.power_models import MOST_LEVEL, Registration, of_intervals
from joulelab.cli.terminal import Printing
from joulelab.core.bounds import MOST_SEED, MOST_W, check_positive, check_range
from joulelab.errors import ConfigError
from joulelab.power_models.traces import BASELINE, TRACE_MODELS, load_trace_model
from joulelab.power_models.traces.load_trace import LoadTrace, Schedule
from joulelab.power_models.traces.model import TraceModel, TraceScores, leave_one_trace_out
from joulelab.power_models.traces.readers import read_recordings, read_schedules
from joulelab.tracking.mlflow_registry import reference, store_of

_COLUMNS = ("model", "energy, median", "mean", "worst", "power of steps", "trained in")
_EXAMPLE_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSamples:
    """A command on a file of samples."""

    # CSV file with one sample per line: t_s, phase, activities as shares, clock_ratio or
    # sm_clock_mhz, and power_w; recording where there are several in it.
    samples: tyro.conf.Positional[Path]
    step_s: float = 0.1  # Length of the steps that samples are made into.
    board: str | None = None  # GPU, by its key in the catalogue, where the file has sm_clock_mhz.

    def recordings(self) -> list[LoadTrace]:
        """Read the file; ConfigError if it cannot be read; names column and row."""
        return read_recordings(self.samples, step_s=self.step_s, board=self.board)

    def schedules(self) -> dict[str, Schedule]:
        """Read what runs, without power; ConfigError if it cannot be read; names column and row."""
        return read_schedules(self.samples, step_s=self.step_s, board=self.board)


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(OfSamples, Printing):
    """Fit a model of power over time to recordings, and write it to a folder."""

    out: Path  # Folder to write.
    model: str = BASELINE  # Which model.
    power_limit_w: float | None = None  # Power limit that predictions keep to; by default none.
    seed: int = 0  # Of everything random.

    def run(self) -> int:
        """Fit, write and print."""
        check_range("--seed", self.seed, 0, MOST_SEED)
        check_positive("--power-limit-w", self.power_limit_w, MOST_W)
        made = TRACE_MODELS[self.model](seed=self.seed, power_limit_w=self.power_limit_w)
        recordings = self.recordings()
        made.fit(recordings).save(self.out)
        duration_s = sum(each.schedule.duration_s for each in recordings)
        summary = {
            "folder": str(self.out),
            "model": self.model,
            "num_recordings": len(recordings),
            "duration_s": duration_s,
            "highest_level": made.highest_level,
            "data_hash": made.data_hash,
            "phases": list(made.encoding.phases),
            "training_domain": {name: list(ends) for name, ends in made.encoding.ranges.items()},
        }
        sentence = (
            f"{self.model} from {len(recordings)} recordings of {duration_s:.4g} s in all "
            f"(data {made.data_hash}): {self.out}"
        )
        self.show(summary, lambda: [sentence, of_intervals(made.highest_level, "recordings")])
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate(OfSamples, Printing):
    """Score models with every recording held out in turn."""

    model: tuple[str, ...] = tuple(TRACE_MODELS)  # Models to compare; by default all.
    power_limit_w: float | None = None  # Power limit that predictions keep to; by default none.

    def run(self) -> int:
        """Score and print."""
        check_positive("--power-limit-w", self.power_limit_w, MOST_W)
        recordings = self.recordings()
        found = {
            name: leave_one_trace_out(
                partial(TRACE_MODELS[name], calibration_folds=0, power_limit_w=self.power_limit_w),
                recordings,
            )
            for name in dict.fromkeys(self.model)
        }
        summary = {name: _scored(scores) for name, scores in found.items()}
        self.show(summary, lambda: [_scores_table(found)])
        return 0


def _scored(scores: TraceScores) -> dict[str, object]:
    worst, error = scores.worst
    summary = {"median": scores.median, "mean": scores.mean, "worst": error, "worst_name": worst}
    return {**asdict(scores), **summary}


def _scores_table(found: Mapping[str, TraceScores]) -> Table:
    table = Table(*_COLUMNS, title="Errors for recordings that were held out")
    for name, scores in found.items():
        worst, error = scores.worst
        table.add_row(
            name,
            *(f"{100 * share:.1f} %" for share in (scores.median, scores.mean)),
            f"{100 * error:.1f} % ({escape(worst)})",
            f"{100 * scores.power_mape:.1f} %",
            f"{scores.fit_s:.1f} s",
        )
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict(OfSamples, Printing):
    """Predict power and energy of the schedules in a file of samples; their power is not read."""

    # Folder that `joulelab models trace train` wrote, or a registered model, models:/NAME or
    # models:/NAME/VERSION.
    model: tyro.conf.Positional[str]
    # MLflow store of registered models; by default that of studies.
    tracking_uri: str | None = None
    level: float = 0.9  # Of the interval of the energy; 0 asks for none.
    # Refuse what is unlike the recordings trained on, instead of widening.
    refuse_outside: bool = False
    json: bool = False  # Print one JSON object, power in each step included, instead of text.

    def run(self) -> int:
        """Predict and print."""
        check_range("--level", self.level, 0, MOST_LEVEL)
        model = self._found()
        found = {name: self._predicted(model, each) for name, each in self.schedules().items()}
        self.show(found, lambda: _forecasts(found))
        return 0

    def _found(self) -> TraceModel:
        if (asked := reference(self.model)) is None:
            return load_trace_model(Path(self.model))
        from joulelab.tracking.mlflow_models import load_registered_trace_model

        return load_registered_trace_model(store_of(self.tracking_uri), *asked)

    def _predicted(self, model: TraceModel, schedule: Schedule) -> dict[str, Any]:
        """Return energy, its interval if one was asked for, and power in each step.

        ``outside`` is what of the schedule is unlike the recordings trained on.
        """
        findings = model.encoding.findings(schedule)
        if findings and self.refuse_outside:
            raise ConfigError(f"Schedules must be like those trained on: {findings[0]}")
        power_w = model.predict(schedule)
        forecast = model.predict_energy(schedule, self.level) if self.level else None
        return {
            "energy_j": float(power_w.sum() * schedule.step_s),
            "lower_j": None if forecast is None else forecast.lower_j,
            "upper_j": None if forecast is None else forecast.upper_j,
            "duration_s": schedule.duration_s,
            "outside": findings,
            "step_s": schedule.step_s,
            "power_w": power_w.tolist(),
        }


def _forecasts(found: Mapping[str, Mapping[str, Any]]) -> Iterator[RenderableType]:
    table = Table("recording", "duration", "mean power", "energy", "from", "to")
    for name, each in found.items():
        energy_j, duration_s = each["energy_j"], each["duration_s"]
        ends = [
            "" if each[end] is None else quantity(each[end], "J") for end in ("lower_j", "upper_j")
        ]
        spans = quantity(duration_s, "s"), quantity(energy_j / duration_s, "W")
        table.add_row(escape(name), *spans, quantity(energy_j, "J"), *ends)
    yield table
    for name, each in found.items():
        for text in each["outside"]:
            line = f"{name}: outside of training, interval widened: {text}"
            yield Text(line, style="yellow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Registration, OfSamples):
    """Register a trained trace model with signature, example, training domain and scores."""

    model: tyro.conf.Positional[Path]  # Folder that `joulelab models trace train` wrote.
    # Score it with every recording held out in turn, which takes as many trainings.
    scored: bool = False

    def run(self) -> int:
        """Register and print."""
        from joulelab.tracking.mlflow_models import register_trace_model

        model, recordings = load_trace_model(self.model), self.recordings()
        example = recordings[0].schedule.part(0, _EXAMPLE_STEPS)
        unfitted = partial(model.unfitted, calibration_folds=0)
        scores = leave_one_trace_out(unfitted, recordings) if self.scored else None
        return self.register(
            lambda uri: register_trace_model(
                uri, self.name, model, example, level=self.level, scores=scores
            ),
        )
