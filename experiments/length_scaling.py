#!/usr/bin/env python
"""Measure how the cost of a token of a language model grows with the length of its sequence.

One sweep answers both questions: prefill over the length of the prompt, and decode over the
tokens that are in the cache when it starts. Without a GPU, on four simulated ones::

    experiments/length_scaling.py
    experiments/length_scaling.py llama --model llama-3.2-1b --batches 1 16 --gpu h100_sxm

On the GPUs of a node or of a Ray cluster, from the repository root::

    experiments/length_scaling.py --device nvml
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/length_scaling.py --device nvml
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
AMONG = dict.fromkeys(("llama", "bloom"))


@dataclass(frozen=True, kw_only=True)
class LengthScaling(Generic[Settings]):
    """Measure a language model over the length of its sequences.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs, at the driver's own clocks.
        lengths: Tokens of the prompt, and so in the cache when the decode starts; the first
            is what the others are compared with.
        batches: Batches, one curve each.
        repeats: Blocks; each holds every combination once in its own random order.
        order_seed: Seed of the order of trials.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    lengths: tuple[int, ...] = (128, 512, 1024, 2048, 4096, 8000)
    batches: tuple[int, ...] = (1, 16)
    repeats: int = 3
    order_seed: int = 0


def main(config: LengthScaling[object]) -> int:
    """Run the study and say what length costs; the exit code is 0 if nothing is missing."""
    axes = [
        Axis(knob="batch", values=config.batches, title="batch"),
        Axis(knob="prompt_tokens", values=config.lengths, title="tokens", phrase="{} tokens"),
    ]
    knobs = asdict(config.workload)  # type: ignore[call-overload]
    grid = knob_grid(workload_name(config.workload), knobs, axes)
    return measure_knobs(
        KnobStudy(grid=grid, about="lengths", panels=("energy", "time")),
        config.lab,
        kind="length",
        settings=config,
        repeats=config.repeats,
        seed=config.order_seed,
    )


if __name__ == "__main__":
    default = LengthScaling(workload=LlamaSettings(model="llama-3-8b"))
    parse = partial(parse_with_workload, LengthScaling, among=AMONG, default=default)
    sys.exit(exit_code(lambda: main(parse(description=__doc__)), name="length_scaling"))
