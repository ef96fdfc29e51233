"""Make torchvision importable beside a PyTorch without CUDA and traceable, and torchao quiet.

The torchvision of the Python package index is built for CUDA, and its compiled half does not load
where PyTorch has none. It then stops at the first operator of that half, and timm and the vision
models of transformers, which import it, stop with it. Its networks need those operators only to
choose boxes, so declaring them is enough to build and trace everything else.

Call :func:`ensure_torchvision` before importing torchvision, timm, diffusers or transformers.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.tracing.gpu_choices import replaced

_SUPPRESSION = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_SCHEMAS = (
    f"nms{_SUPPRESSION}",
    f"qnms{_SUPPRESSION}",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)


@cache
def ensure_torchvision() -> torch.library.Library | None:
    """Make ``import torchvision``, which takes seconds, work if it is installed.

    Returns the declared operators, kept here, or ``None`` where nothing had to be done.
    """
    hush_torchao()
    package = find_spec("torchvision")
    if package is None or _loads_compiled_half(package):
        return None
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    return library


def _loads_compiled_half(package: ModuleSpec) -> bool:
    compiled = PathFinder.find_spec("_C", package.submodule_search_locations)
    if compiled is None or compiled.origin is None:
        return False
    try:
        torch.ops.load_library(compiled.origin)  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return True


_HARMLESS = {
    "torchao": "Failed to load",
    "torchao.kernel.intmm": "Detected no triton",
    "diffusers.quantizers.torchao.torchao_quantizer": "Unable to import",
    "torch._subclasses.fake_tensor": "failed while attempting to run meta",  # raised as well
    "torch.utils._pytree": "is an Enum subclass and is now natively supported",
}


@cache
def hush_torchao() -> None:
    """Drop what torchao logs beside a PyTorch that its kernels are not built for; once per process.

    transformers imports it with its networks wherever it is installed, on every command. What it
    misses are kernels of formats that are not used here.
    """
    for name, phrase in _HARMLESS.items():
        logging.getLogger(name).addFilter(partial(_lacks, phrase))


def _lacks(phrase: str, record: logging.LogRecord) -> bool:
    return phrase not in record.getMessage()


@contextmanager
def everything_survives() -> Generator[None]:
    """Let every box pass every selection of a detection network in a ``with`` block.

    How many boxes pass a threshold is known only with trained weights and an image. Traced is the
    most work that the network's own limits allow: every candidate passes the thresholds and the
    suppression of overlaps, and the limits on proposals (1000) and on detections cut. The
    proposals are shared out evenly over the levels of the feature pyramid. Masks are scaled to the
    whole image, and keypoints are read off the network's own heat maps, since the boxes to which
    torchvision scales both are unknown.
    """
    ensure_torchvision()
    from torchvision.models.detection import roi_heads, transform
    from torchvision.ops import boxes, poolers

    with ExitStack() as stack:
        for module, name, replacement in (
            (boxes, "_assert_has_ops", lambda: None),
            (boxes, "_batched_nms_vanilla", boxes._batched_nms_coordinate_trick),  # noqa: SLF001
            (poolers, "_multiscale_roi_align", _shared_out_roi_align),
            (transform, "paste_masks_in_image", _masks_on_image),
            (roi_heads, "heatmaps_to_keypoints", _keypoints),
        ):
            stack.enter_context(replaced(module, name, replacement))
        stack.enter_context(_Selections())  # type: ignore[no-untyped-call]
        yield


class _Selections(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers operators whose result is as long as their data say, as if all were selected."""

    @override
    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        match func.overloadpacket._qualified_op_name:  # noqa: SLF001
            case "aten::nonzero":
                return args[0].new_empty((args[0].numel(), args[0].dim()), dtype=torch.long)
            case "torchvision::nms":
                return args[0].new_empty((args[0].shape[0],), dtype=torch.long)
            case "torchvision::roi_align":
                features, regions, _, height, width = args[:5]
                return features.new_empty((len(regions), features.shape[1], height, width))
            case "aten::index" if _is_mask(args[1][0]):
                source, (mask, *_) = args[:2]
                return source.new_empty((mask.numel(), *source.shape[mask.dim() :]))
        return func(*args, **(kwargs or {}))


def _is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _shared_out_roi_align(  # noqa: PLR0917  # torchvision's order
    x_filtered: list[torch.Tensor],
    boxes: list[torch.Tensor],
    output_size: tuple[int, int],
    sampling_ratio: int,
    scales: list[float],
    mapper: object,
) -> torch.Tensor:
    from torchvision.ops import poolers

    del mapper  # sends large boxes to coarse levels; their sizes are unknown
    regions = poolers._convert_to_roi_format(boxes)  # noqa: SLF001
    parts = regions.tensor_split(len(x_filtered))
    pooled = [
        torch.ops.torchvision.roi_align(features, part, scale, *output_size, sampling_ratio, False)
        for features, part, scale in zip(x_filtered, parts, scales, strict=True)
    ]
    return torch.cat(pooled)


def _masks_on_image(
    masks: torch.Tensor, boxes: torch.Tensor, img_shape: tuple[int, int], padding: int = 1
) -> torch.Tensor:
    del boxes, padding
    return torch.nn.functional.interpolate(masks, size=img_shape, mode="bilinear")


def _keypoints(maps: torch.Tensor, rois: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    del rois
    scores, places = maps.flatten(2).max(dim=-1)
    rows, columns = places // maps.shape[-1], places % maps.shape[-1]
    return torch.stack((columns, rows, torch.ones_like(rows)), dim=-1).to(maps.dtype), scores
