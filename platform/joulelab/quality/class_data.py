"""Inputs to tell classes of: images in folders by class, token ids in arrays."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from joulelab.errors import ConfigError
from joulelab.quality.hub_rows import hub_rows
from joulelab.quality.image_data import LabelledData
from joulelab.quality.image_files import hub_images, image_paths, images_at, pink_images

_NUM = 64
_SIDE_PX = 256
_TOKENS = 128
_WORDS = 40  # longer than that
_SEED = 2000


def read_class_images(source: str | None) -> LabelledData:
    """Read images, with their classes if those are known.

    A folder holds images, or a folder of images for each class. Classes are numbered in the
    order of their folders' names, as torchvision's ImageFolder and ImageNet do, or by those names
    if all are numbers. A data set of the hub has columns image and, if classes are known, label.

    Args:
        source: A folder, or the id of a data set on the hub; ``None`` for generated images.

    Raises:
        ConfigError: If it cannot be read.
    """
    if source is None:
        return LabelledData(name="generated images", inputs=pink_images(_NUM, _SIDE_PX))
    folder = Path(source)
    if folder.is_dir():
        return _of_folder(folder)
    rows = hub_rows(source)
    labels = [row.get("label") for row in rows]
    known = np.array(labels, dtype=np.int64) if None not in labels else None
    return LabelledData(name=source, inputs=hub_images(rows, source), labels=known)


def read_tokens(source: str | None) -> LabelledData:
    """Read sequences of token ids, with their classes if those are known.

    Args:
        source: A file of numpy (.npz) with inputs, shape (n, tokens), and labels, shape (n,), if
            they are known; ``None`` for the bytes of generated texts.

    Raises:
        ConfigError: If it cannot be read.
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
    from joulelab.workloads import generated_language

    texts = [generated_language.text(_WORDS, _SEED + index) for index in range(_NUM)]
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
