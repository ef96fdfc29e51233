"""Texts to read, and prompts with what a good continuation would be."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from joulelab.errors import ConfigError
from joulelab.quality.hub_rows import hub_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TextData:
    """A data set for networks that read and write text.

    Attributes:
        name: What it is called.
        texts: Running texts, whose tokens are to be predicted.
        prompts: Beginnings that are to be continued.
        references: For each prompt, continuations that are right; empty if there are none.
    """

    name: str
    texts: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    references: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.references and len(self.references) != len(self.prompts):
            raise ConfigError(
                "Either every prompt has references or none has; got "
                f"{len(self.references)} references for {len(self.prompts)} prompts."
            )
        if not (self.texts or self.prompts):
            raise ConfigError(f"The data set {self.name} holds neither texts nor prompts.")

    def readings(self, subject: Any) -> Iterator[tuple[Any, str]]:
        """Yield ``subject`` and each text that it is to read."""
        return ((subject, text) for text in self.texts)

    @property
    def digest(self) -> str:
        """Digest of its content."""
        content = {key: value for key, value in asdict(self).items() if key != "name"}
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_text_data(source: str | None) -> TextData:
    """Read a data set.

    A folder, or a file, holds running texts (``.txt``) and lines of JSON (``.jsonl``): objects
    with ``text``, or with ``prompt`` and ``reference`` or ``references``. A data set of the
    hub is named ``ID``, ``ID:CONFIGURATION``, or with ``@SPLIT`` at the end, and has columns of
    these names; its texts are one running text, joined by blank lines.

    Args:
        source: A folder or file, or the id of a data set on the hub; ``None`` for the small one
            that comes with this package.

    Raises:
        ConfigError: If it cannot be read.
    """
    if source is None:
        return _of_rows("tiny", _json_rows(files("joulelab.quality").joinpath("tiny.jsonl")))
    path = Path(source)
    if path.exists():
        return _of_rows(path.name, [row for file in _files(path) for row in _file_rows(file)])
    return _of_hub(source)


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.iterdir())
    found = [file for file in found if file.suffix in (".txt", ".jsonl")]
    if not found:
        raise ConfigError(f"A data set of texts holds .txt or .jsonl files, but {path} has none.")
    return found


def _file_rows(file: Path) -> Iterator[Mapping[str, Any]]:
    if file.suffix == ".txt":
        yield {"text": file.read_text(encoding="utf-8")}
    else:
        yield from _json_rows(file)


def _json_rows(file: Any) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{file}:{number} is not JSON: {error}") from error
        if not isinstance(row, dict) or not row.keys() & {"text", "prompt"}:
            raise ConfigError(f"{file}:{number} must be an object with a text or a prompt.")
        yield row


def _of_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> TextData:
    rows = list(rows)
    prompts = [row for row in rows if row.get("prompt")]
    references = tuple(_references(row) for row in prompts)
    return TextData(
        name=name,
        texts=tuple(str(row["text"]) for row in rows if row.get("text")),
        prompts=tuple(str(row["prompt"]) for row in prompts),
        references=references if any(references) else (),
    )


def _references(row: Mapping[str, Any]) -> tuple[str, ...]:
    several: Sequence[Any] = row.get("references") or ()
    one = row.get("reference")
    return (str(one),) if one else tuple(map(str, several))


def _of_hub(source: str) -> TextData:
    rows = hub_rows(source)
    read = _of_rows(source, rows)
    joined = "\n\n".join(str(row["text"]) for row in rows if "text" in row)
    return TextData(
        name=source,
        texts=(joined,) if joined.strip() else (),
        prompts=read.prompts,
        references=read.references,
    )
