#!/usr/bin/env python
"""Search for the best trade-off of quality, energy and performance, and for the whole front.

Without a GPU, on four simulated ones; a small network is trained for it once, in a minute or so::

    experiments/qep_search.py char-lm --precisions fp32 bf16 int4 --quality-floor 0.99
    experiments/qep_search.py digits-diffusion --vary steps=20,10,5,3 --batches 64

On the GPUs of a node or of a Ray cluster; without clocks, which needs no privilege::

    experiments/qep_search.py --device nvml --precisions fp32 tf32 bf16 fp8 int8
    experiments/qep_search.py --device nvml --observe-only --batches 1 4 16 64 256 1024
    experiments/qep_search.py train.py:Step --device nvml --precisions fp32 bf16 --batches 8 64
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

import joulelab
from joulelab.cli.search_options import Axes, Limits
from joulelab.cli.study import parse_with_workload
from joulelab.objectives import OBJECTIVES
from joulelab.quality import SUBJECTS
from joulelab.study.budget import Budget
from joulelab.study.conclude import report_of
from joulelab.tracking.store import ResultStore
from joulelab.workloads.digits import DigitsVitSettings
from joulelab_actors.laboratory import Laboratory

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
    axes: Annotated[Axes, tyro.conf.arg(name="")] = field(default_factory=Axes)
    limits: Annotated[Limits, tyro.conf.arg(name="")] = Limits(max_slowdown=0.05)  # noqa: RUF009
    budget: Annotated[Budget, tyro.conf.arg(name="")] = Budget(num_trials=40)  # noqa: RUF009
    algorithm: str = "front-guided"
    metric: str | None = None
    quality_floor: float | None = 0.95
    exponents: tuple[float, float] = (1.0, 1.0)
    seed: int = 0


def main(config: QepSearch[object]) -> int:
    """Score, search, and say what to choose; the exit code is 1 if trials went unmeasured."""
    a, b = config.exponents
    found = joulelab.search(
        config.workload,
        config.axes.asked(config.workload, observe_only=config.lab.observe_only),
        objective=replace(OBJECTIVES["qep"], time_exponent=a, quality_exponent=b),
        quality_floor=config.quality_floor,
        metric=config.metric,
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
    axes = Axes(batches=(1, 16, 64, 256), precisions=("fp32", "bf16", "int8", "int4"))
    default = QepSearch(workload=DigitsVitSettings(), axes=axes)
    parse = partial(parse_with_workload, QepSearch, among=SUBJECTS, default=default)
    sys.exit(exit_code(lambda: main(parse(description=__doc__))))
