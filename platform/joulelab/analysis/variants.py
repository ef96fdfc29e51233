"""The workloads as they are commonly run, for tables that hold all of them."""

from collections.abc import Mapping, Sequence

from joulelab.analysis.matrix import Variant
from joulelab.core.configuration import KnobValue
from joulelab.registry import unknown_name

Knobs = Mapping[str, KnobValue]

_LANGUAGE: Knobs = {"prompt_tokens": 256, "new_tokens": 16}
"""Short generations, since every window holds whole ones."""

_RANDOM: Knobs = {"weights": None}
"""Training would take a minute and change neither time nor energy."""

VARIANTS: tuple[Variant, ...] = (
    Variant(workload="gemm", name="n=1024", knobs={"n": 1024}, batches=(1,)),
    Variant(workload="gemm", name="n=8192", knobs={"n": 8192}, batches=(1,)),
    Variant(workload="stream", name="copy", knobs={"kernel": "copy"}, batches=()),
    Variant(workload="stream", name="triad", knobs={"kernel": "triad"}, batches=()),
    Variant(
        workload="llama", name="llama-2-7b", knobs={"model": "llama-2-7b", **_LANGUAGE},
        batches=(1, 16), prepare_s=7.0,
    ),
    Variant(
        workload="llama", name="llama-3-8b", knobs={"model": "llama-3-8b", **_LANGUAGE},
        batches=(1,), prepare_s=7.0,
    ),
    Variant(
        workload="llama", name="tinyllama", knobs={"model": "tinyllama", **_LANGUAGE}, batches=(1,),
    ),
    Variant(workload="vit", name="vit-base", knobs={"model": "vit-base"}, batches=(1, 64)),
    Variant(workload="vit", name="vit-large", knobs={"model": "vit-large"}, batches=(64,)),
    Variant(workload="bert", name="bert-large", knobs={"model": "bert-large"}, batches=(1, 32)),
    Variant(workload="resnet50", name="resnet50", knobs={}, batches=(1, 64)),
    Variant(
        workload="diffusion", name="sd-1.5", knobs={"model": "sd-1.5", "steps": 20}, batches=(1,),
        prepare_s=6.0,
    ),
    Variant(workload="lstm", name="sentiment", knobs={"model": "sentiment"}, batches=(64,)),
    Variant(workload="lstm", name="large", knobs={"model": "large"}, batches=(64,)),
    Variant(
        workload="detection", name="rtdetr-r50", knobs={"model": "rtdetr-r50"}, batches=(1, 16),
    ),
    Variant(workload="detection", name="yolos-small", knobs={"model": "yolos-small"}, batches=(1,)),
    Variant(workload="whisper", name="base", knobs={"model": "base"}, batches=(1,)),
    Variant(
        workload="whisper", name="large-v3", batches=(1,), prepare_s=5.0,
        knobs={"model": "large-v3", "audio_seconds": 10.0},
    ),
    Variant(
        workload="bloom", name="bloom-560m", knobs={"model": "bloom-560m", **_LANGUAGE},
        batches=(1,), prepare_s=3.0,
    ),
    Variant(workload="char-lm", name="char-lm", knobs=_RANDOM, batches=(16,)),
    Variant(workload="digits-vit", name="digits-vit", knobs=_RANDOM, batches=(64,)),
    Variant(workload="digits-lstm", name="digits-lstm", knobs=_RANDOM, batches=(64,)),
    Variant(workload="digits-diffusion", name="digits-diffusion", knobs=_RANDOM, batches=(32,)),
)  # fmt: skip
"""Workloads as they are commonly run: those that show the limits of the GPU first."""


def chosen(names: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of these workloads or names; all of them without any.

    Raises:
        UnknownNameError: If no workload or variant has such a name; names the closest.
    """
    known = {name for each in VARIANTS for name in (each.workload, each.name)}
    for name in names:
        if name not in known:
            raise unknown_name("workload or variant", name, known)
    return tuple(each for each in VARIANTS if not names or {each.workload, each.name} & {*names})
