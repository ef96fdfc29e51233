#!/usr/bin/env python
"""Find the SM clock at which a workload uses the least energy x delay, and how sure that is.

Without a GPU, on four simulated ones::

    experiments/dvfs_sweep.py
    experiments/dvfs_sweep.py llama --model llama-3-8b --batch 8 --gpu a100_sxm --every 4

On the GPUs of a node or of a Ray cluster, from the repository root::

    experiments/dvfs_sweep.py --device nvml
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/dvfs_sweep.py --device nvml gemm --precision fp16
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

import joulelab
from joulelab.cli.study import parse_with_workload
from joulelab.core.plan import SweepMode
from joulelab.study.conclude import report_of
from joulelab.tracking.store import ResultStore
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.laboratory import Laboratory

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class DvfsSweep(Generic[Settings]):
    """Measure a workload over the SM clocks of a GPU.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs.
        mode: Clocks besides the driver's default: the GPU's (dvfs), those given (custom), none.
        every: In mode dvfs, take every k-th clock.
        clocks_mhz: In mode custom, the clocks.
        repeats: Blocks; each holds every clock once in its own random order.
        sentinel_every: Trials between two looks at the default clock for drift.
        objective: What is to be low: edp, ed2p, energy, time, or that of a plug-in.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    mode: SweepMode = "dvfs"
    every: int = 1
    clocks_mhz: tuple[int, ...] = ()
    repeats: int = 3
    sentinel_every: int = 10
    objective: str = "edp"
    order_seed: int = 0


def main(config: DvfsSweep[object]) -> int:
    """Run the sweep and say which clock to use; the exit code is 1 if trials went unmeasured."""
    found = joulelab.sweep(
        config.workload,
        mode=config.mode,
        clocks_mhz=config.clocks_mhz,
        every=config.every,
        objective=config.objective,
        repeats=config.repeats,
        sentinel_every=config.sentinel_every,
        seed=config.order_seed,
        settings=config,
        lab=config.lab,
    )
    report_of(ResultStore(found.folder), found.result).print(found.folder)
    print(f"\n{config.lab.where_tracked(found.summary)}")
    return found.summary.exit_code


if __name__ == "__main__":
    parse = partial(parse_with_workload, DvfsSweep, default=DvfsSweep(workload=LlamaSettings()))
    sys.exit(exit_code(lambda: main(parse(description=__doc__))))
