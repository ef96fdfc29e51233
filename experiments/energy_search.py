#!/usr/bin/env python
"""Search for the SM clock, batch and number format of least energy x delay, and say how sure it is.

Without a GPU, on four simulated ones::

    experiments/energy_search.py --num-trials 60
    experiments/energy_search.py llama --batches 1 4 16 --algorithm tpe --num-trials 80

On the GPUs of a node or of a Ray cluster; with the name of an earlier search it goes on with it::

    experiments/energy_search.py --device nvml --wall-s 3600 --max-slowdown 0.05
    experiments/energy_search.py --device nvml --wall-s 3600 --max-slowdown 0.05 --study NAME
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, Literal, TypeVar

import tyro

from joulelab.cli.workload_choice import parse_with_workload, workload_name
from joulelab.hardware import spec_for
from joulelab.search.evidence import Problem
from joulelab.search.goal import goal_of
from joulelab.workloads.llama_settings import LlamaSettings
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import Site
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.choices import Axes, Limits
from joulelab_actors.search.in_laboratory import search_in

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
        algorithm: What chooses: model-guided, ridge, grid, random, gp, tpe or nsga2.
        goal: What is to be low.
        seed: Seed of the algorithm.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    axes: Annotated[Axes, tyro.conf.arg(name="")] = field(default_factory=Axes)
    limits: Annotated[Limits, tyro.conf.arg(name="")] = field(default_factory=Limits)
    budget: Annotated[Budget, tyro.conf.arg(name="")] = field(default_factory=Budget)
    algorithm: str = "model-guided"
    goal: Literal["edp", "ed2p", "energy"] = "edp"
    seed: int = 0


def main(config: EnergySearch[object]) -> int:
    """Run the search and say what to choose; the exit code is 1 if trials went unmeasured."""
    lab = config.lab
    config.axes.check(config.workload, algorithm=config.algorithm, seed=config.seed)
    with lab.open() as sites:
        name = lab.study_name(f"search-{workload_name(config.workload)}", sites)
        found = search_in(
            lab, sites, problem(config, sites), study=name, settings=config,
            algorithm=config.algorithm, budget=config.budget, seed=config.seed,
        )  # fmt: skip
    print(f"{found.words}\n{lab.where_tracked(found.study)}")
    return found.study.exit_code


def problem(config: EnergySearch[object], sites: Sequence[Site]) -> Problem:
    """Return what is searched for on these GPUs."""
    observe_only = config.lab.observe_only
    return Problem(
        space=config.axes.space(config.workload, sites, observe_only=observe_only),
        goal=goal_of(config.goal),
        constraints=config.limits.constraints,
        gpu=spec_for(sites[0].identity.name),
    )


if __name__ == "__main__":
    default = EnergySearch(workload=LlamaSettings())
    parse = partial(parse_with_workload, EnergySearch, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse()), name="energy_search"))
