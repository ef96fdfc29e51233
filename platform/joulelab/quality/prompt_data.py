"""Prompts of a study, and the real images that drawn ones are compared with."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from joulelab.errors import ConfigError
from joulelab.quality.hub_rows import hub_rows
from joulelab.quality.image_data import ImageData
from joulelab.quality.image_files import hub_images, image_paths, images_at

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


def read_prompts(source: str | None) -> ImageData:
    """Read prompts, and real images if there are any.

    A folder, or a file, holds prompts: lines of text (``.txt``), or lines of JSON (``.jsonl``)
    with a prompt. The images in the folder and below it are real ones, of whatever they show. A
    data set of the hub has a column prompt, text or caption, and may have a column image.

    Args:
        source: A folder or file, or the id of a data set on the hub; ``None`` for a dozen prompts
            that come with this package, without images.

    Raises:
        ConfigError: If it cannot be read.
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
    if file.suffix not in (".txt", ".jsonl"):
        return
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    yield from lines if file.suffix == ".txt" else _prompts_of(lines, file)


def _prompts_of(lines: Sequence[str], file: Path) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            row: Mapping[str, Any] = json.loads(line)
            yield str(row["prompt"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{file}, prompt {number}: no JSON with a prompt: {error}") from error
