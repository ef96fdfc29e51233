"""Read the traces of PyTorch's profiler (Kineto, Chrome's trace events) event by event.

A trace of a million kernels has gigabytes of text: it is read in pieces, and only what attribution
needs is kept, in columns.
"""

import gzip
import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from joulelab.errors import ConfigError

_PIECE = 1 << 23
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHING = ("cuda_runtime", "cuda_driver")
_US = 1e-6
_FORMATS = {
    "double": "fp64",
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "long int": "int64",
    "int": "int32",
    "signed char": "int8",
    "unsigned char": "uint8",
    "TensorList": "",
}
"""Formats by the profiler's names; what is not here is named as there."""


class Signature(NamedTuple):
    """What makes a kernel distinct in a trace, besides what its operator was given."""

    name: str
    device: int
    stream: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_b: int


class OperatorCall(NamedTuple):
    """An operator and what it was given, alike in every call that is the same work."""

    name: str
    inputs: str = ""  # formats and shapes, "bf16[8, 4096] bf16[4096]"; empty where not recorded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launches:
    """What ran on GPUs, in the order of its start, from the first on; columns of shape ``(n,)``."""

    signatures: tuple[Signature, ...]
    signature: NDArray[np.intp]  # which of the distinct kernels each is
    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    # Index into ranges of the innermost named range in which it was launched; -1 where none was.
    range: NDArray[np.intp]
    # Names of the ranges that the program marked, each time they were entered.
    ranges: tuple[str, ...]
    # Index into operators of the outermost one that launched it; -1 where unknown.
    operator: NDArray[np.intp]
    operators: tuple[OperatorCall, ...]
    lost: int = 0  # launches that the trace tells of without a kernel, where buffers ran over

    def __len__(self) -> int:
        return int(self.signature.size)

    @property
    def names(self) -> list[str]:
        """The kernel's name of each launch."""
        return [self.signatures[index].name for index in self.signature.tolist()]


def read_trace(path: Path) -> Launches:
    """Read a trace that ``torch.profiler`` exported, plain or gzipped.

    Raises ConfigError if it is absent, no trace, cut off, or holds nothing that ran on a GPU.
    """
    columns = _Columns()
    with _opened(path) as file:
        for event in _events(file, path):
            columns.add(event)
    if not columns.start:
        raise ConfigError(
            f"{path} holds nothing that ran on a GPU; profile with ProfilerActivity.CUDA."
        )
    return columns.launches()


def _opened(path: Path) -> TextIO:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8")
        return path.open(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"trace must be a file that torch.profiler exported (export_chrome_trace), got {path}: "
            f"{error.strerror}."
        ) from error


def _events(file: TextIO, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of the list called traceEvents, decoded one by one."""
    decode = json.JSONDecoder().raw_decode
    text, place = _begin(file, path)
    while True:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        if place < len(text) and text[place] == "]":
            return
        try:
            event, place = decode(text, place)
        except json.JSONDecodeError as error:
            more = file.read(_PIECE)
            if not more:
                raise ConfigError(f"{path} is cut off: the profiler did not finish it.") from error
            text, place = text[place:] + more, 0
            continue
        yield event


def _begin(file: TextIO, path: Path) -> tuple[str, int]:
    text = file.read(_PIECE)
    while '"traceEvents"' not in text:
        more = file.read(_PIECE)
        if not more:
            raise ConfigError(f"{path} has no traceEvents: it is no trace of torch.profiler.")
        text = text[-32:] + more
    start = text.index("[", text.index('"traceEvents"'))
    return text, start + 1


@dataclass(slots=True)
class _Ranges:
    """Named intervals on the threads of the host."""

    start: "array[float]" = field(default_factory=lambda: array("d"))
    stop: "array[float]" = field(default_factory=lambda: array("d"))
    thread: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, event: Mapping[str, Any], thread: int) -> None:
        self.start.append(event["ts"])
        self.stop.append(event["ts"] + event.get("dur", 0))
        self.thread.append(thread)

    def containing(
        self, at: NDArray[np.float64], thread: NDArray[np.int64], *, outermost: bool
    ) -> NDArray[np.intp]:
        """Return for each instant on a thread the range that holds it; -1 where none does."""
        found = np.full(at.size, -1, dtype=np.intp)
        threads = np.asarray(self.thread)
        for each in np.unique(threads):
            own = np.flatnonzero(threads == each)
            own = own[np.argsort(np.asarray(self.start)[own], kind="stable")]
            asked = np.flatnonzero(thread == each)
            if asked.size:
                inner = self._innermost(own, at[asked], outermost=outermost)
                found[asked] = np.where(inner >= 0, own[inner], -1)
        return found

    def _innermost(
        self, own: NDArray[np.intp], at: NDArray[np.float64], *, outermost: bool
    ) -> NDArray[np.intp]:
        start, stop = np.asarray(self.start)[own], np.asarray(self.stop)[own]
        parent = _parents(start, stop)
        place = np.searchsorted(start, at, side="right") - 1
        while (outside := (place >= 0) & (stop[place] < at)).any():
            place[outside] = parent[place[outside]]
        while outermost and (nested := (place >= 0) & (parent[place] >= 0)).any():
            place[nested] = parent[place[nested]]
        return place


def _parents(start: NDArray[np.float64], stop: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return for each interval, sorted by start, the one that holds it; -1 for none."""
    parents = np.full(start.size, -1, dtype=np.intp)
    open_ones: list[int] = []
    for index, (begins, ends) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)):
        while open_ones and stop[open_ones[-1]] <= begins:
            open_ones.pop()
        if open_ones and stop[open_ones[-1]] >= ends:
            parents[index] = open_ones[-1]
        open_ones.append(index)
    return parents


