"""Recordings of speech, and what is said in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joulelab.errors import ConfigError
from joulelab.quality.hub_rows import hub_rows
from joulelab.quality.image_data import content_digest
from joulelab.quality.protocols import FloatArray

RATE_HZ = 16_000
"""Samples a second of every recording, as Whisper takes them."""

_NUM, _DURATION_S, _WORDS = 12, 5.0, 12
_SEED = 3000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpeechData:
    """A data set for networks that hear speech.

    Attributes:
        name: What it is called.
        recordings: Each of shape (samples,), from -1 to 1, at ``RATE_HZ``.
        texts: What is said in each, which the network is made to read along.
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
    """Read recordings.

    A folder holds .wav files of 16 kHz, and beside each a .txt file of the same name with what is
    said. A data set of the hub has columns audio and text.

    Args:
        source: A folder, or the id of a data set on the hub; ``None`` for noise that swells and
            ebbs as speech does, and generated texts, which it does not say.

    Raises:
        ConfigError: If it cannot be read.
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
    from joulelab.workloads import generated_language
    from joulelab.workloads.whisper_network import speech_like

    seeds = range(_SEED, _SEED + _NUM)
    return SpeechData(
        name="noise like speech",
        recordings=tuple(speech_like(_DURATION_S, RATE_HZ, seed) for seed in seeds),
        texts=tuple(generated_language.text(_WORDS, seed) for seed in seeds),
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
