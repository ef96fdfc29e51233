"""``joulelab models evaluate``: score models on applications that they were not shown."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.power_models.table import OfTable
from joulelab.core.bounds import check_range
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.runs import Runs
from joulelab.power_models.validation import COLD, WARM, Validated, validate

MOST_LEVEL = 0.9999
_COLUMNS = (
    "model",
    "measured at",
    "power",
    "worst",
    "time",
    "worst",
    "energy",
    "EDP regret",
    "smoothed",
    "coverage",
    "+-",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate(OfTable):
    """Score models by what was held out as a whole: applications, GPUs or clock ranges.

    Attributes:
        model: Models to compare; by default the cheap ones.
        held_out: What is held out: application, gpu or clocks.
        probe: Clock over the default clock (0.01 to 2) at which held-out applications are measured
            besides it.
        level: Of the intervals, below 1; 0 asks for none, which is several times faster.
        json: Print one JSON object instead of text.
    """

    model: tuple[str, ...] = ("mean", "log_linear", "physics")
    held_out: str = "application"
    probe: float | None = None
    level: float = 0.0
    json: bool = False

    def run(self) -> int:
        """Score and print.

        Returns:
            0, or 1 if no model could learn from the table.

        Raises:
            UnknownNameError: If there is no such model or split.
            ConfigError: If the table cannot be read.
        """
        check_range("--probe", self.probe, 0.01, 2)
        check_range("--level", self.level, 0, MOST_LEVEL)
        runs = self.read()
        found: dict[str, list[Validated]] = {}
        refused: dict[str, str] = {}
        for name in self.model:
            try:
                found[name] = self._scores(name, runs)
            except UnknownNameError:
                raise
            except ConfigError as error:
                refused[name] = str(error)
        if self.json:
            told = {name: [asdict(each) for each in scores] for name, scores in found.items()}
            print(json.dumps({"scores": told, "refused": refused}, indent=2))
        else:
            _show(found, refused)
        return int(not found)

    def _scores(self, name: str, runs: Runs) -> list[Validated]:
        kind, level = POWER_MODELS[name], self.level or None
        settings: Mapping[str, Any] = {} if level else {"calibration_folds": 0}
        anchors = [COLD, WARM] if self.probe is None else [COLD, WARM, (1.0, self.probe)]
        return validate(
            lambda: OperatingModel(
                power=kind("power_w", **settings), time=kind("time_s", **settings)
            ),
            runs,
            self.held_out,
            anchors=anchors,
            level=level,
        )


def _show(found: Mapping[str, list[Validated]], refused: Mapping[str, str]) -> None:
    table = Table(*_COLUMNS, title="Mean absolute errors on what was held out")
    for name, scores in found.items():
        for each in scores:
            table.add_row(name, *_cells(each))
    for who, regrets in _baselines(found).items():
        table.add_row(who, *[""] * 6, *regrets)
    console = terminal()
    console.print(table)
    for name, reason in refused.items():
        console.print(escape(f"{name}: {reason}"), style="yellow")


def _cells(each: Validated) -> list[str]:
    power, time, energy = (each.errors[name] for name in ("power_w", "time_s", "energy_j"))
    regret, interval = each.regrets.get("edp_js"), each.intervals.get("power_w")
    smoothed = each.smoothed.get("model", {}).get("edp_js")
    return [
        ", ".join(f"{anchor:g}" for anchor in each.anchors) or "nothing",
        _percent(power.mean),
        _percent(power.worst_application),
        _percent(time.mean),
        _percent(time.worst_application),
        _percent(energy.mean),
        "" if regret is None else _percent(regret.mean),
        "" if smoothed is None else _percent(smoothed.mean),
        "" if interval is None else f"{interval.coverage:.2f}",
        "" if interval is None else _percent(interval.half_width),
    ]


def _baselines(found: Mapping[str, list[Validated]]) -> dict[str, tuple[str, str]]:
    """Return EDP regrets by baseline, against the best measured point and the smoothed sweep."""
    for scores in found.values():
        both = scores[0].baselines, scores[0].smoothed
        return {
            who: (_percent(both[0][who]["edp_js"].mean), _percent(both[1][who]["edp_js"].mean))
            for who in both[0]
        }
    return {}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
