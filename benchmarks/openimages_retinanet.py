"""The detector of MLPerf Inference, as a file that the estimator can be asked for.

MLPerf's RetinaNet is none of torchvision's: it stands on a ResNeXt-50 (32x4d) and tells the 264
classes of OpenImages apart, three times the outputs for COCO, on images of 800 x 800 pixels
(mlcommons/inference, vision/classification_and_detection, ``retinanet_resnext50_32x4d_fpn``).

It ends with the thousand best scores of each level and their boxes. Suppression of overlaps looks
at those alone, and how many are left depends on the image.
"""

import torch
from torch import nn

from joulelab.tracing.torchvision_shim import ensure_torchvision

ensure_torchvision()

from torchvision.models.detection.backbone_utils import resnet_fpn_backbone  # noqa: E402
from torchvision.models.detection.retinanet import RetinaNetHead  # noqa: E402
from torchvision.ops.feature_pyramid_network import LastLevelP6P7  # noqa: E402

_IMAGE_SIZE = 800
_NUM_CLASSES = 264
_NUM_ANCHORS = 9
_CHANNELS = 256
_CANDIDATES = 1000


class OpenImagesRetinaNet(nn.Module):
    """Backbone, pyramid, heads and the choice of candidates."""

    unit = "image"

    def __init__(self) -> None:
        super().__init__()
        self.backbone = resnet_fpn_backbone(
            backbone_name="resnext50_32x4d",
            weights=None,
            returned_layers=[2, 3, 4],
            extra_blocks=LastLevelP6P7(_CHANNELS, _CHANNELS),
        )
        self.head = RetinaNetHead(_CHANNELS, _NUM_ANCHORS, _NUM_CLASSES)

    def forward(self, image: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the best scores of each level and their boxes.

        Args:
            image: Of shape ``(n, 3, 800, 800)``.
        """
        found = []
        for features in self.backbone(image).values():
            level = self.head([features])
            scores = torch.sigmoid(level["cls_logits"]).flatten(1)
            best, places = scores.topk(min(_CANDIDATES, scores.shape[1]))
            anchors = (places // _NUM_CLASSES).unsqueeze(-1).expand(-1, -1, 4)
            found.append((best, level["bbox_regression"].gather(1, anchors)))
        return found


def example_inputs(batch: int) -> torch.Tensor:
    """Return ``batch`` images."""
    return torch.empty(batch, 3, _IMAGE_SIZE, _IMAGE_SIZE)
