"""Trace detection networks, whose shapes depend on how many boxes survive.

How many boxes pass a threshold is known only with trained weights and an image. Traced is the
most work that the network's own limits allow: every candidate passes the thresholds and the
suppression of overlaps, and the limits on proposals (1000) and on detections cut. The
proposals are shared out evenly over the levels of the feature pyramid. Masks are scaled to the
whole image, and keypoints are read off the network's own heat maps, since the boxes to which
torchvision scales both are unknown.

Imports torch, so it is imported only by functions that trace a model.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.estimator.tracing.replacing import replaced
from joulelab.estimator.tracing.torchvision_shim import ensure_torchvision

ensure_torchvision()

from torchvision.models.detection import roi_heads, transform  # noqa: E402
from torchvision.ops import boxes, poolers  # noqa: E402


def detect(network: Any, inputs: Mapping[str, torch.Tensor]) -> object:
    """Call a detection network of torchvision with a list of images."""
    return network(list(inputs["image"].unbind()))


def limit_detections(network: torch.nn.Module, detections: int) -> None:
    """Let ``network`` return ``detections`` per image."""
    for part in network.modules():
        if hasattr(part, "detections_per_img"):
            part.detections_per_img = detections  # type: ignore[assignment]


@contextmanager
def everything_survives() -> Generator[None]:
    """Let every box pass every selection in a ``with`` block, on fake tensors."""
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
