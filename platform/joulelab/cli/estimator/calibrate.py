"""``joulelab calibrate``: figures of a device from micro-benchmarks that were measured on it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.markup import escape

from joulelab.analysis.estimates.calibration_table import (
    calibration_sentence,
    figures_table,
    residuals_table,
)
from joulelab.cli.estimator.terminal import terminal
from joulelab.errors import ConfigError
from joulelab.estimator.calibration.fit import Calibration, calibrate
from joulelab.estimator.calibration.points import read_anchors
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracking.durable import check_file, write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate:
    """Fit a device's figures to micro-benchmarks; those that break physics are refused.

    Attributes:
        anchors: Table that `benchmarks/estimator_anchors.py` wrote on the device.
        device: The device, as `joulelab processors` lists it.
        out: Write the fitted figures to this file, as JSON.
        json: Print one JSON object instead of text.
    """

    anchors: tyro.conf.Positional[Path]
    device: str
    out: Path | None = None
    json: bool = False

    def run(self) -> int:
        """Fit, print and write.

        Returns:
            0.

        Raises:
            UnknownNameError: If there is no such device.
            ConfigError: If the table cannot be read or identifies nothing.
        """
        processor = PROCESSORS[self.device]
        if self.out is not None and self.out.suffix != ".json":
            raise ConfigError(f"--out takes a file that ends in .json, got {str(self.out)!r}.")
        if self.out is not None:
            check_file(self.out)
        found = calibrate(processor, read_anchors(self.anchors))
        told = json.dumps(_told(processor.key, found), indent=2)
        if self.out is not None:
            write_whole(self.out, told + "\n")
        if self.json:
            print(told)
            return 0
        console = terminal()
        console.print(calibration_sentence(found), style="bold")
        console.print(figures_table(found.figures))
        console.print(residuals_table(found))
        for name, reason in found.rejected.items():
            console.print(escape(f"refused: {name}: {reason}"), style="yellow")
        return 0


def _told(device: str, found: Calibration) -> dict[str, object]:
    return {
        "device": device,
        "time_error": found.time_error,
        "energy_error": found.energy_error,
        "figures": [asdict(figure) for figure in found.figures],
        "points": [
            {
                "name": one.anchor.name,
                "time_error": one.time_error,
                "energy_error": one.energy_error,
                "fitted": one.fitted,
            }
            for one in found.residuals
        ],
        "rejected": dict(found.rejected),
    }
