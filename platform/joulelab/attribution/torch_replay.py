"""Launch recorded calls on a real GPU: each distinct kernel from a CUDA graph, over and over."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from time import perf_counter, sleep
from typing import Any

import torch
from torch import distributed
from torch.utils._pytree import tree_leaves, tree_map

from joulelab.attribution.pacing import Pause
from joulelab.attribution.profile import SPARSE_S, rough_j, that_matter
from joulelab.attribution.torch_calls import RecordedCall, Steps, TensorLike, record, steps_of
from joulelab.attribution.torch_data import filled
from joulelab.errors import MeasurementError
from joulelab.tracing.kernels import kernel_of
from joulelab.tracing.layouts import extent
from joulelab.tracing.program import ALL_REDUCE, LINKS_AWAKE
from joulelab.workloads.base import Workload

logger = logging.getLogger(__name__)

_CACHES = 3.0
"""Cold operands are spread over this many times the last cache."""
_MOST_COPIES = 64
_MOST_B = 4e9
_GRAPH_S = 0.004
_MOST_IN_GRAPH = 400
_BURST_S = 50e-6
"""Launches between two pauses, at least: about as finely as kernels take turns in a program. After
bursts of ms products of an H200 took up to 7 % more than at the same clock beside lighter kernels,
so paced they are within 4 % of it (experiments/results/h200_pauses)."""
_RUN_S = 0.03
"""A unit of work of a measurement lasts about this long."""


class TorchPlayer:
    """Replays the distinct kernels of a workload that is prepared on this process's GPU.

    It is run once for every phase, of which the kernels of those ``chosen`` are replayed unless
    they are ``known``, and may be closed afterwards.
    """

    def __init__(
        self, workload: Workload[Any], chosen: Callable[[str], bool], known: Collection[str] = ()
    ) -> None:
        self._calls: dict[str, tuple[RecordedCall, Steps]] = {}
        joules = [
            self._added(steps_of(workload, phase)) for phase in workload.phases if chosen(phase)
        ]
        asked = [name for name in that_matter(joules) if name not in known]
        self._names = tuple(filter(self._can_be_launched, asked))
        sums = [call for call, _ in self._calls.values() if call.operator.name == ALL_REDUCE]
        if sums and LINKS_AWAKE not in known:
            least = min(sums, key=lambda call: call.operator.moved_b)
            self._calls[LINKS_AWAKE] = self._calls[least.kernel]
            self._names = (LINKS_AWAKE, *self._names)  # at the warmth of the idle window
        self._graph: _Graph | None = None

    def names(self) -> Sequence[str]:
        """Return the distinct kernels that matter and can be replayed."""
        return self._names

    def launch(self, name: str, pause: Pause | None = None) -> int:
        """Launch a kernel over and over for some 30 ms, to the end; return how often."""
        if self._graph is None or self._graph.what != (name, pause):
            self._graph = None  # frees the one before
            torch.cuda.empty_cache()
            call, steps = self._calls[name]
            with steps.around():
                self._graph = _Graph.of(name, call, pause)
        return self._graph.run()

    def close(self) -> None:
        """Free what it holds."""
        self._graph = None
        torch.cuda.empty_cache()

    def _added(self, steps: Steps) -> Mapping[str, float]:
        """Record a phase's calls; return what each distinct kernel takes, roughly."""
        joules: dict[str, float] = {}
        for call in record(steps, with_data=True).values():
            self._calls.setdefault(call.kernel, (call, _without_program(steps)))
            each_j = rough_j(kernel_of(call.operator))
            joules[call.kernel] = joules.get(call.kernel, 0.0) + each_j
        return joules

    def _can_be_launched(self, name: str) -> bool:
        call, steps = self._calls[name]
        try:
            with steps.around(), torch.no_grad():
                call.function(*_made(call.args), **_made(call.kwargs or {}))
                torch.cuda.synchronize()
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            logger.info("%s cannot be launched alone: %s", name, error)
            return False
        return True


def _without_program(steps: Steps) -> Steps:
    """Return steps that hold on to no network."""
    return Steps(once=lambda: None, whole=lambda: None, around=steps.around)


