#!/usr/bin/env python
"""Search for the SM clock, batch and number format of least energy x delay, and say how sure it is.

Without a GPU, on four simulated ones::

    experiments/energy_search.py --num-trials 60
    experiments/energy_search.py llama --batches 8 --algorithm tpe --num-trials 80

On the GPUs of a node or of a Ray cluster; with the name of an earlier search it goes on with it::

    experiments/energy_search.py --device nvml --wall-s 3600 --max-slowdown 0.05
    experiments/energy_search.py --device nvml --wall-s 3600 --max-slowdown 0.05 --study NAME
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

import joulelab
from joulelab.cli.search_options import Axes, Limits
from joulelab.cli.study import parse_with_workload
from joulelab.objectives import without_quality
from joulelab.study.budget import Budget
from joulelab.study.conclude import report_of
from joulelab.tracking.store import ResultStore
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.laboratory import Laboratory

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class EnergySearch(Generic[Settings]):
    """Search for the configuration of a workload that costs least.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs.
        axes: What is chosen.
        limits: What must be kept to.
        budget: When to stop at the latest; else when the answer is settled.
        algorithm: What chooses: model-guided, ridge, grid, random, gp, tpe, nsga2, or that of a
            plug-in.
        objective: What is to be low: edp, ed2p, energy, or that of a plug-in.
        seed: Seed of the algorithm.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    axes: Annotated[Axes, tyro.conf.arg(name="")] = field(default_factory=Axes)
    limits: Annotated[Limits, tyro.conf.arg(name="")] = field(default_factory=Limits)
    budget: Annotated[Budget, tyro.conf.arg(name="")] = field(default_factory=Budget)
    algorithm: str = "model-guided"
    objective: str = "edp"
    seed: int = 0


def main(config: EnergySearch[object]) -> int:
    """Run the search and say what to choose; the exit code is 1 if trials went unmeasured."""
    found = joulelab.search(
        config.workload,
        config.axes.asked(config.workload, observe_only=config.lab.observe_only),
        objective=without_quality(config.objective),
        constraints=config.limits.constraints,
        budget=config.budget,
        strategy=config.algorithm,
        seed=config.seed,
        settings=config,
        lab=config.lab,
    )
    report_of(ResultStore(found.folder), found.result).print(found.folder)
    print(f"{found.words}\n{config.lab.where_tracked(found.summary)}")
    return found.summary.exit_code


if __name__ == "__main__":
    default = EnergySearch(workload=LlamaSettings())
    parse = partial(parse_with_workload, EnergySearch, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse())))
