#!/usr/bin/env python
"""Measure the models of a family side by side.

Without a GPU, on four simulated ones::

    experiments/model_size.py
    experiments/model_size.py vit --models vit-base vit-large --gpu a100_sxm

On the GPUs of a node or of a Ray cluster, from the repository root::

    experiments/model_size.py --device nvml llama --batch 8
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/model_size.py --device nvml
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from joulelab.analysis.knob_grid import Axis, KnobStudy
from joulelab.cli.study import parse_with_workload
from joulelab.workloads.llama import GEOMETRIES, LlamaSettings, num_parameters
from joulelab_actors.driver_clocks import KnobOptions

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class ModelSize(KnobOptions[Settings]):
    """Measure the models of a family side by side.

    Attributes:
        models: The models, smallest first; the first is what the others are compared with.
        batches: Batches, one curve each.
    """

    models: tuple[str, ...] = (
        "tinyllama", "llama-3.2-1b", "llama-3.2-3b", "llama-2-7b", "llama-3-8b", "llama-2-13b",
    )  # fmt: skip
    batches: tuple[int, ...] = (1, 16)


def main(config: ModelSize[object]) -> int:
    """Run the study and say what size costs; the exit code is 0 if nothing is missing."""
    sizes = _sizes(config.models)
    title = "model" if sizes is None else "parameters"
    axes = [
        Axis(knob="batch", values=config.batches, title="batch"),
        Axis(knob="model", values=config.models, title=title, places=sizes),
    ]
    grid = config.grid(axes)
    return config.measure(
        KnobStudy(grid=grid, about="sizes", panels=("energy", "trade")),
        "size",
    )


def _sizes(models: tuple[str, ...]) -> tuple[float, ...] | None:
    """Return the parameters of each model where all of them are known."""
    if any(model not in GEOMETRIES for model in models):
        return None
    return tuple(float(num_parameters(GEOMETRIES[model])) for model in models)


if __name__ == "__main__":
    default = ModelSize(workload=LlamaSettings())
    parse = partial(parse_with_workload, ModelSize, default=default, description=__doc__)
    sys.exit(exit_code(lambda: main(parse())))