@dataclass(slots=True, kw_only=True)
class _Graph:
    """Launches of one kernel, captured."""

    what: tuple[str, Pause | None]
    graph: torch.cuda.CUDAGraph
    launches: int
    held: list[Any]
    repeats: int = 1

    @classmethod
    def of(cls, name: str, call: RecordedCall, pause: Pause | None) -> "_Graph":
        """Capture as many launches as take some ms, or one of those that shall be far apart."""
        operands = _copies(call)
        each_s = _seconds(call, operands)
        launches = 1 if name == LINKS_AWAKE else _that_take(_GRAPH_S, each_s)
        row = _that_take(_BURST_S, each_s)
        launches = len(operands) * ceil(launches / len(operands))
        graph = torch.cuda.CUDAGraph()
        try:
            # A thread of NCCL that looks for errors may make calls meanwhile.
            with torch.no_grad(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for index in range(launches):
                    args, kwargs = operands[index % len(operands)]
                    call.function(*args, **kwargs)
                    if pause is not None and ((index + 1) % row == 0 or index + 1 == launches):
                        _rest(pause, index % row + 1)
        except RuntimeError as error:
            raise MeasurementError(f"{name} cannot be captured: {error}") from error
        made = cls(what=(name, pause), graph=graph, launches=launches, held=operands)
        made.run()
        start_s = perf_counter()
        made.run()
        made.repeats = _agreed(ceil(_RUN_S / (perf_counter() - start_s)))
        return made

    def run(self) -> int:
        for _ in range(self.repeats):
            self.graph.replay()
            if self.what[0] == LINKS_AWAKE:
                torch.cuda.synchronize()
                sleep(SPARSE_S)
        torch.cuda.synchronize()
        return self.repeats * self.launches


def _rest(pause: Pause, launches: int) -> None:
    """Have the device wait, a thread of one SM counting its clocks, for so many launches."""
    clocks = launches * pause.duration_s * pause.sm_clock_mhz * 1e6
    # No public call waits within a graph.
    torch.cuda._sleep(round(clocks))  # type: ignore[no-untyped-call]  # noqa: SLF001


def _that_take(seconds: float, each_s: float) -> int:
    """Return how many launches take so long."""
    return _agreed(min(_MOST_IN_GRAPH, ceil(seconds / each_s)))


def _seconds(call: RecordedCall, operands: list[Any]) -> float:
    """Return the time of a launch, its own and the host's, to size a graph."""
    num = 3
    for _ in range(2):  # the first launches load the kernel
        torch.cuda.synchronize()
        start_s = perf_counter()
        with torch.no_grad():
            for index in range(num):
                args, kwargs = operands[index % len(operands)]
                call.function(*args, **kwargs)
            torch.cuda.synchronize()
        each_s = (perf_counter() - start_s) / num
        num = _agreed(min(_MOST_IN_GRAPH, max(3, ceil(_GRAPH_S / each_s))))
    return each_s


def _agreed(num: int) -> int:
    """Return a number, of several ranks the largest: all of them must launch a sum as often."""
    if not distributed.is_initialized():
        return max(1, num)
    found = torch.tensor([max(1, num)], device="cuda")
    distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return int(found)


def _copies(call: RecordedCall) -> list[tuple[Any, Any]]:
    """Return operands for as many launches as it takes for cold ones to leave the cache.

    What the program made itself is left where the kernel before left it: it is shared.
    """
    given = tree_leaves((call.args, call.kwargs))
    cold_b = sum(_size_b(one) for one in given if isinstance(one, TensorLike) and one.is_cold)
    cache_b = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    num = 1
    if cold_b:
        num = min(_MOST_COPIES, ceil(_CACHES * cache_b / cold_b), max(1, int(_MOST_B / cold_b)))
    shared: dict[int, torch.Tensor] = {}
    return [
        (_made(call.args, shared), _made(call.kwargs or {}, shared)) for _ in range(max(1, num))
    ]


def _made(given: Any, shared: dict[int, torch.Tensor] | None = None) -> Any:
    """Return arguments with tensors for what was recorded of them."""

    def made(value: Any) -> Any:
        if not isinstance(value, TensorLike):
            return value
        if value.is_cold or shared is None:
            return _tensor(value)
        if id(value) not in shared:
            shared[id(value)] = _tensor(value)
        return shared[id(value)]

    return tree_map(made, given)


def _tensor(like: TensorLike) -> torch.Tensor:
    """Make a tensor of that shape, stride, format and data."""
    if like.data is None:
        raise MeasurementError(f"No data was kept of a tensor of {like.shape}.")
    size = extent(like.shape, like.stride)
    flat = filled(like.data, size, like.dtype, "cuda")
    return flat.as_strided(like.shape, like.stride)


def _size_b(like: TensorLike) -> float:
    return float(prod(like.shape)) * like.dtype.itemsize
