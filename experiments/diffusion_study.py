#!/usr/bin/env python
"""Measure text-to-image diffusion over schedulers, steps and resolutions, with its quality.

Without a GPU, on four simulated ones; the second scores what it draws, with a small network that
it trains in a minute or two::

    experiments/diffusion_study.py
    experiments/diffusion_study.py digits-diffusion --schedulers ddim dpm++ --num-steps 50 20 10 5

On the GPUs of a node or of a Ray cluster, from the repository root::

    experiments/diffusion_study.py --device nvml diffusion --model sdxl --resolutions 1024
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/diffusion_study.py --device nvml
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from joulelab.analysis.knob_grid import Axis, KnobStudy, scored
from joulelab.cli.study import parse_with_workload
from joulelab.workloads.diffusion_settings import DiffusionSettings
from joulelab_actors.driver_clocks import KnobOptions

Settings = TypeVar("Settings")
AMONG = dict.fromkeys(("diffusion", "digits-diffusion"))


@dataclass(frozen=True, kw_only=True)
class DiffusionStudy(KnobOptions[Settings]):
    """Measure diffusion over schedulers, steps and resolutions.

    Attributes:
        schedulers: How a step follows from the predicted noise.
        resolutions: Sides of the image in pixels, for networks that draw several sizes.
        num_steps: Denoising steps; the first is what the others are compared with.
        score: Score the images of networks whose weights are trained, against the first row.
    """

    schedulers: tuple[str, ...] = ("dpm++", "euler", "ddim")
    resolutions: tuple[int, ...] = (512, 768)
    num_steps: tuple[int, ...] = (50, 30, 20, 10)
    score: bool = True


def main(config: DiffusionStudy[object]) -> int:
    """Run the study and say what is good enough; the exit code is 0 if nothing is missing."""
    knobs = config.knobs
    sides = Axis(knob="resolution", values=config.resolutions, title="pixels", phrase="{} px")
    axes = [
        Axis(knob="scheduler", values=config.schedulers, title="scheduler"),
        *([sides] if "resolution" in knobs else []),
        Axis(knob="steps", values=config.num_steps, title="steps", phrase="{} steps"),
    ]
    grid = config.grid(axes, whole="image")
    return config.measure(
        KnobStudy(grid=grid, about="steps", panels=("energy", "time")),
        "diffusion",
        score=partial(scored, grid) if config.score and knobs.get("weights") else tuple,
    )


if __name__ == "__main__":
    default = DiffusionStudy(workload=DiffusionSettings())
    parse = partial(parse_with_workload, DiffusionStudy, among=AMONG, default=default)
    sys.exit(exit_code(lambda: main(parse(description=__doc__))))
