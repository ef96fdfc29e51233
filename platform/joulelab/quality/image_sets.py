"""Data sets of images, prompts, classes and objects, as studies name them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from joulelab.errors import ConfigError
from joulelab.quality.base import Boxes, hub_rows
from joulelab.quality.image_data import (
    DetectionData,
    ImageData,
    LabelledData,
    hub_images,
    image_paths,
    images_at,
    pink_images,
)
from joulelab.quality.text_data import file_text, json_rows

_PROMPTS = (
    "a red apple on a wooden table",
    "a lighthouse on a rock in a storm",
    "two children who fly a kite on the beach",
    "a narrow street of an old town at night",
    "a brown dog asleep beside a fire",
    "a bowl of rice with vegetables, seen from above",
    "mountains behind a lake in the early morning",
    "an old man who reads a newspaper on a bench",
    "a yellow tram that climbs a steep hill",
    "a glass of water on a window sill, drawn in pencil",
    "a field of sunflowers under dark clouds",
    "a small robot that waters plants in a greenhouse",
)
_COLUMNS = ("prompt", "text", "caption")
_NUM_INPUTS = 64
_SIDE_PX = 256
_TOKENS = 128
_WORDS = 40  # longer than that
_SEED = 2000
_NUM_SCENES = 16


def read_prompts(source: str | None) -> ImageData:
    """Read prompts, and real images if there are any; ConfigError if they cannot be read.

    A folder, or a file, holds prompts: lines of text (``.txt``), or lines of JSON (``.jsonl``) with
    a prompt. The images in the folder and below it are real ones, of whatever they show. A data set
    of the hub has a column prompt, text or caption, and may have a column image. ``None`` is a
    dozen prompts that come with this package, without images.
    """
    if source is None:
        return ImageData(name="a dozen prompts", prompts=_PROMPTS)
    path = Path(source)
    if path.exists():
        return _of_path(path)
    rows = hub_rows(source)
    column = next((name for name in _COLUMNS if rows and name in rows[0]), None)
    if column is None:
        raise ConfigError(
            f"A data set of prompts has a column {', '.join(_COLUMNS[:-1])} or {_COLUMNS[-1]}, "
            f"which {source} lacks."
        )
    images = hub_images(rows, source) if "image" in rows[0] else ()
    return ImageData(name=source, prompts=tuple(str(row[column]) for row in rows), images=images)


def _of_path(path: Path) -> ImageData:
    files = [path] if path.is_file() else sorted(path.iterdir())
    prompts = [prompt for file in files for prompt in _prompts_in(file)]
    if not prompts:
        raise ConfigError(
            f"data must hold prompts, as lines of a .txt file or of a .jsonl file with a prompt "
            f"each; {path} has none."
        )
    images = images_at(image_paths(path)) if path.is_dir() else ()
    return ImageData(name=path.name, prompts=tuple(prompts), images=images)


def _prompts_in(file: Path) -> Iterator[str]:
    if file.suffix == ".txt":
        yield from filter(str.strip, file_text(file).splitlines())
    elif file.suffix == ".jsonl":
        yield from (str(row["prompt"]) for row in json_rows(file, ("prompt",)))


def read_class_images(source: str | None) -> LabelledData:
    """Read images, with their classes if those are known; ConfigError if they cannot be read.

    A folder holds images, or a folder of images for each class. Classes are numbered in the order
    of their folders' names, as torchvision's ImageFolder and ImageNet do, or by those names if all
    are numbers. A data set of the hub has columns image and, if classes are known, label. ``None``
    is generated images.
    """
    if source is None:
        return LabelledData(name="generated images", inputs=pink_images(_NUM_INPUTS, _SIDE_PX))
    folder = Path(source)
    if folder.is_dir():
        return _of_folder(folder)
    rows = hub_rows(source)
    labels = [row.get("label") for row in rows]
    known = np.array(labels, dtype=np.int64) if None not in labels else None
    return LabelledData(name=source, inputs=hub_images(rows, source), labels=known)


def read_tokens(source: str | None) -> LabelledData:
    """Read sequences of token ids, with their classes if known.

    A file of numpy (.npz) holds inputs, shape (n, tokens), and labels, shape (n,), if they are
    known; ``None`` is the bytes of generated texts. Raises ConfigError if they cannot be read.
    """
    if source is None:
        return LabelledData(name="generated texts", inputs=_bytes_of_texts(), counted="sequence")
    try:
        with np.load(source, allow_pickle=False) as arrays:
            inputs, labels = arrays["inputs"], arrays.get("labels")
    except (OSError, ValueError, KeyError, AttributeError, BadZipFile) as error:
        raise ConfigError(
            "data must be a .npz file with inputs (token ids) and, if they are known, labels, "
            f"got {source!r}. {error}"
        ) from error
    if inputs.ndim != 2 or not np.issubdtype(inputs.dtype, np.integer):
        raise ConfigError(
            f"inputs must be whole numbers of shape (n, tokens), got {inputs.dtype} of shape "
            f"{inputs.shape} in {source!r}."
        )
    name = Path(source).name
    return LabelledData(name=name, inputs=inputs, labels=labels, counted="sequence")


def _bytes_of_texts() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    from joulelab.workloads.char_lm import generated_text

    texts = [generated_text(_WORDS, _SEED + index) for index in range(_NUM_INPUTS)]
    return np.array([list(text.encode()[:_TOKENS]) for text in texts], dtype=np.int64)


def _of_folder(folder: Path) -> LabelledData:
    paths = image_paths(folder)
    if not paths:
        raise ConfigError(f"data must be a folder with images, and {folder} has none.")
    classes = sorted({path.parent.name for path in paths if path.parent != folder})
    labels = None
    if classes:
        if any(path.parent.parent != folder for path in paths):
            raise ConfigError(
                f"A folder of classes holds a folder of images for each and nothing else; {folder} "
                "has images elsewhere."
            )
        numbers = _numbers(classes)
        labels = np.array([numbers[path.parent.name] for path in paths], dtype=np.int64)
    return LabelledData(name=folder.name, inputs=images_at(paths), labels=labels)


def _numbers(classes: list[str]) -> dict[str, int]:
    if all(name.isdecimal() for name in classes):
        return {name: int(name) for name in classes}
    return {name: number for number, name in enumerate(classes)}


def read_detection_images(source: str | None) -> DetectionData:
    """Read images, and the objects in them if those are known.

    A folder holds images and, if objects are known, one .json file of COCO's form (images,
    annotations, categories); ``None`` is generated images. Raises ConfigError if they cannot be
    read.
    """
    if source is None:
        return DetectionData(name="generated images", images=pink_images(_NUM_SCENES, _SIDE_PX))
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
        described = json.loads(file_text(file))
        named = {each["id"]: each["file_name"] for each in described["images"]}
        objects = [_objects(described["annotations"], number) for number in named]
        classes = {str(each["name"]): int(each["id"]) for each in described["categories"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is not of COCO's form: {error!r}.") from error
    images = images_at([folder / name for name in named.values()])
    return DetectionData(name=folder.name, images=images, objects=objects, classes=classes)


def _objects(annotations: list[Mapping[str, Any]], image: object) -> Boxes:
    """Return the boxes of an image, those that stand for crowds among them."""
    own = [each for each in annotations if each["image_id"] == image]
    boxes = np.array([each["bbox"] for each in own], dtype=np.float64).reshape(-1, 4)
    left_top, width_height = boxes[:, :2], boxes[:, 2:]
    return Boxes(
        corners_px=np.hstack([left_top, left_top + width_height]),
        labels=np.array([each["category_id"] for each in own], dtype=np.int64),
        crowds=np.array([each.get("iscrowd", 0) for each in own], dtype=np.int64),
    )
