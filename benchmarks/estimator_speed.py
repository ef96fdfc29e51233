"""How fast the estimator answers, and what it counts against what is documented.

Usage: python benchmarks/run.py estimator_speed
"""

import json
import subprocess
import sys
import time
from statistics import median

from figures import Figure

from joulelab.estimator.models import find_model, trace_model
from joulelab.estimator.pricing.predict import totals
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.fusion import fused
from joulelab.tracing.precision import supports
from joulelab.tracing.program import MATRIX_KINDS

_TRACE = """
import json, resource, time
from joulelab.tracing.program import MATRIX_KINDS
from joulelab.estimator.models import find_model, trace_model
trace_model("resnet18", batch=1, precision="{precision}")
times_s = []
for batch in {batches}:
    begun_s = time.perf_counter()
    trace_model("{model}", batch=batch, precision="{precision}")
    times_s.append(time.perf_counter() - begun_s)
peak_b = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([times_s, peak_b]))
"""
_BATCHES = (1, 2, 4, 8, 16, 32)
_PRECISIONS = ("fp32", "fp16", "bf16", "int8")
_DEVICES = (
    *(key for key, processor in PROCESSORS.items() if processor.family == "gpu"),
    *("xeon_8490h", "epyc_9654", "altra_max_m128_30", "tpu_v4", "tpu_v5e"),
)
_GROUPS = {"resnet18": 23, "resnet50": 56, "mobilenet_v2": 54, "vgg16": 22}


def figures() -> list[Figure]:
    """Return the figures."""
    return [*_tracing(), *_matrices(), *_counts()]


def _tracing() -> list[Figure]:
    resnet_s, _ = _traced_s("resnet50", "fp16")
    llama_s, llama_b = _traced_s("llama-2-7b", "bf16")
    return [
        Figure(
            name="trace ResNet-50",
            measured=resnet_s,
            promised=0.5,
            unit="s",
            how="median of three batch sizes in a warm process",
        ),
        Figure(
            name="trace Llama-2-7B, one program of two",
            measured=llama_s / 3,
            promised=1.5,
            unit="s",
            how="a prefill and a decode at its first and last step are three programs",
        ),
        Figure(
            name="memory while tracing Llama-2-7B",
            measured=llama_b / 2**30,
            promised=1.0,
            unit="GiB",
            how="largest resident size of the whole process, libraries included",
        ),
    ]


def _traced_s(model: str, precision: str) -> tuple[float, float]:
    """Median time to trace ``model`` in a process of its own, and that process's memory."""
    code = _TRACE.format(model=model, precision=precision, batches=(1, 2, 3))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    times_s, peak_b = json.loads(done.stdout.splitlines()[-1])
    return median(times_s), peak_b


def _matrices() -> list[Figure]:
    found = []
    for model in ("resnet50", "llama-2-7b"):
        begun_s = time.perf_counter()
        num_cells = _matrix(model)
        found.append(
            Figure(
                name=f"{model} x {len(_DEVICES)} devices x 4 precisions x 6 batches",
                measured=time.perf_counter() - begun_s,
                promised=30.0,
                unit="s",
                how=f"{num_cells} cells whose device has the precision, tracing included",
            )
        )
    return found


def _matrix(model: str) -> int:
    num_cells = 0
    for precision in _PRECISIONS:
        processors = [PROCESSORS[key] for key in _DEVICES]
        able = [processor for processor in processors if supports(precision, processor)]
        for batch in _BATCHES:
            totals(trace_model(model, batch=batch, precision=precision), able)
            num_cells += len(able)
    return num_cells


def documented_flop(name: str, image_size: int) -> float | None:
    """Return the operations that torchvision documents for one sample at ``image_size``.

    A multiplication and an addition count two; torchvision counts them one. ``None`` if none are
    documented for that size.
    """
    import torchvision.models as zoo

    for weights in zoo.get_model_weights(name):
        crop = getattr(weights.transforms, "keywords", {}).get("crop_size")
        side = crop[0] if isinstance(crop, tuple | list) else crop
        if side in (None, image_size) and "_ops" in weights.meta:
            return 2e9 * float(weights.meta["_ops"])
    return None


def _counts() -> list[Figure]:
    from joulelab.estimator.models.image_sources import TorchvisionSource

    misses = []
    for name in TorchvisionSource().names():
        documented = documented_flop(name, find_model(name).knobs.get("image_size", 224))
        if documented is not None and abs(_matrix_flop(name) / documented - 1) > 0.01:
            misses.append(f"{name} {_matrix_flop(name) / documented:.3f}")
    wrong = [name for name, number in _GROUPS.items() if _num_groups(name) != number]
    return [
        Figure(
            name="torchvision networks more than 1 % off their documented operations",
            measured=len(misses),
            promised=10,
            unit=f"of {len(TorchvisionSource().names())}",
            how=", ".join(misses) or "none",
        ),
        Figure(
            name="networks whose fused kernels are not as many as their layers",
            measured=len(wrong),
            promised=0,
            unit=f"of {len(_GROUPS)}",
            how=", ".join(f"{name} {number}" for name, number in _GROUPS.items()),
        ),
    ]


def _matrix_flop(name: str) -> float:
    """Operations of products and convolutions, which are those that torchvision documents."""
    (phase,) = trace_model(name, batch=1, precision="fp32").phases
    return sum(op.flop for op in phase.program.operators if op.kind in MATRIX_KINDS)


def _num_groups(name: str) -> int:
    (phase,) = trace_model(name, batch=1, precision="fp32").phases
    return len(fused(phase.program))
