#!/usr/bin/env python
"""Measure what workloads cost at the driver's own clocks, each with its error bar.

No setter of the GPU is called, so no permission is needed. On a GPU node, or on a cluster::

    experiments/baseline.py --device nvml --workloads gemm train.py:step
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/baseline.py --device nvml
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import tyro

from joulelab import Configuration
from joulelab.cli.study import parse_study
from joulelab.core.plan import check_plan, plan_sweep
from joulelab.study.conclude import baseline_of
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab_actors.laboratory import Laboratory


def llama() -> list[Configuration]:
    """Llama 7B in two precisions and three batches."""
    shared = {"model": "llama-7b", "prompt_tokens": 128}
    return [
        Configuration.of("llama", shared | {"precision": precision, "batch": batch})
        for precision in ("bf16", "fp32")
        for batch in (1, 8, 64)
    ]


def limits() -> list[Configuration]:
    """The arithmetic and the memory limit of the GPU, and idling."""
    gemms = [{"precision": precision} for precision in ("bf16", "tf32", "fp32")]
    return [
        *(Configuration.of("gemm", knobs) for knobs in gemms),
        Configuration.of("gemm", {"precision": "bf16", "data": "zeros"}),
        Configuration.of("stream"),
        Configuration.of("idle"),
    ]


RECIPES: dict[str, Callable[[], list[Configuration]]] = {
    "llama": llama,
    "limits": limits,
    "all": lambda: llama() + limits(),
}


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Measure what workloads cost at the driver's own clocks.

    Attributes:
        lab: Where it runs.
        recipe: Which workloads.
        workloads: Others in its place, as they are by default: names, or FILE.py:NAME.
        repeats: Times that each is measured, in random order.
        seed: Seed of that order.
    """

    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    recipe: Literal["llama", "limits", "all"] = "all"
    workloads: tuple[str, ...] = ()
    repeats: int = 3
    seed: int = 0


def main(config: Baseline) -> int:
    """Run the recipe and print its table; the exit code is 0 if every trial was valid."""
    lab = replace(config.lab, observe_only=True)
    check_plan(config.repeats)
    named = [WORKLOADS.known_as(name) for name in config.workloads]
    own = [Configuration.of(name, WORKLOADS[name].settings_type()) for name in named]
    asked, kind = (own, "own") if own else (RECIPES[config.recipe](), config.recipe)
    with lab.open(*named) as sites:
        folder = lab.folder(f"baseline-{kind}", sites)
        trials = plan_sweep(folder.name, asked, repeats=config.repeats, seed=config.seed)

        def conclude(store: ResultStore) -> None:
            baseline_of(store).write(store)

        summary = lab.carry_out(
            trials, sites, folder, settings=config, kind="baseline", conclude=conclude
        )
    baseline_of(ResultStore(folder)).print(folder)
    return summary.exit_code or int(not summary.complete)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(parse_study(Baseline, __doc__))))
