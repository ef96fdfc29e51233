"""YOLOv5 and YOLOv8 as their release configurations define them, without weights.

Layers, widths and repeats are those of ``yolov5{n,s,m,l,x}.yaml`` (release 6.0) and ``yolov8.yaml``
of Ultralytics; the code is joulelab's own. Boxes are decoded; overlaps are not suppressed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

_OBJECTS = 80  # of COCO
_STRIDES = (8, 16, 32)
_ANCHORS = 3  # of YOLOv5, per place
_BINS = 16  # of YOLOv8, of the distance to each side of a box


class Scale(NamedTuple):
    """Factors of repeats and widths, and the widest layer before the factor."""

    depth: float
    width: float
    widest: int = 1024


SCALES: Mapping[str, Scale] = {
    "yolov5n": Scale(0.33, 0.25),
    "yolov5s": Scale(0.33, 0.50),
    "yolov5m": Scale(0.67, 0.75),
    "yolov5l": Scale(1.0, 1.0),
    "yolov5x": Scale(1.33, 1.25),
    "yolov8n": Scale(0.33, 0.25),
    "yolov8s": Scale(0.33, 0.50),
    "yolov8m": Scale(0.67, 0.75, 768),
    "yolov8l": Scale(1.0, 1.0, 512),
    "yolov8x": Scale(1.0, 1.25, 512),
}


def _conv(
    before: int, after: int, size: int = 1, stride: int = 1, pad: int | None = None
) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, size, stride, size // 2 if pad is None else pad, bias=False),
        nn.BatchNorm2d(after, eps=1e-3),
        nn.SiLU(inplace=True),
    )


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, first: int, *, adds: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(_conv(channels, channels, first), _conv(channels, channels, 3))
        self.adds = adds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return x + found if self.adds else found


class _C3(nn.Module):
    """YOLOv5's stage: a chain of bottlenecks beside a shortcut."""

    def __init__(self, before: int, after: int, repeats: int, *, adds: bool) -> None:
        super().__init__()
        half = after // 2
        self.into, self.beside = _conv(before, half), _conv(before, half)
        self.chain = nn.Sequential(*(_Bottleneck(half, 1, adds=adds) for _ in range(repeats)))
        self.out = _conv(2 * half, after)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(torch.cat((self.chain(self.into(x)), self.beside(x)), 1))
        return found


class _C2f(nn.Module):
    """YOLOv8's stage: what every bottleneck of the chain makes is kept."""

    def __init__(self, before: int, after: int, repeats: int, *, adds: bool) -> None:
        super().__init__()
        half = after // 2
        self.into = _conv(before, 2 * half)
        self.chain = nn.ModuleList(_Bottleneck(half, 3, adds=adds) for _ in range(repeats))
        self.out = _conv((2 + repeats) * half, after)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = list(self.into(x).chunk(2, 1))
        for each in self.chain:
            kept.append(each(kept[-1]))
        found: torch.Tensor = self.out(torch.cat(kept, 1))
        return found


