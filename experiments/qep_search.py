#!/usr/bin/env python
"""Search for the best trade-off of quality, energy and performance, and for the whole front.

Without a GPU, on four simulated ones; a small network is trained for it once, in a minute or so::

    experiments/qep_search.py char-lm --precisions fp32 bf16 int4 --quality-floor 0.99
    experiments/qep_search.py digits-diffusion --vary steps=20,10,5,3 --batches 64

On the GPUs of a node or of a Ray cluster; without clocks, which needs no privilege::

    experiments/qep_search.py --device nvml --precisions fp32 tf32 bf16 fp8 int8
    experiments/qep_search.py --device nvml --observe-only --batches 1 4 16 64 256 1024
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

from joulelab.cli.workload_choice import parse_with_workload, workload_name
from joulelab.hardware import spec_for
from joulelab.quality import SUBJECTS
from joulelab.search.evidence import Problem
from joulelab.search.goal import goal_of
from joulelab.search.scores import scored_axes
from joulelab.workloads.digits_vit import DigitsVitSettings
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.choices import Axes, Limits, quality_floor
from joulelab_actors.search.in_laboratory import search_in
from joulelab_actors.search.scoring import score_beside, words

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class QepSearch(Generic[Settings]):
    """Search for the configuration of least energy x delay / quality, and for the front.

    Attributes:
        workload: What to run, and score; its own options may follow it.
        lab: Where it runs.
        axes: What is chosen.
        limits: What must be kept to, besides the quality.
        budget: When to stop at the latest; best and front are settled after 40 to 150 trials.
        algorithm: What chooses: front-guided, model-guided (the best alone), tpe, nsga2, ...
        metric: How outputs are scored; by default the workload's first metric.
        quality_floor: Least share of the baseline's quality to keep; None for no floor.
        exponents: How much time and quality count against energy.
        seed: Seed of the algorithm.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    axes: Annotated[Axes, tyro.conf.arg(name="")] = Axes(  # noqa: RUF009 - frozen
        batches=(1, 16, 64, 256), precisions=("fp32", "bf16", "int8", "int4")
    )
    limits: Annotated[Limits, tyro.conf.arg(name="")] = Limits(max_slowdown=0.05)  # noqa: RUF009
    budget: Annotated[Budget, tyro.conf.arg(name="")] = Budget(num_trials=40)  # noqa: RUF009
    algorithm: str = "front-guided"
    metric: str | None = None
    quality_floor: float | None = 0.95
    exponents: tuple[float, float] = (1.0, 1.0)
    seed: int = 0


def main(config: QepSearch[object]) -> int:
    """Score, search, and say what to choose; the exit code is 1 if trials went unmeasured."""
    lab, floors, (a, b) = config.lab, quality_floor(config.quality_floor), config.exponents
    goal = replace(goal_of("qep"), time_exponent=a, quality_exponent=b)
    config.axes.check(config.workload, algorithm=config.algorithm, seed=config.seed)
    with lab.open() as sites:
        name = lab.study_name(f"qep-{workload_name(config.workload)}", sites)
        space = config.axes.space(config.workload, sites, observe_only=lab.observe_only)
        scores = score_beside(sites[0], space, metric=config.metric)
        print(words(space, scores), flush=True)
        problem = Problem(
            space=space.restricted(scored_axes(space, scores)), goal=goal,
            constraints=(*config.limits.constraints, *floors),
            gpu=spec_for(sites[0].identity.name),
            qualities=scores.kept,
        )  # fmt: skip
        found = search_in(
            lab, sites, problem, study=name, settings=config,
            algorithm=config.algorithm, budget=config.budget, seed=config.seed,
        )  # fmt: skip
    print(f"{found.words}\n{lab.where_tracked(found.study)}")
    return found.study.exit_code


if __name__ == "__main__":
    default = QepSearch(workload=DigitsVitSettings())
    parse = partial(parse_with_workload, QepSearch, among=SUBJECTS, default=default)
    sys.exit(exit_code(lambda: main(parse(description=__doc__)), name="qep_search"))
