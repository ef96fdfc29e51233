"""Scores of images, classes and objects, by torchmetrics."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from joulelab.errors import ConfigError
from joulelab.quality.base import Boxes, FloatArray, IntArray
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads import accelerator, hub

ensure_torchvision()  # torchmetrics imports it

from torchmetrics.detection import MeanAveragePrecision  # noqa: E402
from torchmetrics.functional.classification import multiclass_accuracy  # noqa: E402
from torchmetrics.functional.image import structural_similarity_index_measure  # noqa: E402
from torchmetrics.functional.multimodal import clip_score  # noqa: E402
from torchmetrics.image.fid import FrechetInceptionDistance  # noqa: E402
from torchmetrics.image.lpip import LearnedPerceptualImagePatchSimilarity  # noqa: E402

from transformers import CLIPModel, CLIPProcessor  # isort: skip  # noqa: E402  # after hub

_ALEXNET = "alexnet-owt-7be5be79.pth"
_THRESHOLDS = {"0.5:0.95": None, "0.5": [0.5], "0.75": [0.75]}


def structural_similarities(
    images: FloatArray, references: FloatArray, sigma_px: float
) -> list[float]:
    """Return the structural similarity of each image to its reference, both from 0 to 1."""
    found: torch.Tensor = structural_similarity_index_measure(  # type: ignore[assignment]
        _tensor(images), _tensor(references), sigma=sigma_px, data_range=1.0, reduction="none"
    )
    return [float(value) for value in found.flatten()]


def perceptual_distances(images: FloatArray, references: FloatArray, weights: str) -> list[float]:
    """Return the LPIPS distance of each image to its reference, (n, 3, height, width), 0 to 1.

    ``weights`` is the file with AlexNet's.
    """
    device = accelerator.select_device()
    with _as_downloaded(weights, _ALEXNET):
        judge: Any = LearnedPerceptualImagePatchSimilarity("alex", normalize=True).to(device)
    pairs = zip(_tensor(images).to(device), _tensor(references).to(device), strict=True)
    with accelerator.computing("fp32"):
        return [float(judge(image[None], reference[None])) for image, reference in pairs]


def inception_distance(
    images: Sequence[FloatArray], real: Sequence[FloatArray], weights: str
) -> float:
    """Return the Frechet Inception distance between sets of images of three channels, 0 to 1.

    ``weights`` is the file with those of the Inception network.
    """
    device = accelerator.select_device()
    distance: Any = FrechetInceptionDistance(normalize=True, feature_extractor_weights_path=weights)
    distance.to(device)
    with accelerator.computing("fp32"):
        for are_real, which in ((True, real), (False, images)):
            for image in which:
                distance.update(_tensor(image[None]).to(device), real=are_real)
    return float(distance.compute())


def feature_distances(sets: Iterable[FloatArray], real: FloatArray) -> list[float]:
    """Return the Frechet distance of each set of features, shape (n, features), to ``real``."""
    judge = _AreFeatures(real.shape[1])
    distance: Any = FrechetInceptionDistance(feature=judge, reset_real_features=False)
    distance.update(torch.from_numpy(real.astype(np.float64)), real=True)
    return [_feature_distance(distance, features) for features in sets]


def _feature_distance(distance: Any, features: FloatArray) -> float:
    distance.reset()
    distance.update(torch.from_numpy(features.astype(np.float64)), real=False)
    return max(float(distance.compute()), 0.0)  # rounding of what is equal


def prompt_similarities(images: FloatArray, prompts: Sequence[str], weights: str) -> list[float]:
    """Return the CLIP score of each image, (n, 3, height, width) from 0 to 1, and its prompt.

    ``weights`` is the folder or hub id of the CLIP network. Raises ConfigError if it cannot be
    read.
    """
    device = accelerator.select_device()
    network = _Features(hub.pretrained_model(CLIPModel, weights, torch.float32, device))
    with hub.reading(weights):
        processor = CLIPProcessor.from_pretrained(weights)
    seen = (_tensor(images) * 255).round().byte().to(device)
    with accelerator.computing("fp32"):
        return [
            float(clip_score(image, prompt, lambda: (network, processor)))  # type: ignore[arg-type,return-value]
            for image, prompt in zip(seen, prompts, strict=True)
        ]


def correct(class_scores: FloatArray, labels: IntArray, top: int) -> list[float]:
    """Return 1 for each input whose label is among its ``top`` likeliest classes, else 0."""
    scores, targets = _tensor(class_scores), torch.from_numpy(labels.astype(np.int64))
    num_classes = scores.shape[1]
    return [
        float(multiclass_accuracy(row[None], target[None], num_classes, "micro", top))
        for row, target in zip(scores, targets, strict=True)
    ]


def average_precision(found: Sequence[Boxes], real: Sequence[Boxes], overlap: str) -> float:
    """Return the mean average precision of what was found in each image.

    ``overlap`` is the intersection over union that counts: ``"0.5:0.95"``, ``"0.5"`` or ``"0.75"``.
    """
    precision: Any = MeanAveragePrecision(
        iou_thresholds=_THRESHOLDS[overlap], backend="faster_coco_eval"
    )
    precision.update([_fields(each) for each in found], [_fields(each) for each in real])
    return float(precision.compute()["map"])


class _Features(torch.nn.Module):
    """A CLIP network as torchmetrics expects it: it gives features alone.

    Since its version 5 transformers wraps them (seen with torchmetrics 1.9).
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self._network = network
        self.config = network.config

    def get_image_features(self, *args: Any, **kwargs: Any) -> Any:
        """Return the projected features of images."""
        return self._network.get_image_features(*args, **kwargs).pooler_output

    def get_text_features(self, *args: Any, **kwargs: Any) -> Any:
        """Return the projected features of texts."""
        return self._network.get_text_features(*args, **kwargs).pooler_output


class _AreFeatures(torch.nn.Module):
    """Stands where torchmetrics expects a network that makes features: they are made already."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features


@contextmanager
def _as_downloaded(weights: str, name: str) -> Generator[None]:
    """Let torchvision find the file ``weights`` where it would have downloaded ``name`` to."""
    usual = torch.hub.get_dir()
    with TemporaryDirectory() as folder:
        place = Path(folder) / "checkpoints" / name
        place.parent.mkdir()
        place.symlink_to(Path(weights).expanduser().resolve())
        torch.hub.set_dir(folder)
        try:
            yield
        except (RuntimeError, TypeError) as error:
            raise ConfigError(
                f"weights must be a file with AlexNet's state, got {weights!r}. "
                f"{' '.join(str(error).split())}"
            ) from error
        finally:
            torch.hub.set_dir(usual)


def _fields(boxes: Boxes) -> dict[str, torch.Tensor]:
    fields = {
        "boxes": _tensor(boxes.corners_px),
        "labels": torch.from_numpy(boxes.labels.astype(np.int64)),
    }
    if boxes.crowds is not None:
        fields["iscrowd"] = torch.from_numpy(boxes.crowds.astype(np.int64))
    return fields if boxes.scores is None else {**fields, "scores": _tensor(boxes.scores)}


def _tensor(array: FloatArray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