class _Pyramid(nn.Module):
    """Spatial pyramid pooling, by one small pooling three times."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.into, self.out = _conv(channels, half), _conv(4 * half, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.into(x)]
        for _ in range(3):
            kept.append(self.pool(kept[-1]))
        found: torch.Tensor = self.out(torch.cat(kept, 1))
        return found


def _grid(features: torch.Tensor) -> torch.Tensor:
    """Return the centres of the places of a map, as (2, height, width)."""
    height, width = features.shape[-2:]
    rows = torch.arange(height, dtype=features.dtype, device=features.device) + 0.5
    columns = torch.arange(width, dtype=features.dtype, device=features.device) + 0.5
    return torch.stack(torch.meshgrid(columns, rows, indexing="xy"))


class _Detect5(nn.Module):
    """Boxes about anchors."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        numbers = _ANCHORS * (5 + _OBJECTS)
        self.heads = nn.ModuleList(nn.Conv2d(width, numbers, 1) for width in widths)
        self.anchors: torch.Tensor
        self.register_buffer("anchors", torch.ones(len(widths), _ANCHORS, 2))

    def forward(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        found = []
        for level, (head, features) in enumerate(zip(self.heads, maps, strict=True)):
            count, _, height, width = features.shape
            raw = head(features).view(count, _ANCHORS, 5 + _OBJECTS, height, width)
            middle, size, others = (
                raw.permute(0, 1, 3, 4, 2).contiguous().sigmoid().split((2, 2, 1 + _OBJECTS), 4)
            )
            middle = (2 * middle + _grid(features).permute(1, 2, 0) - 1) * _STRIDES[level]
            size = (2 * size) ** 2 * self.anchors[level].view(_ANCHORS, 1, 1, 2)
            found.append(torch.cat((middle, size, others), 4).view(count, -1, 5 + _OBJECTS))
        return torch.cat(found, 1)


class _Detect8(nn.Module):
    """Boxes by the distances of their sides, each the mean of a distribution over bins."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        box, name = max(16, widths[0] // 4, 4 * _BINS), max(widths[0], min(_OBJECTS, 100))
        self.boxes = nn.ModuleList(_head(width, box, 4 * _BINS) for width in widths)
        self.names = nn.ModuleList(_head(width, name, _OBJECTS) for width in widths)
        self.mean = nn.Conv2d(_BINS, 1, 1, bias=False).requires_grad_(False)

    def forward(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        heads = zip(self.boxes, self.names, maps, strict=True)
        found = torch.cat([torch.cat((a(x), b(x)), 1).flatten(2) for a, b, x in heads], 2)
        sides, scores = torch.split(found, [4 * _BINS, _OBJECTS], 1)
        bins = sides.view(len(sides), 4, _BINS, -1).transpose(2, 1).softmax(1)
        near, far = self.mean(bins).view(len(sides), 4, -1).chunk(2, 1)
        centres = torch.cat([_grid(x).flatten(1) for x in maps], 1)
        strides = torch.cat(
            [
                x.new_full((x[0, 0].numel(),), stride)
                for x, stride in zip(maps, _STRIDES, strict=True)
            ]
        )
        first, last = centres - near, centres + far
        boxes = torch.cat(((first + last) / 2, last - first), 1) * strides
        return torch.cat((boxes, scores.sigmoid()), 1)


def _head(width: int, inner: int, numbers: int) -> nn.Module:
    return nn.Sequential(
        _conv(width, inner, 3), _conv(inner, inner, 3), nn.Conv2d(inner, numbers, 1)
    )


class Yolo(nn.Module):
    """A YOLO of version 5 or 8: backbone, top-down and bottom-up paths, heads at three strides."""

    def __init__(self, name: str) -> None:
        super().__init__()
        scale, is_v5 = SCALES[name], name.startswith("yolov5")
        w = [
            -(-int(min(full, scale.widest) * scale.width) // 8) * 8
            for full in (64, 128, 256, 512, 1024)
        ]
        stage: Callable[..., nn.Module] = _C3 if is_v5 else _C2f
        repeats = [max(round(n * scale.depth), 1) for n in (3, 6, 9 if is_v5 else 6, 3)]
        few = repeats[0]
        stem = _conv(3, w[0], 6, 2, 2) if is_v5 else _conv(3, w[0], 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(_conv(a, b, 3, 2), stage(b, b, n, adds=True))
            for a, b, n in zip(w, w[1:], repeats, strict=False)
        )
        self.stages[0] = nn.Sequential(stem, *self.stages[0].children())
        self.pool = _Pyramid(w[4])
        # YOLOv5 narrows a map before it goes down the pyramid, YOLOv8 does not.
        self.narrow = nn.ModuleList(
            _conv(a, b) if is_v5 else nn.Identity() for a, b in ((w[4], w[3]), (w[3], w[2]))
        )
        high, middle = (w[3], w[2]) if is_v5 else (w[4], w[3])
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.down_path = nn.ModuleList(
            [stage(high + w[3], w[3], few, adds=False), stage(middle + w[2], w[2], few, adds=False)]
        )
        self.shrink = nn.ModuleList([_conv(w[2], w[2], 3, 2), _conv(w[3], w[3], 3, 2)])
        self.up_path = nn.ModuleList(
            [
                stage(w[2] + middle, w[3], few, adds=False),
                stage(w[3] + high, w[4], few, adds=False),
            ]
        )
        self.detect = (_Detect5 if is_v5 else _Detect8)(w[2:])

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return boxes and scores of every place, decoded, before overlaps are suppressed."""
        maps = [image]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        coarse = self.narrow[0](self.pool(maps[-1]))
        middle = self.narrow[1](self.down_path[0](torch.cat((self.up(coarse), maps[-2]), 1)))
        fine = self.down_path[1](torch.cat((self.up(middle), maps[-3]), 1))
        half = self.up_path[0](torch.cat((self.shrink[0](fine), middle), 1))
        last = self.up_path[1](torch.cat((self.shrink[1](half), coarse), 1))
        found: torch.Tensor = self.detect((fine, half, last))
        return found
