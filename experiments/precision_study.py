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
class PrecisionStudy(Generic[Settings]):
    """Measure a workload in several number formats over the batch.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs, at the driver's own clocks.
        precisions: Number formats; the first is what the others are compared with.
        batches: Batches; one alone compares the formats there.
        repeats: Blocks; each holds every combination once in its own random order.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    precisions: tuple[str, ...] = ("fp32", "tf32", "bf16", "fp8", "int8", "int4")
    batches: tuple[int, ...] = (1, 8, 64)
    repeats: int = 3
    order_seed: int = 0


def main(config: PrecisionStudy[object]) -> int:
    """Run the study and say which format to use; the exit code is 0 if nothing is missing."""
    axes = [
        Axis(knob="precision", values=config.precisions, title="format"),
        Axis(knob="batch", values=config.batches, title="batch"),
    ]
    knobs = asdict(config.workload)  # type: ignore[call-overload]
    grid = knob_grid(workload_name(config.workload), knobs, axes)
    return measure_knobs(
        KnobStudy(grid=grid, about="formats", panels=("energy", "throughput")),
        config.lab,
        kind="precision",
        settings=config,
        repeats=config.repeats,
        seed=config.order_seed,
    )


if __name__ == "__main__":
    default = PrecisionStudy(workload=LlamaSettings())
    parse = partial(parse_with_workload, PrecisionStudy, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse()), name="precision_study"))
