"""``joulelab models trace evaluate``: score models on recordings that they were not shown."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial

from rich.markup import escape
from rich.table import Table

from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.trace_models.recordings import OfSamples
from joulelab.core.bounds import MOST_W, check_positive
from joulelab.power_models.traces import BASELINE, TRACE_MODELS
from joulelab.power_models.traces.validation import TraceScores, leave_one_trace_out

_COLUMNS = ("model", "energy, median", "mean", "worst", "power of steps", "trained in", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate(OfSamples):
    """Score models with every recording held out in turn; the baseline is always among them.

    Attributes:
        model: Models to compare; by default all.
        power_limit_w: Power limit that predictions keep to; by default none.
        json: Print one JSON object instead of text.
    """

    model: tuple[str, ...] = tuple(TRACE_MODELS)
    power_limit_w: float | None = None
    json: bool = False

    def run(self) -> int:
        """Score and print.

        Returns:
            0.

        Raises:
            UnknownNameError: If there is no such model.
            ConfigError: If the file cannot be read, or has fewer than two recordings.
        """
        check_positive("--power-limit-w", self.power_limit_w, MOST_W)
        recordings = self.recordings()
        found = {
            name: leave_one_trace_out(
                partial(TRACE_MODELS[name], calibration_folds=0, power_limit_w=self.power_limit_w),
                recordings,
            )
            for name in dict.fromkeys((BASELINE, *self.model))
        }
        if self.json:
            print(json.dumps({name: _told(scores) for name, scores in found.items()}, indent=2))
        else:
            _show(found)
        return 0


def _told(scores: TraceScores) -> dict[str, object]:
    worst, error = scores.worst
    summary = {"median": scores.median, "mean": scores.mean, "worst": error, "worst_name": worst}
    return {**asdict(scores), **summary}


def _show(found: Mapping[str, TraceScores]) -> None:
    table = Table(*_COLUMNS, title="Errors for recordings that were held out")
    for name, scores in found.items():
        worst, error = scores.worst
        loses = scores.loses_to(found[BASELINE])
        table.add_row(
            name,
            *(f"{100 * share:.1f} %" for share in (scores.median, scores.mean)),
            f"{100 * error:.1f} % ({escape(worst)})",
            f"{100 * scores.power_mape:.1f} %",
            f"{scores.fit_s:.1f} s",
            "loses to the baseline" if loses else "the baseline" if name == BASELINE else "",
        )
    terminal().print(table)
