"""``joulelab compare``: devices side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from typing_extensions import override

from joulelab.analysis.estimates.answer import ranked
from joulelab.analysis.estimates.contrast import contrast_table
from joulelab.cli.estimator.estimate import Estimate
from joulelab.cli.estimator.options import Names
from joulelab.estimator.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Estimate):
    """Put devices side by side for one model, the one that needs least energy first.

    Attributes:
        device: Devices that `joulelab processors` lists.
    """

    device: Names = "xeon_8490h,h200_sxm,jetson_orin_agx,tpu_v4,kpu_t256"

    @override
    def predict(self) -> tuple[Cell, ...]:
        return ranked(Estimate.predict(self))

    @override
    def show(self, cells: Sequence[Cell], console: Console) -> None:
        Estimate.show(self, cells, console)
        table = contrast_table(cells)
        if table is not None:
            console.print(table)
