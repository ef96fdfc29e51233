"""``joulelab sweep``: the predicted optimum over clocks, precisions and batch sizes."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import tyro

from joulelab.analysis.estimates.sweep_table import (
    around_table,
    best_curve,
    optima_table,
    sweep_sentence,
)
from joulelab.cli.estimator.options import Asking, numbers
from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.progress import progress
from joulelab.core.bounds import MOST_MHZ, check_range
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.clock_sweep import Curve, sweep
from joulelab.estimator.estimate import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Asking):
    """Predict over core clocks, and say which clock has the lowest EDP; nothing is run.

    `experiments/dvfs_sweep.py` measures the same.

    Attributes:
        objective: What is to be low.
        clock_mhz: Core clocks: 600,1200 or 600:1980:15 for first, last and step. By default
            the whole range of each device.
        mode: How kernels are launched.
        power_limit_w: Power limit of each device; by default its own.
    """

    objective: Literal["energy", "time", "edp", "ed2p"] = "edp"
    clock_mhz: Annotated[str | None, tyro.conf.arg(metavar="MHZ[,MHZ...]")] = None
    mode: Mode = "eager"
    power_limit_w: float | None = None

    def run(self) -> int:
        """Predict and print.

        Returns:
            0.

        Raises:
            ConfigError: If a name is not known, or a clock is off the range of a device.
        """
        question = self.question(
            mode=self.mode, point=OperatingPoint(power_limit_w=self.power_limit_w)
        )
        clocks = () if self.clock_mhz is None else clock_list(self.clock_mhz)
        with progress() as say:
            curves = sweep(question, clocks_mhz=clocks, progress=say)
        if self.json:
            print(json.dumps({"curves": [_told(curve, self.objective) for curve in curves]}))
        else:
            self._show(curves)
        return 0

    def _show(self, curves: Sequence[Curve]) -> None:
        console = terminal()
        console.print(sweep_sentence(curves, self.objective), style="bold")
        console.print(optima_table(curves, self.objective))
        console.print(around_table(best_curve(curves, self.objective), self.objective))


def clock_list(words: str) -> tuple[int, ...]:
    """Read ``"600,1200"`` or ``"600:1980:15"``.

    Raises:
        ConfigError: If it is neither.
    """
    if ":" not in words:
        return numbers(words, "clock-mhz")
    parts = numbers(words.replace(":", ","), "clock-mhz")
    if len(parts) != 3 or parts[2] < 1 or parts[0] > parts[1]:
        raise ConfigError(f"--clock-mhz takes first:last:step, ascending, got {words!r}.")
    for part in parts:
        check_range("--clock-mhz", part, 1, MOST_MHZ)
    return tuple(range(parts[0], parts[1] + 1, parts[2]))


def _told(curve: Curve, objective: str) -> dict[str, object]:
    told = {**asdict(curve), "device": curve.processor.key}
    del told["processor"]
    return {**told, "best_mhz": curve.clocks_mhz[curve.best(objective)]}
