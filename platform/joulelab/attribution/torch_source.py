"""Profiles of programs on real GPUs, by PyTorch's profiler (Kineto, CUPTI).

Two passes: one in which every call is marked, which says whose each kernel is; and one with the
device's activity alone, back to back and warm, which says how long kernels take in the run. Where
traces are kept a third has the calls unmarked. All are apart from the pass that is metered.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed
from torch.profiler import ProfilerActivity, profile

from joulelab.attribution.collectives import COLLECTIVE
from joulelab.attribution.kineto import Launches, read_trace
from joulelab.attribution.metered import Metered
from joulelab.attribution.profile import MOST_NAMED, KernelCall, PhaseProfile
from joulelab.attribution.torch_calls import IN_A_ROW, MARK, RecordedCall, Steps, record, steps_of
from joulelab.core.measurement import Measurement
from joulelab.tracing.program import ALL_REDUCE
from joulelab.workloads.base import Workload

_WARM_S = 2.0
"""Caches of a busy GPU settle within tenths of a second, clocks that its power limit lowers within
two: of BERT-large at batch 32 on an H100 kernels took 17.0 ms at first, 18.2 after 0.7 s, 18.8 to
19.3 after 2 s, 19.6 after 4 s."""
_TIMED = IN_A_ROW - 1
"""Executions whose kernels are timed."""
_MOST_LAUNCHES = 200_000
_OVERLAP = 1.02


def profiled(
    workload: Workload[Any], measured: Mapping[str, Measurement], traces: Path | None = None
) -> tuple[PhaseProfile, ...]:
    """Return the profiles of a workload that is prepared on this process's GPU.

    The trace of each phase with its calls marked is kept in ``traces``, if that is a folder, as
    ``joulelab kernels`` reads it. Raises MeasurementError if a phase could not be metered.
    """
    return tuple(
        _profiled(workload, phase, measured[phase], traces)
        for phase in workload.phases
        if phase in measured
    )


def _profiled(
    workload: Workload[Any], phase: str, measured: Measurement, traces: Path | None
) -> PhaseProfile:
    steps = steps_of(workload, phase)
    executed_s = steps.work * Metered.of(measured, static_w=0.0).time_s
    marked = marked_launches(steps)
    timed, notes = timed_launches(steps, marked, executed_s)
    if traces is not None:
        slowdown = keep_trace(steps, trace_path(traces, phase)) / executed_s
        held = f"The trace holds {IN_A_ROW} executions, at {slowdown:.2f} times their time."
        notes = (*notes, held)
    calls = tuple(
        _call(marked, number, timed[:, marked.owner == number].sum(axis=1))
        for number in dict.fromkeys(marked.owner[marked.owner >= 0].tolist())
    )
    return PhaseProfile(
        phase=phase,
        executions=steps.executions,
        unit=measured.unit,
        work=steps.work,
        calls=calls,
        stray_s=float(timed[:, marked.owner < 0].sum(axis=1).mean()),
        notes=tuple(f"{phase}: {note}" for note in notes),
    )


def trace_path(folder: Path, phase: str) -> Path:
    """Return where the trace of a phase is kept: of a rank, by its number."""
    folder.mkdir(parents=True, exist_ok=True)
    rank = f"-rank-{distributed.get_rank()}" if distributed.is_initialized() else ""
    return folder / f"{phase}{rank}.json.gz"


def _call(marked: "MarkedLaunches", number: int, each_s: NDArray[np.float64]) -> KernelCall:
    operator, kernel = marked.calls[number].operator, marked.calls[number].kernel
    return KernelCall(
        operator=operator,
        kernel=kernel,
        device_s=float(each_s.mean()),
        launched=tuple(marked.names[index] for index in np.flatnonzero(marked.owner == number)),
        each_s=tuple(each_s.tolist()) if operator.name == ALL_REDUCE else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MarkedLaunches:
    """The kernels of one execution, in order."""

    calls: Mapping[int, RecordedCall]  # the calls, by the number in their marks
    names: list[str]  # the kernel's name of each launch
    owner: NDArray[np.intp]  # the call of each launch; -1 where none was marked around it
    duration_s: NDArray[np.float64]  # time of each, at the pace of a marked execution
    lost: int


def marked_launches(steps: Steps) -> MarkedLaunches:
    """Profile one execution with every call marked."""
    calls: Mapping[int, RecordedCall] = {}

    def run() -> None:
        nonlocal calls
        calls = record(steps, with_data=False)

    launches = read_profile(run, [ProfilerActivity.CPU, ProfilerActivity.CUDA])
    owner = owners(launches, calls)
    known = owner >= 0
    inside = slice(int(np.argmax(known)), len(known) - int(np.argmax(known[::-1])))
    return MarkedLaunches(
        calls=calls,
        names=launches.names[inside],
        owner=owner[inside],
        duration_s=launches.duration_s[inside],
        lost=launches.lost,
    )


def owners(launches: Launches, calls: Mapping[int, RecordedCall]) -> NDArray[np.intp]:
    """Return the number of the call that launched each kernel; -1 where none of ``calls`` did.

    PyTorch launches a sum over ranks within a range of its own, inside of ours. Such kernels run
    one after the other on one stream, so the n-th is of the n-th sum.
    """
    numbers = np.array(
        [int(name[len(MARK) :]) if name.startswith(MARK) else -1 for name in launches.ranges]
        or [-1]
    )
    owner = np.where(launches.range >= 0, numbers[launches.range], -1)
    owner = np.where(np.isin(owner, list(calls)), owner, -1)
    kernels = np.flatnonzero([name.startswith(COLLECTIVE) for name in launches.names])
    sums = [number for number in sorted(calls) if calls[number].operator.name == ALL_REDUCE]
    if len(kernels) == len(sums):
        owner[kernels] = sums
    return owner.astype(np.intp)


def timed_launches(
    steps: Steps, marked: MarkedLaunches, executed_s: float
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the time of each marked launch in warm executions, and what could not be found.

    Times have the shape ``(executions, launches)``.
    """
    num = len(marked.names)
    phase_s, phase_launches = executed_s * steps.executions, num * steps.executions
    warm = min(int(_WARM_S / phase_s) + 1, max(1, _MOST_LAUNCHES // phase_launches))

    def run() -> None:
        with steps.around():
            for _ in range(warm):
                steps.whole()
            steps.reset()
            _run_in_a_row(steps)

    launches = read_profile(run, [ProfilerActivity.CUDA])
    notes = []
    if marked.lost:
        notes.append(f"Launches that the profiler lost, whose time is in no part: {marked.lost}.")
    last = slice(-_TIMED * num, None)
    names = np.array(launches.names, dtype=object)[last]
    if names.size == _TIMED * num and (names.reshape(_TIMED, num) == marked.names).all():
        durations = launches.duration_s[last].reshape(_TIMED, num)
        notes += _overlaps(launches, last)
        return durations, tuple(notes)
    notes.append(_differing(marked.names, names.tolist()[-num:]))
    return paced_by_name(marked, launches)[None, :], tuple(notes)


def _differing(marked: Sequence[str], timed: Sequence[str]) -> str:
    """Say that executions differ, and in which kernels most."""
    more = Counter(marked)
    more.subtract(timed)
    most = sorted(more.items(), key=lambda item: -abs(item[1]))[:MOST_NAMED]
    found = "; ".join(f"{count:+d} x {name[:60]}" for name, count in most if count)
    return (
        "Two executions launched different kernels; times are of one execution, at the mean pace "
        f"of all kernels of a name. The marked one had {found or 'the same in another order'}."
    )


def _overlaps(launches: Launches, last: slice) -> list[str]:
    start, duration = launches.start_s[last], launches.duration_s[last]
    stop = np.maximum.accumulate(start + duration)
    covered_s = float((stop - np.maximum(start, np.r_[start[0], stop[:-1]])).clip(0).sum())
    share = float(duration.sum()) / covered_s
    if share < _OVERLAP:
        return []
    return [f"Kernels overlap: they sum to {share:.2f} times the time in which any ran."]


def paced_by_name(marked: MarkedLaunches, launches: Launches) -> NDArray[np.float64]:
    """Return the times of a marked execution, brought to the warm run's mean for each name.

    Kernels of one name work on several shapes, so a mean alone would give all of them one time.
    """
    marked_names, names = (np.array(each, dtype=object) for each in (marked.names, launches.names))
    paced_s = marked.duration_s.copy()
    for name in set(marked.names) & set(launches.names):
        own = marked_names == name
        paced_s[own] *= launches.duration_s[names == name].mean() / paced_s[own].mean()
    return paced_s


def keep_trace(steps: Steps, path: Path) -> float:
    """Profile executions as they follow each other, unmarked, with what operators are given.

    Returns:
        Time of an execution under the profiler, in seconds.
    """
    taken_s = 0.0

    def run() -> None:
        nonlocal taken_s
        with steps.around():
            steps.reset()
            start_s = time.perf_counter()
            _run_in_a_row(steps)
            taken_s = (time.perf_counter() - start_s) / IN_A_ROW

    export_profile(run, [ProfilerActivity.CPU, ProfilerActivity.CUDA], path, record_shapes=True)
    return taken_s


def _run_in_a_row(steps: Steps) -> None:
    for _ in range(IN_A_ROW):
        steps.once()
    torch.cuda.synchronize()


def read_profile(run: Callable[[], object], activities: list[ProfilerActivity]) -> Launches:
    """Profile a run, and return what ran on the GPU."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        export_profile(run, activities, path)
        return read_trace(path)


def export_profile(
    run: Callable[[], object],
    activities: list[ProfilerActivity],
    path: Path,
    *,
    record_shapes: bool = False,
) -> None:
    """Profile a run, and write its trace."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Profiler clears events")  # there is one cycle
        with profile(activities=activities, record_shapes=record_shapes) as profiler:
            run()
    profiler.export_chrome_trace(str(path))
