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
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, Literal, TypeVar

import tyro

from joulelab import Configuration
from joulelab.analysis.conclude import conclude_sweep, print_sweep
from joulelab.cli.workload_choice import parse_with_workload, workload_name
from joulelab.core.plan import SweepMode, check_plan, check_points, plan_sweep, sweep_points
from joulelab.core.trial import Trial
from joulelab.workloads.llama_settings import LlamaSettings
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import Site, study_clocks_mhz

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
        objective: What is to be low.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    mode: SweepMode = "dvfs"
    every: int = 1
    clocks_mhz: tuple[int, ...] = ()
    repeats: int = 3
    sentinel_every: int = 10
    objective: Literal["edp", "ed2p", "energy", "time"] = "edp"
    order_seed: int = 0


def main(config: DvfsSweep[object]) -> int:
    """Run the sweep and say which clock to use; the exit code is 1 if trials went unmeasured."""
    lab = config.lab
    check_points(config.mode, config.every, config.clocks_mhz, observe_only=lab.observe_only)
    check_plan(config.repeats, config.sentinel_every)
    with lab.open() as sites:
        trials = plan(config, sites)
        summary = lab.run(
            trials, sites, settings=config, conclude=lambda s: conclude_sweep(s, config.objective)
        )
    print_sweep(lab.study_dir(summary.study), config.objective)
    print(f"\n{lab.where_tracked(summary)}")
    return summary.exit_code


def plan(config: DvfsSweep[object], sites: Sequence[Site]) -> tuple[Trial, ...]:
    """Return the trials of the sweep on these GPUs."""
    name = workload_name(config.workload)
    clocks, asked_mhz = study_clocks_mhz(sites), config.clocks_mhz
    points = sweep_points(clocks, mode=config.mode, every=config.every, clocks_mhz=asked_mhz)
    asked = [Configuration.of(name, config.workload, point) for point in points]
    return plan_sweep(
        config.lab.study_name(f"dvfs-{name}", sites),
        asked,
        repeats=config.repeats,
        sentinel=asked[0],
        sentinel_every=config.sentinel_every,
        seed=config.order_seed,
    )


if __name__ == "__main__":
    parse = partial(parse_with_workload, DvfsSweep, default=DvfsSweep(workload=LlamaSettings()))
    sys.exit(exit_code(lambda: main(parse(description=__doc__)), name="dvfs_sweep"))
