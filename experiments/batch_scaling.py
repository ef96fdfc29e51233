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
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

from joulelab.analysis.knob_grid import Axis, knob_grid
from joulelab.analysis.knob_log import KnobStudy
from joulelab.cli.workload_choice import parse_with_workload, workload_name
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.knob_study import measure_knobs
from joulelab_actors.laboratory import Laboratory

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class BatchScaling(Generic[Settings]):
    """Measure a workload over the batch.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs, at the driver's own clocks.
        precisions: Number formats, one curve each.
        batches: Batches; the first is what the others are compared with.
        repeats: Blocks; each holds every combination once in its own random order.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    precisions: tuple[str, ...] = ("bf16",)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    repeats: int = 3
    order_seed: int = 0


def main(config: BatchScaling[object]) -> int:
    """Run the study and say what a larger batch saves; the exit code is 0 if nothing is missing."""
    axes = [
        Axis(knob="precision", values=config.precisions, title="format"),
        Axis(knob="batch", values=config.batches, title="batch"),
    ]
    knobs = asdict(config.workload)  # type: ignore[call-overload]
    grid = knob_grid(workload_name(config.workload), knobs, axes)
    return measure_knobs(
        KnobStudy(grid=grid, about="batches", panels=("energy", "trade")),
        config.lab,
        kind="batch",
        settings=config,
        repeats=config.repeats,
        seed=config.order_seed,
    )


if __name__ == "__main__":
    default = BatchScaling(workload=LlamaSettings())
    parse = partial(parse_with_workload, BatchScaling, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse()), name="batch_scaling"))
