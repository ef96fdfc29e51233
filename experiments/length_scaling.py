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
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from joulelab.analysis.knob_grid import Axis, KnobStudy
from joulelab.cli.study import parse_with_workload
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.driver_clocks import KnobOptions

Settings = TypeVar("Settings")
AMONG = dict.fromkeys(("llama", "bloom"))


@dataclass(frozen=True, kw_only=True)
class LengthScaling(KnobOptions[Settings]):
    """Measure a language model over the length of its sequences.

    Attributes:
        lengths: Tokens of the prompt, and so in the cache when the decode starts; the first
            is what the others are compared with.
        batches: Batches, one curve each.
    """

    lengths: tuple[int, ...] = (128, 512, 1024, 2048, 4096, 8000)
    batches: tuple[int, ...] = (1, 16)


def main(config: LengthScaling[object]) -> int:
    """Run the study and say what length costs; the exit code is 0 if nothing is missing."""
    axes = [
        Axis(knob="batch", values=config.batches, title="batch"),
        Axis(knob="prompt_tokens", values=config.lengths, title="tokens", phrase="{} tokens"),
    ]
    grid = config.grid(axes)
    return config.measure(
        KnobStudy(grid=grid, about="lengths", panels=("energy", "time")),
        "length",
    )


if __name__ == "__main__":
    default = LengthScaling(workload=LlamaSettings(model="llama-3-8b"))
    parse = partial(parse_with_workload, LengthScaling, among=AMONG, default=default)
    sys.exit(exit_code(lambda: main(parse(description=__doc__))))
