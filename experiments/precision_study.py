#!/usr/bin/env python
"""Measure a workload in several number formats over the batch, and where a narrower one loses.

Without a GPU, on four simulated ones::

    experiments/precision_study.py
    experiments/precision_study.py vit --precisions fp32 tf32 fp16 int8 --gpu a100_sxm

On the GPUs of a node or of a Ray cluster, from the repository root::

    experiments/precision_study.py --device nvml llama --model llama-3-8b
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/precision_study.py --device nvml
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
class PrecisionStudy(KnobOptions[Settings]):
    """Measure a workload in several number formats over the batch.

    Attributes:
        precisions: Number formats; the first is what the others are compared with.
        batches: Batches; one alone compares the formats there.
    """

    precisions: tuple[str, ...] = ("fp32", "tf32", "bf16", "fp8", "int8", "int4")
    batches: tuple[int, ...] = (1, 8, 64)


def main(config: PrecisionStudy[object]) -> int:
    """Run the study and say which format to use; the exit code is 0 if nothing is missing."""
    axes = [
        Axis(knob="precision", values=config.precisions, title="format"),
        Axis(knob="batch", values=config.batches, title="batch"),
    ]
    grid = config.grid(axes)
    return config.measure(
        KnobStudy(grid=grid, about="formats", panels=("energy", "throughput")),
        "precision",
    )


if __name__ == "__main__":
    default = PrecisionStudy(workload=LlamaSettings())
    parse = partial(parse_with_workload, PrecisionStudy, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse())))
