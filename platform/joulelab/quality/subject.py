"""What the evaluation of outputs needs of a workload, and the scores that are kept of it.

Outputs depend on no clock and on no batch, so each is scored once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from hashlib import file_digest, sha256
from json import dumps, loads
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.quality.base import Data, Metric, Score
from joulelab.workloads.base import Workload
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
from joulelab.workloads.network import NetworkWorkload

_SEED = 0
_DRAWN_IN = "fp32"
_WHOLE_B = 1 << 24

AnyWorkload = TypeVar("AnyWorkload", bound=Workload[Any])
AnyNetwork = TypeVar("AnyNetwork", bound=NetworkWorkload[Any])


class Subject(ABC, Generic[AnyWorkload]):
    """A configured workload, prepared or not, as something whose outputs can be scored."""

    metrics: ClassVar[tuple[str, ...]]
    """Registry names of the metrics to score by where none are named; they need no download."""
    answers: ClassVar[tuple[type[Any], ...]]
    """Protocols of :mod:`joulelab.quality.base` that what :meth:`open` yields satisfies."""
    is_traceable: ClassVar[bool] = True
    """Whether :attr:`identity` tells all that outputs depend on, so that a score is good later."""

    def __init__(self, workload: AnyWorkload) -> None:
        self.workload = workload

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, KnobValue]:
        """What the outputs depend on: the knobs that change them, and what weights are read."""

    @staticmethod
    @abstractmethod
    def read_data(source: str | None) -> Data:
        """Read a data set that such a workload can be scored on.

        ``source`` is a folder or file, or the id of a data set on the hub; ``None`` is the small
        one that comes with this package. Raises ConfigError if it cannot be read.
        """

    @abstractmethod
    def open(self) -> AbstractContextManager[Any]:
        """Load what satisfies :attr:`answers`, and free it at the end of the ``with`` block.

        Raises ConfigError if the device lacks the precision, or weights cannot be read, DeviceError
        if it has too little memory.
        """


class NetworkSubject(Subject[AnyNetwork]):
    """A network, loaded alone and freed when it has been asked.

    Its outputs depend on every knob that :attr:`without_effect` does not name, and on the content
    of the files that :attr:`folders` name. Random weights are the same in every precision but for
    rounding, so that two precisions can be compared.
    """

    without_effect: ClassVar[frozenset[str]] = frozenset({"batch"})
    """Knobs on which no output depends."""
    folders: ClassVar[tuple[str, ...]] = ("weights",)
    """Knobs that may name a folder or a file that is read."""

    @property
    @override
    def identity(self) -> Mapping[str, KnobValue]:
        knobs = asdict(self.workload.settings)
        kept = {name: value for name, value in knobs.items() if name not in self.without_effect}
        return {**kept, **{f"{name} read": weights_digest(kept[name]) for name in self.folders}}

    network: Any = None  # the network while it is loaded

    def outputs(self, network: Any) -> Any:
        """Return what answers for a network that is loaded; by default this subject itself."""
        return self

    def build(self, workload: Any, device: Any) -> Any:
        """Make the network of ``workload``, of which this is a subject, on ``device``."""
        return workload.network(device)

    @contextmanager
    @override
    def open(self) -> Generator[Any]:
        from joulelab.workloads import accelerator

        device = accelerator.select_device()
        accelerator.require_precision(self.workload.settings.precision, device)
        try:
            with accelerator.memory_errors(self.workload.title):
                self.network = self._stored(device)
                yield self.outputs(self.network)
        finally:
            self.network = None
            self.workload.close()
            accelerator.release_memory()

    def _stored(self, device: Any) -> Any:
        """Build the network and store it in its precision.

        Random weights are drawn in single precision and rounded, so that what the outputs of two
        precisions differ in comes from the precisions.
        """
        from joulelab.workloads import formats

        settings = self.workload.settings
        network = self._built(self.workload, device)
        rounds = formats.storage_dtype(settings.precision) != formats.storage_dtype(_DRAWN_IN)
        if rounds and getattr(settings, "weights", None) is None:
            exact = type(self.workload)(replace(settings, precision=_DRAWN_IN))
            network.load_state_dict(self._built(exact, device).state_dict())
        formats.store_in(network, settings.precision)
        return network

    def _built(self, workload: Any, device: Any) -> Any:
        from joulelab.workloads import accelerator

        with accelerator.seeded(_SEED, device):
            return self.build(workload, device)


def require_no_source(source: str | None) -> None:
    """Refuse a data set from elsewhere; ConfigError if there is one."""
    if source is not None:
        raise ConfigError(
            f"This network knows its own data set alone; leave data out, got {source!r}."
        )


def weights_digest(weights: str | None) -> str:
    """Return what names the weights: a digest of a folder's files, else ``weights`` itself.

    Of files beyond 16 MB it is name, size and time of change that count, since reading all of a
    checkpoint takes longer than many an evaluation of it.
    """
    if weights is None:
        return "random"
    path = Path(weights)
    if not path.exists():
        return weights
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    content = [(str(file.relative_to(path)), _file_digest(file)) for file in files]
    return sha256(repr(content).encode()).hexdigest()


def _file_digest(file: Path) -> str:
    status = file.stat()
    if status.st_size > _WHOLE_B:
        return f"{status.st_size} {status.st_mtime_ns}"
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


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
