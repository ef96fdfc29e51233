"""Scores kept on disk: outputs depend on no clock and on no batch, so each is scored once."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from json import dumps, loads
from pathlib import Path
from typing import Any

from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.quality.base import Data, Metric, Score
from joulelab.quality.subject import weights_digest
from joulelab.workloads.disk_cache import (
    Form,
    digest,
    made_once,
    package_versions,
    read_entry,
    source_digests,
    user_folder,
    write_entry,
)

_SOURCES = ("core/number_format.py", "quality/*.py", "workloads/*.py")
_PACKAGES = (
    *("diffusers", "rouge-score", "sacrebleu", "torch", "torchao", "torchmetrics", "torchvision"),
    *("transformers", "ultralytics"),
)
Interval = tuple[float, float]


class ScoreCache:
    """Scores by a digest of all that they depend on, in a folder.

    That is the workload with what its outputs depend on, the metric with its knobs, the content of
    the data set, the reference for a metric that compares, the processor, the source that loads,
    asks and scores, and the versions of the libraries that do. By default the folder is in the
    user's cache folder (``$XDG_CACHE_HOME/joulelab/scores``, ``~/.cache/joulelab/scores`` if that
    is unset).
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_folder("scores")
        self._code = {
            "sources": source_digests(_SOURCES),
            "versions": package_versions(_PACKAGES),
            "processor": _processor(),
        }

    def key(
        self,
        workload: str,
        outputs: Mapping[str, KnobValue],
        metric: Metric,
        data: Data,
        reference: Mapping[str, KnobValue],
    ) -> str:
        """Return the digest under which a score is kept.

        ``outputs`` is what the outputs depend on, ``reference`` what those of the reference do.
        """
        compares = "reference_outputs" in metric.needs
        return digest(
            {
                "workload": workload,
                "outputs": dict(outputs),
                "metric": metric.name,
                "knobs": asdict(metric),  # type: ignore[call-overload]  # a dataclass
                "version": metric.version,
                "judge": weights_digest(getattr(metric, "weights", None)),
                "data": data.digest,
                "reference": dict(reference) if compares else None,
                **self._code,
            }
        )

    def find(self, key: str) -> Score | None:
        """Return the score under ``key``; ``None`` if there is none."""
        return read_entry(self._path(key), _SCORE)

    def keep(self, key: str, score: Score) -> None:
        """Keep ``score`` under ``key``."""
        write_entry(self._path(key), score, _SCORE)

    def interval(self, key: str, make: Callable[[], Interval]) -> Interval:
        """Return the interval under ``key``; if there is none, ``make`` it and keep it."""
        return made_once(self._path(key), make, _INTERVAL)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


class NoCache(ScoreCache):
    """Keeps nothing: for outputs of which nobody knows what they depend on."""

    @override
    def find(self, key: str) -> Score | None:
        return None

    @override
    def keep(self, key: str, score: Score) -> None:
        return

    @override
    def interval(self, key: str, make: Callable[[], Interval]) -> Interval:
        return make()


def _score(text: bytes) -> Score:
    fields: dict[str, Any] = loads(text)
    return Score(**{**fields, "samples": _as_tuples(fields["samples"])})


def _interval(text: bytes) -> Interval:
    low, high = loads(text)
    return float(low), float(high)


_SCORE = Form(what="a score", encode=lambda score: dumps(asdict(score)).encode(), decode=_score)
_INTERVAL = Form(what="an interval", encode=lambda ends: dumps(ends).encode(), decode=_interval)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _processor() -> str:
    try:
        import torch
    except ModuleNotFoundError:  # what scores itself may do without
        return "cpu"
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"
