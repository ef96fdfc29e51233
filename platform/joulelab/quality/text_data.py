"""Texts to read, prompts with what a good continuation would be, and recordings of speech."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from joulelab.errors import ConfigError
from joulelab.quality.base import FloatArray, hub_rows
from joulelab.quality.image_data import content_digest

RATE_HZ = 16_000  # samples a second of every recording, as Whisper takes them
_NUM, _DURATION_S, _WORDS = 12, 5.0, 12
_SPEECH_SEED = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextData:
    """A data set for networks that read and write text.

    Tokens of ``texts`` are to be predicted, ``prompts`` to be continued; ``references`` are right
    continuations of each, empty if there are none.
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
    """Read a data set; ConfigError if it cannot be read.

    A folder, or a file, holds running texts (``.txt``) and lines of JSON (``.jsonl``): objects with
    ``text``, or with ``prompt`` and ``reference`` or ``references``. A data set of the hub is named
    ``ID``, ``ID:CONFIGURATION``, or with ``@SPLIT`` at the end, and has columns of these names; its
    texts are one running text, joined by blank lines. ``None`` is the small data set that comes
    with this package.
    """
    if source is None:
        return _of_rows("tiny", json_rows(files("joulelab.quality").joinpath("tiny.jsonl")))
    path = Path(source)
    if path.exists():
        return _of_rows(path.name, [row for file in _files(path) for row in _file_rows(file)])
    rows = hub_rows(source)
    read = _of_rows(source, rows)
    joined = "\n\n".join(str(row["text"]) for row in rows if "text" in row)
    return TextData(
        name=source,
        texts=(joined,) if joined.strip() else (),
        prompts=read.prompts,
        references=read.references,
    )


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.iterdir())
    found = [file for file in found if file.suffix in (".txt", ".jsonl")]
    if not found:
        raise ConfigError(f"A data set of texts holds .txt or .jsonl files, but {path} has none.")
    return found


def _file_rows(file: Path) -> Iterator[Mapping[str, Any]]:
    if file.suffix == ".txt":
        yield {"text": file_text(file)}
    else:
        yield from json_rows(file)


def json_rows(file: Any, keys: Sequence[str] = ("text", "prompt")) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of a file: objects that have one of ``keys``, by a ConfigError."""
    # Not splitlines: a text may hold other separators of lines, which JSON need not escape.
    for number, line in enumerate(file_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{file}:{number} is not JSON: {error}") from error
        if not isinstance(row, dict) or not row.keys() & {*keys}:
            raise ConfigError(f"{file}:{number} must be an object with a {' or a '.join(keys)}.")
        yield row


def file_text(file: Any) -> str:
    """Return a file's text, without the mark at its begin that some editors write."""
    try:
        return str(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} must be text in UTF-8: {error}.") from error


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
    given = row.get("reference") or row.get("references") or ()
    return tuple(map(str, given if isinstance(given, list | tuple) else (given,)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpeechData:
    """A data set for networks that hear speech.

    Recordings are of shape (samples,), from -1 to 1, at ``RATE_HZ``; ``texts`` are what is said in
    each, which the network is made to read along.
    """

    name: str
    recordings: tuple[FloatArray, ...]
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.recordings) != len(self.texts) or not self.texts:
            raise ConfigError(
                f"The data set {self.name} must say what each of its recordings says, got "
                f"{len(self.texts)} texts for {len(self.recordings)}."
            )

    @property
    def digest(self) -> str:
        """Digest of its content."""
        return content_digest(self.texts, self.recordings)

    def readings(self, subject: Any) -> Iterator[tuple[Any, str]]:
        """Yield ``subject`` as it hears a recording, and the text that it is to read."""
        for recording, text in zip(self.recordings, self.texts, strict=True):
            yield subject.hearing(recording), text


def read_speech(source: str | None) -> SpeechData:
    """Read recordings; ConfigError if they cannot be read.

    A folder holds .wav files of 16 kHz, and beside each a .txt file of the same name with what is
    said. A data set of the hub has columns audio and text. ``None`` is noise that swells and ebbs
    as speech does, and generated texts, which it does not say.
    """
    if source is None:
        return _generated()
    folder = Path(source)
    if folder.is_dir():
        files = sorted(folder.glob("*.wav"))
        return SpeechData(
            name=folder.name,
            recordings=tuple(map(_recording, files)),
            texts=tuple(map(_text_beside, files)),
        )
    rows = hub_rows(source)
    try:
        sounds = [(row["audio"]["array"], row["audio"]["sampling_rate"]) for row in rows]
        texts = tuple(str(row["text"]) for row in rows)
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{source} must have columns audio and text, lacks {error}.") from error
    return SpeechData(
        name=source,
        recordings=tuple(_checked(np.asarray(s), int(r), source) for s, r in sounds),
        texts=texts,
    )


def _generated() -> SpeechData:
    from joulelab.workloads.char_lm import generated_text
    from joulelab.workloads.whisper_network import speech_like

    seeds = range(_SPEECH_SEED, _SPEECH_SEED + _NUM)
    return SpeechData(
        name="noise like speech",
        recordings=tuple(speech_like(_DURATION_S, RATE_HZ, seed) for seed in seeds),
        texts=tuple(generated_text(_WORDS, seed) for seed in seeds),
    )


def _recording(file: Path) -> FloatArray:
    from scipy.io import wavfile  # type: ignore[import-untyped]

    try:
        rate_hz, samples = wavfile.read(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is no .wav file that can be read: {error}") from error
    if np.issubdtype(samples.dtype, np.integer):
        samples = samples / np.iinfo(samples.dtype).max
    return _checked(samples, rate_hz, str(file))


def _checked(samples: Any, rate_hz: int, where: str) -> FloatArray:
    if rate_hz != RATE_HZ or samples.ndim != 1:
        raise ConfigError(
            f"Recordings must have one channel and {RATE_HZ} samples a second; {where} has shape "
            f"{samples.shape} and {rate_hz}."
        )
    recording: FloatArray = samples.astype(np.float32)
    return recording


def _text_beside(file: Path) -> str:
    text = file.with_suffix(".txt")
    if not text.is_file():
        raise ConfigError(f"{file} needs a {text.name} beside it with what is said.")
    return text.read_text(encoding="utf-8").strip()
