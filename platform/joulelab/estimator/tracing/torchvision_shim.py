"""Make torchvision importable beside a PyTorch without CUDA.

The torchvision of the Python package index is built for CUDA, and its compiled half does not load
where PyTorch has none. It then stops at the first operator of that half, and timm and the vision
models of transformers, which import it, stop with it. Its networks need those operators only to
choose boxes, so declaring them is enough to build and trace everything else.

Call :func:`ensure_torchvision` before importing torchvision, timm, diffusers or transformers.
Imports torch, so it is imported only by modules that build networks.
"""

import sys
from functools import cache

import torch

from joulelab.estimator.tracing.torchao_messages import hush_torchao

_SUPPRESSION = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_SCHEMAS = (
    f"nms{_SUPPRESSION}",
    f"qnms{_SUPPRESSION}",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)


@cache
def ensure_torchvision() -> torch.library.Library | None:
    """Make ``import torchvision`` work if it is installed; once per process.

    Returns:
        The declared operators, which last as long as this object, kept here; ``None`` where the
        compiled half loads by itself or torchvision is not installed, and nothing was done.
    """
    hush_torchao()
    try:
        import torchvision
    except ModuleNotFoundError:
        return None
    except (ImportError, RuntimeError):
        _forget("torchvision")
        declared = _declare_operators()
        import torchvision  # noqa: F401

        return declared
    return None


def _forget(package: str) -> None:
    """Drop the modules that a failed import left behind."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def _declare_operators() -> torch.library.Library:
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    return library