class _Columns:
    """Events as they come, in columns."""

    def __init__(self) -> None:
        self.start = array("d")
        self._duration = array("d")
        self._signature = array("q")
        self._correlation = array("q")
        self._signatures: dict[Signature, int] = {}
        self._launched = array("q")
        self._launched_at = array("d")
        self._launched_by = array("q")
        self._threads: dict[tuple[Any, Any], int] = {}
        self._marks, self._names = _Ranges(), list[str]()
        self._operators, self._calls = _Ranges(), array("q")
        self._distinct: dict[OperatorCall, int] = {}
        self._kinds: dict[str, Callable[[Mapping[str, Any]], None]] = {
            **dict.fromkeys(_ON_GPU, self._add_kernel),
            **dict.fromkeys(_LAUNCHING, self._add_launch),
            "user_annotation": self._add_mark,
            "cpu_op": self._add_operator,
        }

    def add(self, event: Mapping[str, Any]) -> None:
        if event.get("ph") == "X" and (kind := self._kinds.get(event.get("cat", ""))):
            kind(event)

    def launches(self) -> Launches:
        order = np.argsort(np.asarray(self.start), kind="stable")
        start = np.asarray(self.start)[order]
        correlation = np.asarray(self._correlation)[order]
        at, thread, lost = self._launched_from(correlation)
        marks = self._marks.containing(at, thread, outermost=False)
        by = self._operators.containing(at, thread, outermost=True)
        of_call = np.array(self._calls or [-1])
        return Launches(
            signatures=tuple(self._signatures),
            signature=np.asarray(self._signature)[order].astype(np.intp),
            start_s=(start - start[0]) * _US,
            duration_s=np.asarray(self._duration)[order] * _US,
            range=marks,
            ranges=tuple(self._names),
            operator=np.where(by >= 0, of_call[by], -1),
            operators=tuple(self._distinct),
            lost=lost,
        )

    def _launched_from(
        self, correlation: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """Return when and on which thread each kernel was launched, and launches without one."""
        known = np.asarray(self._launched, dtype=np.int64)
        order = np.argsort(known, kind="stable")
        known = known[order]
        if not known.size:
            return np.full(correlation.size, -1.0), np.full(correlation.size, -1), 0
        place = np.minimum(np.searchsorted(known, correlation), known.size - 1)
        is_known = known[place] == correlation
        at = np.where(is_known, np.asarray(self._launched_at)[order][place], -1.0)
        thread = np.where(is_known, np.asarray(self._launched_by)[order][place], -1)
        return at, thread, int(known.size - np.isin(known, correlation).sum())

    def _add_kernel(self, event: Mapping[str, Any]) -> None:
        args = event.get("args", {})
        signature = Signature(
            name=event["name"],
            device=int(args.get("device", -1)),
            stream=int(args.get("stream", -1)),
            grid=tuple(args.get("grid", ())),
            block=tuple(args.get("block", ())),
            shared_b=int(args.get("shared memory", 0)),
        )
        self.start.append(event["ts"])
        self._duration.append(event.get("dur", 0))
        self._signature.append(self._signatures.setdefault(signature, len(self._signatures)))
        self._correlation.append(int(args.get("correlation", -1)))

    def _add_launch(self, event: Mapping[str, Any]) -> None:
        if not _launches(event["name"]):
            return
        self._launched.append(int(event.get("args", {}).get("correlation", -1)))
        self._launched_at.append(event["ts"])
        self._launched_by.append(self._thread(event))

    def _add_mark(self, event: Mapping[str, Any]) -> None:
        self._names.append(event["name"])
        self._marks.add(event, self._thread(event))

    def _add_operator(self, event: Mapping[str, Any]) -> None:
        call = OperatorCall(event["name"], _inputs(event.get("args", {})))
        self._calls.append(self._distinct.setdefault(call, len(self._distinct)))
        self._operators.add(event, self._thread(event))

    def _thread(self, event: Mapping[str, Any]) -> int:
        return self._threads.setdefault((event.get("pid"), event.get("tid")), len(self._threads))


def _launches(call: str) -> bool:
    return "Launch" in call or "Memcpy" in call or "Memset" in call


def _inputs(args: Mapping[str, Any]) -> str:
    """Return formats and shapes of an operator's tensors; of those in a list, shapes alone."""
    shapes, kinds = args.get("Input Dims", ()), args.get("Input type", ())
    pairs = zip(shapes, kinds, strict=False)
    return " ".join(f"{_FORMATS.get(kind, kind)}{shape}" for shape, kind in pairs if shape)
