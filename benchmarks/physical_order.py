"""Whether estimates lie in the order that physics asks for: by board, by number format, by batch.

Usage: python benchmarks/run.py physical_order
       python benchmarks/physical_order.py [MODEL...]     prints each case that is out of order

A newer board of one family is not slower, nor is a narrower format; a larger batch takes no less
time. Energy of a sample rises by no more than a fifth where the batch doubles. What is measured to
be otherwise is counted apart, with its reason:

- layouts: programs that convolve images channel by channel may be slower in half precision, and in
  single precision on the first board whose tensor units take it (an L4 after a T4), since each
  convolution changes the layout twice there (``estimator/pricing/layout.py``);
- casts: half precision launches more kernels, as norms of language models compute in fp32
  (``LlamaRMSNorm`` of transformers), and time rises by no more than their number does;
- cache: a batch that runs kernel by kernel leaves the last cache. Elementwise kernels reach 6.0
  TB/s in it and 4.3 beyond on an H200, 5.4 and 3.1 on an H100 (experiments/results/h200_kernels,
  h100_kernels). Energy of a sample rises by no more than its bytes of the main memory do.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from figures import Figure

from joulelab.errors import ConfigError
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.predict import runs
from joulelab.estimator.pricing.run import PhaseRun
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import supports
from joulelab.tracing.program import TracedModel

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
_BY_KERNEL = ("gpu", "cpu")
"""Families on which eager programs run each kernel on the whole batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """An estimate of one execution."""

    time_s: float
    energy_j: float
    memory_b: float  # bytes of the main memory
    num_kernels: float


Prices = Mapping[tuple[str, str, int], Priced]
"""Estimates by device, format and batch."""


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
    prices, has_images = _prices(model)
    return [
        *_by_board(model, prices, has_images=has_images),
        *_by_format(model, prices, has_images=has_images),
        *_by_batch(model, prices),
    ]


def _prices(model: str) -> tuple[Prices, bool]:
    """Return the estimates of ``model``, and whether it convolves images."""
    found: dict[tuple[str, str, int], Priced] = {}
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
            priced = _of(processors, traced)
            found |= {(device, precision, batch): price for device, price in priced.items()}
    return found, has_images


def _of(processors: Sequence[Processor], traced: TracedModel) -> dict[str, Priced]:
    found = zip(processors, runs(traced, processors), strict=True)
    return {one.key: _price(of_phases) for one, of_phases in found}


def _price(runs: Sequence[PhaseRun]) -> Priced:
    counts = [each.plan.phase.count for each in runs]
    sequences = [each.plan.table.sequence for each in runs]
    return Priced(
        time_s=sum(n * float(each.latency_s[0]) for n, each in zip(counts, runs, strict=True)),
        energy_j=sum(n * float(each.energy_j[0]) for n, each in zip(counts, runs, strict=True)),
        memory_b=sum(
            n * float(each.costs.moved_b[each.where.processor.memory.name][sequence].sum())
            for n, each, sequence in zip(counts, runs, sequences, strict=True)
        ),
        num_kernels=sum(n * len(sequence) for n, sequence in zip(counts, sequences, strict=True)),
    )


def _by_board(model: str, prices: Prices, *, has_images: bool) -> Iterator[Case]:
    for line in LINES:
        for older, newer in pairwise(line):
            has_units = "tensor_tf32" in PROCESSORS[newer].flop_per_clock
            has_layouts = has_images and has_units > (
                "tensor_tf32" in PROCESSORS[older].flop_per_clock
            )
            for precision in _PRECISIONS:
                for batch in BATCHES:
                    before = prices.get((older, precision, batch))
                    after = prices.get((newer, precision, batch))
                    if before and after:
                        what = f"{model} {precision} x {batch}: {newer} against {older}"
                        excess = after.time_s / before.time_s - 1
                        reason = "layouts" if has_layouts and precision == "fp32" else ""
                        yield Case(kind="board", what=what, excess=excess, reason=reason)


def _by_format(model: str, prices: Prices, *, has_images: bool) -> Iterator[Case]:
    for device in PROCESSORS:
        for line in FORMATS:
            for wide, narrow in pairwise(line):
                for batch in BATCHES:
                    before = prices.get((device, wide, batch))
                    after = prices.get((device, narrow, batch))
                    if before and after:
                        excess = after.time_s / before.time_s - 1
                        has_layouts = has_images and narrow in _HALF
                        has_casts = after.num_kernels / before.num_kernels - 1 >= excess
                        yield Case(
                            kind="format",
                            what=f"{model} x {batch} on {device}: {narrow} against {wide}",
                            excess=excess,
                            reason="layouts" if has_layouts else "casts" if has_casts else "",
                        )


def _by_batch(model: str, prices: Prices) -> Iterator[Case]:
    for (device, precision, batch), once in prices.items():
        twice = prices.get((device, precision, 2 * batch))
        if twice:
            what = f"{model} {precision} on {device}: batch {2 * batch} against {batch}"
            yield Case(kind="batch", what=f"{what}, time", excess=once.time_s / twice.time_s - 1)
            rise = twice.energy_j / (2 * once.energy_j)
            runs_by_kernel = PROCESSORS[device].family in _BY_KERNEL
            leaves_cache = 0 < twice.memory_b >= 2 * rise * once.memory_b
            yield Case(
                kind="batch",
                what=f"{what}, energy of a sample",
                excess=rise - 1 - _RISE,
                reason="cache" if runs_by_kernel and leaves_cache else "",
            )


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
