"""Does a network's metered energy grow, layer by layer, by what attribution says a layer takes?

Usage: python benchmarks/additivity.py --observe-only [--model llama-3-8b] [--out FILE.csv]
       python benchmarks/additivity.py --device simulated --gpu h100_sxm --model tinyllama \
           --depths 4 8 16 22 --batch 1

Networks of one geometry and several depths are metered; the slope of their energies is what a layer
takes, and needs no trust in kernels. Goal: what the deepest one's layers are attributed, and the
gaps that launching their calls leaves, are within 5 % of it.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev
from typing import Annotated, Any, Literal

import torch
import tyro

import joulelab
from joulelab.attribution.attribution import GAPS, UNEXPLAINED, Phase
from joulelab.attributor import AttributionStudy
from joulelab.core.procedure import Procedure
from joulelab.core.statistics import line_slope_and_u
from joulelab.workloads.llama import GEOMETRIES

_METER = Procedure(idle_s=3, warmup_min_s=20, warmup_max_s=25, window_s=2, min_windows=3, limit_s=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to run.

    Attributes:
        model: Geometry.
        depths: Numbers of layers; the last one is attributed.
        batch: Sequences.
        tokens: Tokens of each.
        device: How to reach the GPU.
        gpu: Product to simulate.
        observe_only: Call no setter of the GPU.
        out: CSV file for the depths; by default none.
    """

    model: str = "llama-3-8b"
    depths: tuple[int, ...] = (8, 16, 24, 32)
    batch: int = 4
    tokens: int = 512
    device: str = "auto"
    gpu: str | None = None
    observe_only: bool = False
    out: Path | None = None


def main(asked: Annotated[Asked, tyro.conf.arg(name="")]) -> None:
    """Print metered energies, their slope, and the attributed energy of a layer."""
    rows = []
    for depth in asked.depths:
        study = run(asked, depth, "replay" if depth == asked.depths[-1] else "classes")
        metered = study.found.measured["forward"]
        energy_j, energy_u_j = metered.energy_per_unit_j, metered.energy_per_unit_u_j
        rows.append((depth, energy_j, energy_u_j))
        print(f"{depth} layers: {energy_j:.4f} +- {energy_u_j:.4f} J a forward", flush=True)
    slope_j, slope_u_j = line_slope_and_u([row[0] for row in rows], [row[1] for row in rows])
    print(f"A further layer takes {slope_j:.4f} +- {slope_u_j:.4f} J by the meter alone.")
    print_attributed(study.found.phase("forward"), slope_j)
    if asked.out is not None:
        write(asked.out, rows)


def run(asked: Asked, depth: int, method: Literal["replay", "classes"]) -> AttributionStudy:
    """Attribute a network of ``depth`` layers."""
    from joulelab.workloads import hub  # noqa: F401 - it makes transformers importable
    from transformers import LlamaConfig, LlamaForCausalLM  # isort: skip

    config = LlamaConfig(**{**GEOMETRIES[asked.model], "num_hidden_layers": depth})
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        network: Any = LlamaForCausalLM(config)
        tokens = torch.randint(config.vocab_size, (asked.batch, asked.tokens))
    lab = joulelab.Lab(
        device=asked.device, gpu=asked.gpu, observe_only=asked.observe_only, procedure=_METER
    )
    network.eval()
    inputs = {"input_ids": tokens, "use_cache": False}
    return joulelab.attribute(network, inputs, method=method, lab=lab)


def print_attributed(found: Phase, slope_j: float) -> None:
    """Print what a layer was attributed, beside what a further one takes by the meter."""
    shares = [s for s in found.by_layer if s.name not in (GAPS, UNEXPLAINED)]
    layers = [s for s in shares if s.name]
    in_layers = sum(s.calls for s in layers) / sum(s.calls for s in shares)
    own_j = sum(s.energy_j for s in layers) / len(layers)
    gaps_j = found.gaps.energy_j * in_layers / len(layers)
    print(f"A layer is attributed {own_j:.4f} J (sd {stdev(s.energy_j for s in layers):.4f} J),")
    print(f"and {gaps_j:.4f} J of gaps: {(own_j + gaps_j) / slope_j - 1:+.1%}.")
    print(f"Closure {found.closure:+.1%} before the meter was used.")


def write(path: Path, rows: Sequence[tuple[int, float, float]]) -> None:
    """Write one row per depth."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("layers", "energy_j", "energy_u_j"))
        writer.writerows(rows)


if __name__ == "__main__":
    main(tyro.cli(Asked, description=__doc__))
