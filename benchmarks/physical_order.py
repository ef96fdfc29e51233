"""Whether estimates lie in the order that physics asks for: by board, by number format, by batch.

Usage: python benchmarks/run.py physical_order
       python benchmarks/physical_order.py [MODEL...]     prints each case that is out of order

A newer board of one family is not slower, nor is a narrower format; a larger batch takes no less
time. Energy of a sample rises by no more than a fifth where the batch doubles. Programs that
convolve images channel by channel may be slower in half precision, since each convolution changes
the layout twice: measured (``estimator/pricing/kernel_rates.py``). They are counted apart.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from figures import Figure

from joulelab.errors import ConfigError
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.predict import Totals, totals
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import supports

MODELS = (
    *("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vgg16", "densenet121"),
    *("convnext_tiny", "swin_t", "vit-base", "bert-base", "bert-large", "gpt2", "gpt2-xl"),
    *("qwen2.5-0.5b", "llama-2-7b", "whisper-small", "stable-diffusion-1.5"),
)
LINES = (
    ("v100_sxm2", "a100_sxm", "h100_sxm", "h200_sxm", "b200"),
    ("v100_pcie", "a100_pcie", "h100_pcie", "h100_nvl"),
    ("p100_sxm2", "v100_sxm2"),
    ("a100_pcie_40gb", "a100_pcie"),
    ("a100_sxm_40gb", "a100_sxm"),
    ("t4", "l4", "l40s", "rtx_pro_6000"),
    ("rtx_a4000", "a40", "rtx_6000_ada"),
    ("rtx_3090", "rtx_4090"),
    ("quadro_rtx_6000", "rtx_6000_ada"),
    ("jetson_orin_nano", "jetson_orin_agx", "jetson_thor"),
)
"""Boards of a family, older or smaller ones first."""
FORMATS = (("fp32", "tf32", "fp16"), ("tf32", "bf16"), ("fp16", "int8"))
"""Formats of which each is no slower than the one before, where a processor has both."""
BATCHES = (1, 2, 4, 8, 16, 32, 64)
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8")
_TOLERANCE = 0.01
_RISE = 0.2
_HALF = ("fp16", "bf16")
Times = Mapping[tuple[str, str, int], tuple[float, float]]
"""Time and energy of one execution by device, format and batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Two estimates of one model that have an order; ``excess`` above 0 is out of it."""

    kind: str
    what: str
    excess: float
    reason: str = ""


def figures() -> list[Figure]:
    """Return how many cases are out of order, of each kind."""
    cases = [case for model in MODELS for case in _cases(model)]
    return [
        Figure(
            name=f"out of physical order, by {kind}",
            measured=sum(_is_out(case) and not case.reason for case in cases if case.kind == kind),
            promised=0,
            unit="cases",
            how=f"{number} cases of {len(MODELS)} models; {_excused(cases, kind)} with a reason",
        )
        for kind, number in Counter(case.kind for case in cases).items()
    ]


def _is_out(case: Case) -> bool:
    return case.excess > _TOLERANCE


def _excused(cases: Sequence[Case], kind: str) -> int:
    return sum(_is_out(case) and bool(case.reason) for case in cases if case.kind == kind)


def _cases(model: str) -> list[Case]:
    print(f"{model} ...", file=sys.stderr, flush=True)
    times, has_images = _times(model)
    return [
        *_by_board(model, times),
        *_by_format(model, times, has_images=has_images),
        *_by_batch(model, times),
    ]


def _times(model: str) -> tuple[Times, bool]:
    """Return the estimates of ``model``, and whether it convolves images."""
    found: dict[tuple[str, str, int], tuple[float, float]] = {}
    has_images = False
    for precision in _PRECISIONS:
        processors = [one for one in PROCESSORS.values() if supports(precision, one)]
        for batch in BATCHES:
            try:
                traced = trace_model(model, batch=batch, precision=precision)
            except ConfigError:  # no such format of this program
                break
            kinds = {op.kind for phase in traced.phases for op in phase.program.operators}
            has_images |= "conv" in kinds
            found |= _of(processors, precision, batch, totals(traced, processors))
    return found, has_images


def _of(
    processors: Sequence[Processor], precision: str, batch: int, made: Totals
) -> dict[tuple[str, str, int], tuple[float, float]]:
    times, energies = made.total_latency_s[:, 0], made.total_energy_j[:, 0]
    return {
        (one.key, precision, batch): (float(time_s), float(energy_j))
        for one, time_s, energy_j in zip(processors, times, energies, strict=True)
    }


def _by_board(model: str, times: Times) -> Iterator[Case]:
    for line in LINES:
        for older, newer in pairwise(line):
            for precision in _PRECISIONS:
                for batch in BATCHES:
                    before = times.get((older, precision, batch))
                    after = times.get((newer, precision, batch))
                    if before and after:
                        what = f"{model} {precision} x {batch}: {newer} against {older}"
                        yield Case(kind="board", what=what, excess=after[0] / before[0] - 1)


def _by_format(model: str, times: Times, *, has_images: bool) -> Iterator[Case]:
    for device in PROCESSORS:
        for line in FORMATS:
            for wide, narrow in pairwise(line):
                for batch in BATCHES:
                    before = times.get((device, wide, batch))
                    after = times.get((device, narrow, batch))
                    if before and after:
                        yield Case(
                            kind="format",
                            what=f"{model} x {batch} on {device}: {narrow} against {wide}",
                            excess=after[0] / before[0] - 1,
                            reason="layouts" if has_images and narrow in _HALF else "",
                        )


def _by_batch(model: str, times: Times) -> Iterator[Case]:
    for (device, precision, batch), (time_s, energy_j) in times.items():
        twice = times.get((device, precision, 2 * batch))
        if twice:
            what = f"{model} {precision} on {device}: batch {2 * batch} against {batch}"
            yield Case(kind="batch", what=f"{what}, time", excess=time_s / twice[0] - 1)
            rise = twice[1] / (2 * energy_j) - 1
            yield Case(kind="batch", what=f"{what}, energy of a sample", excess=rise - _RISE)


def main(models: Sequence[str]) -> int:
    """Print the cases that are out of order, the worst first."""
    cases = [case for model in models or MODELS for case in _cases(model)]
    out = sorted(filter(_is_out, cases), key=lambda case: -case.excess)
    for case in out:
        print(f"{case.excess:+7.1%}  {case.what}  {case.reason}")
    print(f"{len(out)} of {len(cases)} are out of order")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
