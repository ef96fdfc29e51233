"""Images with objects in them, as COCO describes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from joulelab.errors import ConfigError
from joulelab.quality.image_data import DetectionData
from joulelab.quality.image_files import image_paths, images_at, pink_images
from joulelab.quality.image_protocols import Boxes

_NUM, _SIDE_PX = 16, 256


def read_detection_images(source: str | None) -> DetectionData:
    """Read images, and the objects in them if those are known.

    Args:
        source: A folder with images and, if objects are known, one .json file of COCO's form
            (images, annotations, categories); ``None`` for generated images.

    Raises:
        ConfigError: If it cannot be read.
    """
    if source is None:
        return DetectionData(name="generated images", images=pink_images(_NUM, _SIDE_PX))
    folder = Path(source)
    found = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if len(found) > 1 or not folder.is_dir():
        raise ConfigError(
            f"data must be a folder with images and at most one .json file, got {source!r}."
        )
    if found:
        return _described(folder, found[0])
    return DetectionData(name=folder.name, images=images_at(image_paths(folder)))


def _described(folder: Path, file: Path) -> DetectionData:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        named = {each["id"]: each["file_name"] for each in told["images"]}
        objects = [_objects(told["annotations"], number) for number in named]
        classes = {str(each["name"]): int(each["id"]) for each in told["categories"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is not of COCO's form: {error!r}.") from error
    images = images_at([folder / name for name in named.values()])
    return DetectionData(name=folder.name, images=images, objects=objects, classes=classes)


def _objects(annotations: list[Mapping[str, Any]], image: object) -> Boxes:
    """Return the boxes of an image, without those that stand for crowds."""
    own = [a for a in annotations if a["image_id"] == image and not a.get("iscrowd")]
    boxes = np.array([each["bbox"] for each in own], dtype=np.float64).reshape(-1, 4)
    left_top, width_height = boxes[:, :2], boxes[:, 2:]
    return Boxes(
        corners_px=np.hstack([left_top, left_top + width_height]),
        labels=np.array([each["category_id"] for each in own], dtype=np.int64),
    )
