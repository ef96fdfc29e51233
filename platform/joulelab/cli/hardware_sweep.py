"""What a sweep of clocks tells of a GPU, as figures of a data file and in words."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from joulelab.csv_table import read_csv_table
from joulelab.hardware import GpuSpec
from joulelab.hardware.processor import Figure
from joulelab.power_models.board_fit import NAMES, BoardFit, fit_board
from joulelab.power_models.columns import GPU_NAMES, Cells
from joulelab.power_models.readers import read_csv


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFit:
    """A sweep and what was fitted to it."""

    path: Path
    other: GpuSpec
    fit: BoardFit

    @classmethod
    def of(cls, path: Path, other: GpuSpec, limit_w: float) -> "SweepFit":
        """Fit the sweep in ``path`` of a GPU that is like ``other``.

        Raises:
            ConfigError: If it is no table of runs, or tells too little.
        """
        rows = read_csv_table(path)
        labels = Cells(rows=rows).texts(GPU_NAMES, otherwise=other.key) if rows else []
        boards = dict.fromkeys(labels, other.key)
        runs = read_csv(path, gpu=other.key, boards=boards, repeats="median")
        return cls(path=path, other=other, fit=fit_board(runs, limit_w))

    def figures(self) -> dict[str, Figure]:
        """Return the figures that the sweep tells."""
        names = [f"voltage.{name}" for name in NAMES[:3]] if self.fit.knows_curve else []
        names += ["power.constant_w"] if self.fit.knows_constant else []
        source = (
            f"least squares of power over clocks in {self.path.name}: {self.fit.num_runs} runs, "
            f"mean error {self.fit.error:.2%}"
        )
        values = {name: self.fit.values[name.partition(".")[2]] for name in names}
        return {
            name: Figure(value=float(f"{value:.5g}"), status="F", source=source)
            for name, value in values.items()
        }

    def words(self) -> list[str]:
        """Say what was fitted, how far it is off, and what stays unknown."""
        fit, held_out = self.fit, [*self.fit.held_out.values()]
        capped = f", {fit.num_capped} at the power limit left out" * bool(fit.num_capped)
        found = (
            f"Fitted to {fit.num_runs} runs{capped}: mean error of power {fit.error:.2%}. Voltage "
            f"at {fit.top_clock_mhz:.0f} MHz over its least {1 + fit.rise:.3f} ± {fit.rise_u:.3f}, "
            f"constant power {fit.values['constant_w']:.1f} ± {fit.constant_u_w:.1f} W (standard "
            "uncertainties of the fit)."
        )
        if held_out:
            worst = max(fit.held_out, key=lambda name: fit.held_out[name])
            tested = (
                "Applications that the fit has not seen, each from its highest and lowest clock: "
                f"mean error {np.mean(held_out):.2%}, worst {max(held_out):.2%} ({worst})."
            )
        else:
            tested = "One application alone: what it says of others was not tested."
        return [found, tested, self._unknown()]

    def _unknown(self) -> str:
        parts = [
            *["the voltage curve, which the sweep does not tell"] * (not self.fit.knows_curve),
            *["the constant power, which the sweep does not tell"] * (not self.fit.knows_constant),
            "how power divides among SMs, units and memory",
            "times",
        ]
        return f"Still as of the {self.other.key}: {'; '.join(parts)}."
