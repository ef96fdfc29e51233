"""``joulelab validate``: estimates against what was measured, every point of a table."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from joulelab.analysis.estimates.validation_table import (
    known_table,
    points_table,
    summaries_table,
    validation_sentence,
)
from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.progress import progress
from joulelab.estimator.validation.runs import MeasuredRun
from joulelab.hardware.processors import PROCESSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Compare estimates with measurements, by source and device; all points are reported.

    Without a table, the errors that come with every estimate: those on measurements that no
    fit has seen.

    Attributes:
        measurements: CSV with the columns model, device, precision, batch, time_s, energy_j, and
            as wanted source, family, mode, scope and knobs (key=value, parted by spaces).
        points: Show every point.
        json: Print one JSON object instead of text.
    """

    measurements: Annotated[Path | None, tyro.conf.Positional] = None
    points: bool = False
    json: bool = False

    def run(self) -> int:
        """Predict every measured run and print the errors.

        Returns:
            0, or 1 if nothing could be compared.

        Raises:
            ConfigError: If the table cannot be read.
        """
        if self.measurements is None:
            return self._tell_known()
        from joulelab.estimator.validation.compare import summaries, validate
        from joulelab.estimator.validation.measured_table import read_measured

        with progress(f"Reading {self.measurements}") as say:
            runs = read_measured(self.measurements)
            say(f"Predicting {len(runs)} runs")
            found = validate(runs)
        by_source = summaries(found.comparisons, _source_and_device)
        if self.json:
            told = {
                "summaries": [asdict(one) for one in by_source],
                "points": [asdict(one) for one in found.comparisons],
                "rejected": dict(found.rejected),
            }
            print(json.dumps(told, indent=2, default=dict))
            return int(not found.comparisons)
        console = terminal()
        console.print(validation_sentence(found), style="bold")
        console.print(summaries_table(by_source))
        if self.points:
            console.print(points_table(found.comparisons))
        for name, reason in found.rejected.items():
            console.print(escape(f"not compared: {name}: {reason}"), style="yellow")
        return int(not found.comparisons)

    def _tell_known(self) -> int:
        from joulelab.estimator.validation.confidence import confidence_of

        known = {processor.key: confidence_of(processor) for processor in PROCESSORS.values()}
        if self.json:
            print(json.dumps({key: asdict(one) for key, one in known.items()}, indent=2))
        else:
            terminal().print(known_table(known))
        return 0


def _source_and_device(run: MeasuredRun) -> tuple[str, ...]:
    return run.source, run.device
