#!/usr/bin/env python
"""Measure every workload in every number format at the driver's own clocks: one table of cells.

No setter of the GPU is called. What would be measured, and how long it takes::

    experiments/workload_matrix.py --plan

In slices on one GPU, each going on where the one before ended, and what failed once more::

    experiments/workload_matrix.py --device nvml --study matrix --budget-s 500
    experiments/workload_matrix.py --device nvml --study matrix --again

The table of all that was measured, without a GPU::

    experiments/workload_matrix.py --study matrix --table
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from joulelab.analysis.matrix import Matrix, matrix_of
from joulelab.cli.study import parse_study
from joulelab.core.procedure import Procedure
from joulelab_actors.driver_clocks import check_asked, measure_matrix, plan_lines, report_matrix
from joulelab_actors.laboratory import Laboratory

SHORT = Procedure(
    idle_s=0.0, settle_s=0.1, warmup_min_s=1.0, warmup_max_s=2.0,
    window_s=0.5, min_windows=4, limit_s=6.0,
)  # fmt: skip
"""Some 5 s for each phase of a cell."""


@dataclass(frozen=True, kw_only=True)
class WorkloadMatrix:
    """Measure every workload in every number format at the driver's own clocks.

    Attributes:
        lab: Where it runs.
        only: Workloads or variants to take; all by default.
        precisions: Number formats.
        batches: Batches in place of each variant's own.
        repeats: Trials of each cell.
        budget_s: Seconds to fill with cells, by their estimates; all cells by default.
        again: Try cells again that gave no valid measurement.
        plan: Only list the cells and how long they take.
        table: Only write and print the table of what the study has measured.
    """

    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(
        default_factory=lambda: Laboratory(num_gpus=1, procedure=SHORT)
    )
    only: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ("fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8")
    batches: tuple[int, ...] = ()
    repeats: int = 1
    budget_s: float | None = None
    again: bool = False
    plan: bool = False
    table: bool = False

    @property
    def matrix(self) -> Matrix:
        """The chosen variants with their cells.

        Raises:
            UnknownNameError: If no workload or variant has such a name.
        """
        return matrix_of(self.only, self.precisions, self.batches)


def main(config: WorkloadMatrix) -> int:
    """Measure what is left of the matrix; the exit code is 0 if nothing is missing."""
    check_asked(config.batches, plan=config.plan, table=config.table)
    if config.plan:
        print("\n".join(plan_lines(config.matrix, config.lab.procedure, repeats=config.repeats)))
        return 0
    if config.table:
        return report_matrix(config.matrix, config.lab)
    return measure_matrix(
        config.matrix,
        config.lab,
        settings=config,
        repeats=config.repeats,
        again=config.again,
        budget_s=config.budget_s,
    )


if __name__ == "__main__":
    run = lambda: main(parse_study(WorkloadMatrix, __doc__))  # noqa: E731
    sys.exit(exit_code(run))
