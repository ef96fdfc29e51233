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

import sys
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from joulelab.analysis.matrix import Matrix, Variant
from joulelab.cli.errors import exit_code
from joulelab.core.procedure import Procedure
from joulelab.registry import unknown_name
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.matrix_study import measure_matrix, plan_lines, tell_matrix

LANGUAGE = {"prompt_tokens": 256, "new_tokens": 16}
"""Short generations, since every window holds whole ones."""

RANDOM = {"weights": None}
"""Training would take a minute and change neither time nor energy."""

VARIANTS = (
    Variant(workload="gemm", name="n=1024", knobs={"n": 1024}, batches=(1,)),
    Variant(workload="gemm", name="n=8192", knobs={"n": 8192}, batches=(1,)),
    Variant(workload="stream", name="copy", knobs={"kernel": "copy"}, batches=()),
    Variant(workload="stream", name="triad", knobs={"kernel": "triad"}, batches=()),
    Variant(
        workload="llama", name="llama-2-7b", knobs={"model": "llama-2-7b", **LANGUAGE},
        batches=(1, 16), prepare_s=7.0,
    ),
    Variant(
        workload="llama", name="llama-3-8b", knobs={"model": "llama-3-8b", **LANGUAGE},
        batches=(1,), prepare_s=7.0,
    ),
    Variant(
        workload="llama", name="tinyllama", knobs={"model": "tinyllama", **LANGUAGE}, batches=(1,),
    ),
    Variant(workload="vit", name="vit-base", knobs={"model": "vit-base"}, batches=(1, 64)),
    Variant(workload="vit", name="vit-large", knobs={"model": "vit-large"}, batches=(64,)),
    Variant(workload="bert", name="bert-large", knobs={"model": "bert-large"}, batches=(1, 32)),
    Variant(workload="resnet50", name="resnet50", knobs={}, batches=(1, 64)),
    Variant(
        workload="diffusion", name="sd-1.5", knobs={"model": "sd-1.5", "steps": 20}, batches=(1,),
        prepare_s=6.0,
    ),
    Variant(workload="lstm", name="sentiment", knobs={"model": "sentiment"}, batches=(64,)),
    Variant(workload="lstm", name="large", knobs={"model": "large"}, batches=(64,)),
    Variant(
        workload="detection", name="rtdetr-r50", knobs={"model": "rtdetr-r50"}, batches=(1, 16),
    ),
    Variant(workload="detection", name="yolos-small", knobs={"model": "yolos-small"}, batches=(1,)),
    Variant(workload="whisper", name="base", knobs={"model": "base"}, batches=(1,)),
    Variant(
        workload="whisper", name="large-v3", knobs={"model": "large-v3"}, batches=(1,),
        prepare_s=5.0,
    ),
    Variant(
        workload="bloom", name="bloom-560m", knobs={"model": "bloom-560m", **LANGUAGE},
        batches=(1,), prepare_s=3.0,
    ),
    Variant(workload="char-lm", name="char-lm", knobs=RANDOM, batches=(16,)),
    Variant(workload="digits-vit", name="digits-vit", knobs=RANDOM, batches=(64,)),
    Variant(workload="digits-lstm", name="digits-lstm", knobs=RANDOM, batches=(64,)),
    Variant(workload="digits-diffusion", name="digits-diffusion", knobs=RANDOM, batches=(32,)),
)  # fmt: skip
"""Workloads as they are commonly run: those that show the limits of the GPU first."""

SHORT = Procedure(
    idle_s=0.0, settle_s=0.1, warmup_min_s=1.0, warmup_max_s=2.0,
    window_s=0.5, min_windows=4, limit_s=3.0,
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
        names = {name for each in VARIANTS for name in (each.workload, each.name)}
        for name in self.only:
            if name not in names:
                raise unknown_name("workload or variant", name, names)
        wanted = set(self.only) or names
        chosen = [each for each in VARIANTS if wanted & {each.workload, each.name}]
        return [(each, each.grid(self.precisions, self.batches)) for each in chosen]


def main(config: WorkloadMatrix) -> int:
    """Measure what is left of the matrix; the exit code is 0 if nothing is missing."""
    if config.plan:
        print("\n".join(plan_lines(config.matrix, config.lab.procedure, repeats=config.repeats)))
        return 0
    if config.table:
        return tell_matrix(config.matrix, config.lab)
    return measure_matrix(
        config.matrix,
        config.lab,
        settings=config,
        repeats=config.repeats,
        again=config.again,
        budget_s=config.budget_s,
    )


if __name__ == "__main__":
    sys.exit(
        exit_code(
            lambda: main(tyro.cli(WorkloadMatrix, description=__doc__)), name="workload_matrix"
        )
    )
