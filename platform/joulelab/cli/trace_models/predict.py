"""``joulelab models trace predict``: power over time and energy of a schedule."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.markup import escape
from rich.table import Table

from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.power_models.evaluate import MOST_LEVEL
from joulelab.cli.trace_models.recordings import OfSamples
from joulelab.core.bounds import check_range
from joulelab.errors import ConfigError
from joulelab.power_models.traces import load_trace_model
from joulelab.power_models.traces.base import TraceModel
from joulelab.power_models.traces.load_trace import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What a model says of one schedule.

    Attributes:
        energy_j: Energy of the whole.
        lower_j: Lower end of its interval; ``None`` if none was asked for.
        upper_j: Upper end.
        duration_s: How long it takes.
        outside: What of it is unlike the recordings trained on.
        step_s: Length of a step.
        power_w: Mean power in each step.
    """

    energy_j: float
    lower_j: float | None
    upper_j: float | None
    duration_s: float
    outside: tuple[str, ...]
    step_s: float
    power_w: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict(OfSamples):
    """Predict power and energy of the schedules in a file of samples; their power is not read.

    Attributes:
        model: Folder that `joulelab models trace train` wrote.
        level: Of the interval of the energy; 0 asks for none.
        refuse_outside: Refuse what is unlike the recordings trained on, instead of widening.
        json: Print one JSON object, power in each step included, instead of text.
    """

    model: tyro.conf.Positional[Path]
    level: float = 0.9
    refuse_outside: bool = False
    json: bool = False

    def run(self) -> int:
        """Predict and print.

        Returns:
            0.

        Raises:
            ConfigError: If the folder holds no model, the file cannot be read, or a schedule is
                outside of what was trained on and that is refused.
        """
        check_range("--level", self.level, 0, MOST_LEVEL)
        model = load_trace_model(self.model)
        found = {name: self._predicted(model, each) for name, each in self.schedules().items()}
        if self.json:
            print(json.dumps({name: asdict(each) for name, each in found.items()}, indent=2))
        else:
            _show(found)
        return 0

    def _predicted(self, model: TraceModel, schedule: Schedule) -> Predicted:
        findings = model.encoding.findings(schedule)
        if findings and self.refuse_outside:
            raise ConfigError(f"Schedules must be like those trained on: {findings[0]}")
        power_w = model.predict(schedule)
        forecast = model.predict_energy(schedule, self.level) if self.level else None
        return Predicted(
            energy_j=float(power_w.sum() * schedule.step_s),
            lower_j=None if forecast is None else forecast.lower_j,
            upper_j=None if forecast is None else forecast.upper_j,
            duration_s=schedule.duration_s,
            outside=findings,
            step_s=schedule.step_s,
            power_w=tuple(power_w.tolist()),
        )


def _show(found: Mapping[str, Predicted]) -> None:
    table = Table("recording", "duration", "mean power", "energy", "from", "to")
    console = terminal()
    for name, each in found.items():
        ends = ["" if end is None else f"{end:.4g} J" for end in (each.lower_j, each.upper_j)]
        mean = f"{each.energy_j / each.duration_s:.4g} W"
        table.add_row(
            escape(name), f"{each.duration_s:.4g} s", mean, f"{each.energy_j:.4g} J", *ends
        )
    console.print(table)
    for name, each in found.items():
        for text in each.outside:
            said = escape(f"{name}: outside of training, interval widened: {text}")
            console.print(said, style="yellow")
