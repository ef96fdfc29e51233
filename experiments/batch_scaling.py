#!/usr/bin/env python
"""Measure how throughput and energy per unit of a workload grow with the batch.

Without a GPU, on four simulated ones::

    experiments/batch_scaling.py
    experiments/batch_scaling.py vit --precisions fp16 fp32 --batches 1 4 16 64 --gpu v100_sxm2

On the GPUs of a node or of a Ray cluster, from the repository root::

    experiments/batch_scaling.py --device nvml llama --model llama-3-8b
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/batch_scaling.py --device nvml
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from joulelab.analysis.knob_grid import Axis, KnobStudy
from joulelab.cli.study import parse_with_workload
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.driver_clocks import KnobOptions

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class BatchScaling(KnobOptions[Settings]):
    """Measure a workload over the batch.

    Attributes:
        precisions: Number formats, one curve each.
        batches: Batches; the first is what the others are compared with.
    """

    precisions: tuple[str, ...] = ("bf16",)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)


def main(config: BatchScaling[object]) -> int:
    """Run the study and say what a larger batch saves; the exit code is 0 if nothing is missing."""
    axes = [
        Axis(knob="precision", values=config.precisions, title="format"),
        Axis(knob="batch", values=config.batches, title="batch"),
    ]
    grid = config.grid(axes)
    return config.measure(
        KnobStudy(grid=grid, about="batches", panels=("energy", "trade")),
        "batch",
    )


if __name__ == "__main__":
    default = BatchScaling(workload=LlamaSettings())
    parse = partial(parse_with_workload, BatchScaling, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse())))
